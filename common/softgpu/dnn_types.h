/* SPDX-License-Identifier: MIT
 *
 * 16-bit numbers to floats and back (to nearest, ties to even), a few at a time: for what oneDNN does not do.
 */
#ifndef SOFTGPU_DNN_TYPES_H
#define SOFTGPU_DNN_TYPES_H

#include <string.h>

#include "dnn.h"

static inline float dnn_to_float(const void *values, softDnnDataType_t type, size_t i)
{
    if (type == SOFTDNN_DATA_FLOAT)
        return ((const float *)values)[i];
    if (type == SOFTDNN_DATA_HALF)
        return (float)((const _Float16 *)values)[i];
    const uint32_t bits = (uint32_t)((const uint16_t *)values)[i] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline void dnn_from_float(void *values, softDnnDataType_t type, size_t i, float value)
{
    uint32_t bits;
    if (type == SOFTDNN_DATA_FLOAT) {
        ((float *)values)[i] = value;
        return;
    }
    if (type == SOFTDNN_DATA_HALF) {
        ((_Float16 *)values)[i] = (_Float16)value;
        return;
    }
    memcpy(&bits, &value, sizeof bits);
    const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    ((uint16_t *)values)[i] = (uint16_t)(nan ? bits >> 16 | 0x40u : rounded);
}

/* to[n] = values[n] */
static inline void dnn_to_floats(float *to, const void *values, softDnnDataType_t type, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = dnn_to_float(values, type, i);
}

/* to[n] += values[n] */
static inline void dnn_add_floats(float *to, const void *values, softDnnDataType_t type, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] += dnn_to_float(values, type, i);
}

static inline void dnn_from_floats(void *to, const float *values, softDnnDataType_t type, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dnn_from_float(to, type, i, values[i]);
}

#endif
