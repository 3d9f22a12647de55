/* SPDX-License-Identifier: MIT
 *
 * 16-bit numbers to floats, exactly, and back, rounded to nearest, ties to even: loops that vectorise.
 */
#ifndef SOFTGPU_WIDEN_H
#define SOFTGPU_WIDEN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline void widen_bfloat16(float *restrict to, const void *restrict from, size_t count)
{
    const uint16_t *in = from;
    for (size_t i = 0; i < count; i++)
        to[i] = float_of_bits((uint32_t)in[i] << 16);
}

/* Adds just under half of the last kept place, one more if that place is odd; a NaN keeps a bit of its payload. */
static inline void narrow_bfloat16(void *restrict to, const float *restrict from, size_t count)
{
    uint16_t *out = to;
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = bits_of_float(from[i]);
        const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
        const uint32_t quiet = (bits >> 16) | 0x40u;
        out[i] = (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
    }
}

/* A half's exponent and fraction, moved to a float's place, make a number too small by 2^112; the product with 2^112
 * puts it right, subnormals included. Infinity and NaN have their exponent filled up instead. */
static inline void widen_float16(float *restrict to, const void *restrict from, size_t count)
{
    const uint16_t *in = from;
    for (size_t i = 0; i < count; i++) {
        const uint32_t half = in[i], moved = (half & 0x7fffu) << 13;
        const uint32_t finite = bits_of_float(float_of_bits(moved) * 0x1p112f);
        const uint32_t magnitude = moved >= 0x0f800000u ? moved | 0x7f800000u : finite;
        to[i] = float_of_bits(magnitude | (half & 0x8000u) << 16);
    }
}

/* Numbers below 2^-14 are subnormal halves: adding 0.5 lets the float adder round them to multiples of 2^-24. Others
 * are rounded like bfloat16, 13 places up. From 65520 on the result is infinity. */
static inline void narrow_float16(void *restrict to, const float *restrict from, size_t count)
{
    uint16_t *out = to;
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = bits_of_float(from[i]), magnitude = bits & 0x7fffffffu;
        const uint32_t subnormal = bits_of_float(float_of_bits(magnitude) + 0.5f) - 0x3f000000u;
        const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
        const uint32_t special = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
        uint32_t half = magnitude < 0x38800000u ? subnormal : normal;
        half = magnitude >= 0x477ff000u ? special : half;
        out[i] = (uint16_t)(half | (bits >> 16 & 0x8000u));
    }
}

#endif
