/* SPDX-License-Identifier: MIT
 *
 * Fill, scale, copy, add, and casts between float and the two 16-bit formats. All are bound by memory.
 */
#include "kernels/kernel_math.h"

using namespace kernel;

namespace {

struct Fill {
    static DEVICE void element(float &y, float value) { y = value; }
};

struct Scale {
    static DEVICE void element(float &y, float factor) { y *= factor; }
};

struct CopyScale {
    static DEVICE void element(float &y, float x, float factor) { y = factor * x; }
};

struct Add {
    static DEVICE void element(float &y, float x) { y += x; }
};

/* bfloat16 is the upper half of a float: round to nearest, ties to even; a NaN stays one (quiet). */
struct CastToBf16 {
    static DEVICE void element(uint16_t &y, float x)
    {
        const uint32_t bits = float_bits(x);
        const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
        const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
        y = static_cast<uint16_t>(nan ? (bits >> 16) | 0x40u : rounded);
    }
};

struct CastFromBf16 {
    static DEVICE void element(float &y, uint16_t x) { y = bits_float(static_cast<uint32_t>(x) << 16); }
};

/* float -> IEEE half, ties to even. Normal results: the exponent is moved and the carry of the rounding may run into it (65520
 * becomes inf). Below 2^-14 adding 0.5 lets the float unit round at the half's last bit, 2^-24. */
struct CastToF16 {
    static DEVICE void element(uint16_t &y, float x)
    {
        const uint32_t bits = float_bits(x);
        const uint32_t size = bits & 0x7fffffffu;
        const uint32_t normal = (size - (112u << 23) + 0xfffu + ((size >> 13) & 1u)) >> 13;
        const uint32_t denormal = float_bits(bits_float(size) + 0.5f) - float_bits(0.5f);
        const uint32_t special = size > 0x7f800000u ? 0x7e00u : 0x7c00u;
        uint32_t result = size < (113u << 23) ? denormal : normal;
        result = size >= (143u << 23) ? special : result;
        y = static_cast<uint16_t>(result | ((bits >> 16) & 0x8000u));
    }
};

/* Half -> float is exact: a denormal is its integer times 2^-24. */
struct CastFromF16 {
    static DEVICE void element(float &y, uint16_t x)
    {
        const uint32_t size = x & 0x7fffu;
        const uint32_t normal = (size << 13) + ((size >= 0x7c00u ? 224u : 112u) << 23);
        const float denormal = static_cast<float>(static_cast<int32_t>(size)) * 5.9604644775390625e-8f;
        const uint32_t result = size < 0x400u ? float_bits(denormal) : normal;
        y = bits_float(result | (static_cast<uint32_t>(x & 0x8000u) << 16));
    }
};

} // namespace

cudaError_t kernel_fill(float *y, float value, size_t n, cudaStream_t stream)
{
    return launch_elements<Fill>({"fill", 0, 4.0 * n}, stream, n, out(y, n), kernel::value(value));
}

cudaError_t kernel_scale(float *y, float factor, size_t n, cudaStream_t stream)
{
    return launch_elements<Scale>({"scale", 1.0 * n, 8.0 * n}, stream, n, inout(y, n), value(factor));
}

cudaError_t kernel_copy_scale(float *y, const float *x, float factor, size_t n, cudaStream_t stream)
{
    return launch_elements<CopyScale>({"copy_scale", 1.0 * n, 8.0 * n}, stream, n, out(y, n), in(x, n), value(factor));
}

cudaError_t kernel_add(float *y, const float *x, size_t n, cudaStream_t stream)
{
    return launch_elements<Add>({"add", 1.0 * n, 12.0 * n}, stream, n, inout(y, n), in(x, n));
}

cudaError_t kernel_cast_f32_bf16(uint16_t *y, const float *x, size_t n, cudaStream_t stream)
{
    return launch_elements<CastToBf16>({"cast_f32_bf16", 0, 6.0 * n}, stream, n, out(y, n), in(x, n));
}

cudaError_t kernel_cast_bf16_f32(float *y, const uint16_t *x, size_t n, cudaStream_t stream)
{
    return launch_elements<CastFromBf16>({"cast_bf16_f32", 0, 6.0 * n}, stream, n, out(y, n), in(x, n));
}

cudaError_t kernel_cast_f32_f16(uint16_t *y, const float *x, size_t n, cudaStream_t stream)
{
    return launch_elements<CastToF16>({"cast_f32_f16", 0, 6.0 * n}, stream, n, out(y, n), in(x, n));
}

cudaError_t kernel_cast_f16_f32(float *y, const uint16_t *x, size_t n, cudaStream_t stream)
{
    return launch_elements<CastFromF16>({"cast_f16_f32", 0, 6.0 * n}, stream, n, out(y, n), in(x, n));
}
