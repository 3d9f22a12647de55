/* SPDX-License-Identifier: MIT
 *
 * Functions that kernels share. On a GPU the toolkit's own; on the CPU branch-free ones that vectorise, since calls of the C
 * library do not (tanhf: 0.7 GB/s). Errors are those of tests/kernels/math_test.c, over all of the range.
 */
#ifndef KERNELS_KERNEL_MATH_H
#define KERNELS_KERNEL_MATH_H

#include "kernels/kernel.h"

namespace kernel {

/* e^x, within 1 unit in the last place (of the smallest denormal, for denormal results); inf, 0 and NaN as the C library's. */
DEVICE float exponential(float x)
{
#ifdef __CUDA_ARCH__
    return expf(x);
#else
    x = x > 89.0f ? 89.0f : x; /* beyond these e^x is inf and 0 anyway; NaN passes both */
    x = x < -104.0f ? -104.0f : x;
    const float shift = 12582912.0f; /* 1.5 * 2^23: adding it rounds to the nearest integer */
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
    /* times 2^n in two steps, since 2^n alone may be no normal number */
    const uint32_t k = float_bits(shifted) - float_bits(shift);
    const uint32_t half = static_cast<uint32_t>(static_cast<int32_t>(k) >> 1);
    return p * bits_float((half + 127u) << 23) * bits_float((k - half + 127u) << 23);
#endif
}

/* 1 / (1 + e^-x): small values keep their relative precision, which 1 + tanh loses. */
DEVICE float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

} // namespace kernel

#endif
