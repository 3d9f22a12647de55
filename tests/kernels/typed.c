/* SPDX-License-Identifier: MIT */
#include "typed.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fraction bits and the smallest normal exponent, with which rounding is a matter of the unit in the last place. */
static double half_step(enum element_type type) { return type == ELEMENT_F32 ? 0 : type == ELEMENT_BF16 ? 0x1p-8 : 0x1p-11; }

/* ---- bits of the 16-bit types; finite numbers within their range, and NaN and infinities ------------------------------------ */

static uint16_t to_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (isnan(x))
        return 0x7fc0;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float from_bf16(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint16_t to_f16(float x)
{
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    const double size = fabs((double)x);
    int exponent = 0;
    if (isnan(x))
        return 0x7e00;
    if (size >= 65520)
        return sign | 0x7c00;
    (void)frexp(size, &exponent); /* size in [2^(exponent-1), 2^exponent) */
    exponent = exponent - 1 < -14 ? -14 : exponent - 1;
    const int units = (int)rint(ldexp(size, 10 - exponent)); /* 1024 and more: normal; a carry runs into the exponent */
    return (uint16_t)(sign | (units < 1024 ? units : ((exponent + 14) << 10) + units));
}

static float from_f16(uint16_t half)
{
    const int exponent = half >> 10 & 31, fraction = half & 1023;
    const double size = exponent == 31  ? (fraction ? NAN : INFINITY)
                        : exponent == 0 ? ldexp(fraction, -24)
                                        : ldexp(1024 + fraction, exponent - 25);
    return (float)(half & 0x8000 ? -size : size);
}

/* ---- buffers ------------------------------------------------------------------------------------------------------------------ */

void *typed_device(enum element_type type, float *x, size_t n, size_t offset)
{
    if (type == ELEMENT_F32)
        return test_device(x, n * sizeof *x, offset);
    uint16_t *halves = test_memory(n * sizeof *halves);
    for (size_t i = 0; i < n; i++) {
        halves[i] = type == ELEMENT_BF16 ? to_bf16(x[i]) : to_f16(x[i]);
        x[i] = type == ELEMENT_BF16 ? from_bf16(halves[i]) : from_f16(halves[i]);
    }
    void *device = test_device(halves, n * sizeof *halves, offset);
    free(halves);
    return device;
}

void *typed_random(enum element_type type, float *x, size_t n, uint32_t sequence, float size, size_t offset)
{
    test_random(x, n, sequence);
    for (size_t i = 0; i < n; i++)
        x[i] *= size;
    return typed_device(type, x, n, offset);
}

void typed_read(enum element_type type, float *x, const void *device, size_t n)
{
    if (type == ELEMENT_F32) {
        test_read(x, device, n * sizeof *x);
        return;
    }
    uint16_t *halves = test_memory(n * sizeof *halves);
    test_read(halves, device, n * sizeof *halves);
    for (size_t i = 0; i < n; i++)
        x[i] = type == ELEMENT_BF16 ? from_bf16(halves[i]) : from_f16(halves[i]);
    free(halves);
}

void typed_check(enum element_type type, const char *label, const float *got, const double *expected, size_t n, double relative,
                 double absolute)
{
    char whole[128];
    snprintf(whole, sizeof whole, "%s %s", label, element_name(type));
    /* halves below 2^-14 have a fixed step */
    test_floats(whole, got, expected, n, relative + half_step(type), absolute + (type == ELEMENT_F16 ? 0x1p-25 : 0));
}
