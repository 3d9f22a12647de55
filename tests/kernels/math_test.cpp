// SPDX-License-Identifier: MIT
//
// The error of kernel_math.h's exponential on the CPU, over every 101st float, in units in the last place (normal results) or of
// the smallest denormal.
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

int main()
{
    double worst = 0, worst_denormal = 0;
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += 101) {
        const float x = kernel::bits_float(static_cast<uint32_t>(bits));
        const double exact = std::exp(static_cast<double>(x));
        const double error = error_of(kernel::exponential(x), exact);
        double &kind = exact < 1.1754943508222875e-38 ? worst_denormal : worst;
        kind = error > kind ? error : kind;
    }
    std::printf("exponential: at most %.2f units in the last place, %.2f for denormal results\n", worst, worst_denormal);
    return worst <= 1 && worst_denormal <= 1 ? 0 : 1;
}
