/* SPDX-License-Identifier: MIT
 *
 * 16-bit numbers to floats and back (to nearest, ties to even), a few at a time: for what oneDNN does not do.
 */
#ifndef SOFTGPU_DNN_TYPES_H
#define SOFTGPU_DNN_TYPES_H

#include "dnn.h"
#include "widen.h"

static inline float dnn_to_float(const void *values, softDnnDataType_t type, size_t i)
{
    float value;
    if (type == SOFTDNN_DATA_FLOAT)
        return ((const float *)values)[i];
    if (type == SOFTDNN_DATA_HALF)
        widen_float16(&value, (const uint16_t *)values + i, 1);
    else
        widen_bfloat16(&value, (const uint16_t *)values + i, 1);
    return value;
}

static inline void dnn_from_float(void *values, softDnnDataType_t type, size_t i, float value)
{
    if (type == SOFTDNN_DATA_FLOAT)
        ((float *)values)[i] = value;
    else if (type == SOFTDNN_DATA_HALF)
        narrow_float16((uint16_t *)values + i, &value, 1);
    else
        narrow_bfloat16((uint16_t *)values + i, &value, 1);
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
