/* SPDX-License-Identifier: MIT
 *
 * The element types of the kernels. A 16-bit number becomes a float when it is read and is rounded (to nearest, ties to even)
 * when it is written; all arithmetic is in float. So a kernel is written once for all types:
 *
 *     struct Scale {
 *         template <class Y> static DEVICE void element(Y &y, float factor) { y = y * factor; }
 *     };
 *     return with_type(type, [&](auto zero) {
 *         using T = decltype(zero);
 *         return launch_elements<Scale>(cost, stream, n, inout(static_cast<T *>(y), n), value(factor));
 *     });
 */
#ifndef KERNELS_KERNEL_TYPES_H
#define KERNELS_KERNEL_TYPES_H

#include <cstring>

#ifdef __CUDACC__
#include <cuda_fp16.h>
#endif

namespace kernel {

DEVICE uint32_t float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

DEVICE float bits_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* bfloat16 is the upper half of a float: round to nearest, ties to even; a NaN stays one (quiet). */
DEVICE uint16_t bf16_bits(float x)
{
    const uint32_t bits = float_bits(x);
    const uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u), quiet = bits | 0x400000u;
    return static_cast<uint16_t>((x != x ? quiet : rounded) >> 16);
}

/* float -> IEEE half, ties to even. Normal results: the exponent is moved and the carry of the rounding may run into it (65520
 * becomes inf). Below 2^-14 adding 0.5 lets the float unit round at the half's last bit, 2^-24. */
DEVICE uint16_t f16_bits(float x)
{
#ifdef __CUDA_ARCH__
    return __half_as_ushort(__float2half_rn(x));
#else
    const uint32_t bits = float_bits(x);
    const uint32_t size = bits & 0x7fffffffu;
    const uint32_t normal = (size - (112u << 23) + 0xfffu + ((size >> 13) & 1u)) >> 13;
    const uint32_t denormal = float_bits(bits_float(size) + 0.5f) - float_bits(0.5f);
    const uint32_t special = size > 0x7f800000u ? 0x7e00u : 0x7c00u;
    uint32_t result = size < (113u << 23) ? denormal : normal;
    result = size >= (143u << 23) ? special : result;
    return static_cast<uint16_t>(result | ((bits >> 16) & 0x8000u));
#endif
}

/* Half -> float is exact: a denormal is its integer times 2^-24. */
DEVICE float f16_value(uint16_t x)
{
#ifdef __CUDA_ARCH__
    return __half2float(__ushort_as_half(x));
#else
    const uint32_t size = x & 0x7fffu;
    const uint32_t normal = (size << 13) + ((size >= 0x7c00u ? 224u : 112u) << 23);
    const float denormal = static_cast<float>(static_cast<int32_t>(size)) * 5.9604644775390625e-8f;
    const uint32_t result = size < 0x400u ? float_bits(denormal) : normal;
    return bits_float(result | (static_cast<uint32_t>(x & 0x8000u) << 16));
#endif
}

struct Bf16 {
    uint16_t bits;
    Bf16() = default;
    DEVICE Bf16(float x) : bits(bf16_bits(x)) {}
    DEVICE operator float() const { return bits_float(static_cast<uint32_t>(bits) << 16); }
};

struct F16 {
    uint16_t bits;
    F16() = default;
    DEVICE F16(float x) : bits(f16_bits(x)) {}
    DEVICE operator float() const { return f16_value(bits); }
};

/* A number as it is, of the same type. Of a struct that is assigned compilers make no vector. */
DEVICE void copy(float &to, float from) { to = from; }
template <class T> DEVICE void copy(T &to, const T &from) { to.bits = from.bits; }

/* Stores x and returns what it has become in the type of `to`. */
template <class T> DEVICE float store(T &to, float x)
{
    const T rounded = x;
    copy(to, rounded);
    return rounded;
}

/* Calls f with a zero of the C++ type. */
template <class F> inline cudaError_t with_type(enum element_type type, F f)
{
    switch (type) {
    case ELEMENT_F32:
        return f(float());
    case ELEMENT_BF16:
        return f(Bf16());
    case ELEMENT_F16:
        return f(F16());
    }
    return cudaErrorInvalidValue;
}

} // namespace kernel

#endif
