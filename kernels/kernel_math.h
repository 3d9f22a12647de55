/* SPDX-License-Identifier: MIT
 *
 * Functions that kernels share. On a GPU the toolkit's own; on the CPU branch-free ones that vectorise, since calls of the C
 * library do not (tanhf: 0.7 GB/s). Errors are those of tests/kernels/math_test.cpp, over all of the range.
 */
#ifndef KERNELS_KERNEL_MATH_H
#define KERNELS_KERNEL_MATH_H

#include "kernels/kernel.h"

namespace kernel {

/* e^x, within 1 unit in the last place (of the smallest denormal, for denormal results); inf, 0 and NaN as the C library's. For
 * x from -104 to 104 only, or NaN. */
DEVICE float exponential_bounded(float x)
{
#ifdef __CUDA_ARCH__
    return expf(x);
#else
    /* 1.5 * 2^23: adding it rounds to the nearest integer n, which stands in the low bits, and 254, two exponents' bias */
    const float shift = 12582912.0f + 254.0f;
    const float shifted = x * 1.44269504f + shift;
    const float n = shifted - shift;
    const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f; /* Cody and Waite: ln 2 in two parts */
    float p = 1.9875691500e-4f; /* e^r on [-ln 2 / 2, ln 2 / 2]: Cephes expf */
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    /* times 2^n in two steps, since 2^n alone may be no normal number: halves of n + 254, moved to the exponent's place */
    const uint32_t both = float_bits(shifted) << 23;
    const uint32_t half = (both >> 1) & 0xff800000u;
    return p * bits_float(half) * bits_float(both - half);
#endif
}

/* The same for x up to 104, or NaN: below -104 e^x is 0 anyway. What a softmax needs: differences to the largest. */
DEVICE float exponential_falling(float x) { return exponential_bounded(x < -104.0f ? -104.0f : x); }

/* The same for any x: from 89 on e^x is inf. NaN passes both bounds. */
DEVICE float exponential(float x) { return exponential_falling(x > 104.0f ? 104.0f : x); }

/* g where `open` is positive, else 0; by bits, since of a choice compilers make a branch, and no vector. */
DEVICE float gated(float g, float open)
{
    const uint32_t keep = 0u - static_cast<uint32_t>(open > 0.0f);
    return bits_float(float_bits(g) & keep);
}

/* max(x, 0), by bits as well. NaN goes through, as in PyTorch: it is not below 0. */
DEVICE float relu(float x)
{
    const uint32_t drop = 0u - static_cast<uint32_t>(x < 0.0f);
    return bits_float(float_bits(x) & ~drop);
}

/* 1 / (1 + e^-x): small values keep their relative precision, which 1 + tanh loses. Within 3 units in the last place; a result
 * below the smallest normal number may be 0. */
DEVICE float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

/* For x from -104 to 104 only, or NaN. */
DEVICE float sigmoid_bounded(float x) { return 1.0f / (1.0f + exponential_bounded(-x)); }

/* tanh x, within 2 units in the last place: near 0 an odd polynomial (Cephes tanhf), beyond 1 - 2 / (e^2|x| + 1); -0, infinities
 * and NaN as the C library's. */
DEVICE float hyperbolic_tangent(float x)
{
#ifdef __CUDA_ARCH__
    return tanhf(x);
#else
    const uint32_t sign = float_bits(x) & 0x80000000u;
    const float size = bits_float(float_bits(x) ^ sign), z = x * x;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z + -5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z + -3.33332819422e-1f;
    const float small = p * z * size + size;
    const float large = 1.0f - 2.0f / (exponential(2.0f * size) + 1.0f);
    return bits_float(float_bits(size < 0.625f ? small : large) | sign);
#endif
}

} // namespace kernel

#endif
