// SPDX-License-Identifier: MIT
//
// The errors of kernel_math.h's functions on the CPU, over every 101st float, in units in the last place (normal results) or of
// the smallest denormal; within their bounds the bounded ones must be the same to the bit. A sigmoid below the smallest normal number is only checked to be no larger than that.
#include <cmath>
#include <cstdio>

#include "kernels/kernel_math.h"

static double error_of(float got, double exact)
{
    const float rounded = static_cast<float>(exact);
    if (std::isnan(exact) || std::isinf(rounded) || rounded == 0.0f)
        return (std::isnan(exact) ? std::isnan(got) : got == rounded) ? 0 : HUGE_VAL;
    int exponent = 0;
    std::frexp(exact, &exponent);
    return std::fabs(got - exact) / std::ldexp(1.0, (exponent - 24 > -149 ? exponent - 24 : -149));
}

static constexpr double SMALLEST_NORMAL = 1.1754943508222875e-38;

struct Worst {
    double normal = 0, denormal = 0;
    void take(float got, double exact)
    {
        double &kind = std::fabs(exact) < SMALLEST_NORMAL ? denormal : normal;
        const double error = error_of(got, exact);
        kind = error > kind ? error : kind;
    }
    bool within(const char *name, double units) const
    {
        std::printf("%s: at most %.2f units in the last place, %.2f for denormal results\n", name, normal, denormal);
        return normal <= units && denormal <= 1;
    }
};

// Equal, or both not a number.
static bool same(float a, float b) { return kernel::float_bits(a) == kernel::float_bits(b) || (std::isnan(a) && std::isnan(b)); }

// Is x outside the bounds of a function, or its result the unbounded one's?
static bool bounded_agrees(float x)
{
    const bool falling = x > 104.0f || same(kernel::exponential_falling(x), kernel::exponential(x));
    const bool bounded = std::fabs(x) > 104.0f || (same(kernel::exponential_bounded(x), kernel::exponential(x)) &&
                                                   same(kernel::sigmoid_bounded(x), kernel::sigmoid(x)));
    if (!falling || !bounded)
        std::printf("%a: %s differs from the function without bounds\n", static_cast<double>(x), falling ? "bounded" : "falling");
    return falling && bounded;
}

int main()
{
    Worst exponential, sigmoid, tangent;
    bool agree = true;
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += 101) {
        const float x = kernel::bits_float(static_cast<uint32_t>(bits));
        const double exact = std::exp(static_cast<double>(x)), logistic = 1 / (1 + std::exp(-static_cast<double>(x)));
        const float found = kernel::sigmoid(x);
        exponential.take(kernel::exponential(x), exact);
        sigmoid.take(logistic < SMALLEST_NORMAL && found >= 0 && found <= SMALLEST_NORMAL ? static_cast<float>(logistic) : found,
                     logistic);
        agree = agree && bounded_agrees(x);
        tangent.take(kernel::hyperbolic_tangent(x), std::tanh(static_cast<double>(x)));
    }
    const bool good[] = {exponential.within("exponential", 1), sigmoid.within("sigmoid", 3), tangent.within("tanh", 2)};
    return agree && good[0] && good[1] && good[2] ? 0 : 1;
}
