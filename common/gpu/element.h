/* SPDX-License-Identifier: MIT
 *
 * The types that activations, parameters' working copies and gradients may have, with the names that cuBLAS and NCCL give them.
 */
#ifndef GPU_ELEMENT_H
#define GPU_ELEMENT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "gpu/gpu.h"

enum element_type { ELEMENT_F32, ELEMENT_BF16, ELEMENT_F16 };

static inline size_t element_size(enum element_type type)
{
    return type == ELEMENT_F32 ? 4 : 2;
}

/* "fp32", "bf16", "fp16": the names of --precision. */
static inline const char *element_name(enum element_type type)
{
    return type == ELEMENT_F32 ? "fp32" : type == ELEMENT_BF16 ? "bf16" : "fp16";
}

static inline cudaDataType_t element_blas_type(enum element_type type)
{
    return type == ELEMENT_F32 ? CUDA_R_32F : type == ELEMENT_BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

/* The type of that name; the options have checked it. */
static inline enum element_type element_named(const char *name)
{
    return !strcmp(name, "bf16") ? ELEMENT_BF16 : !strcmp(name, "fp16") ? ELEMENT_F16 : ELEMENT_F32;
}

/* Element i of host memory, exactly. bfloat16 is the upper half of a float. A half's exponent and fraction, moved to a
 * float's place, make a number too small by 2^112; infinity and NaN have their exponent filled up instead. */
static inline float element_value(enum element_type type, const void *values, size_t i)
{
    uint32_t bits, magnitude;
    float value;

    if (type == ELEMENT_F32)
        return ((const float *)values)[i];
    bits = ((const uint16_t *)values)[i];
    magnitude = type == ELEMENT_BF16 ? (bits & 0x7fffU) << 16 : (bits & 0x7fffU) << 13;
    memcpy(&value, &magnitude, sizeof value);
    if (type == ELEMENT_F16 && magnitude >= 0x0f800000U) {
        magnitude |= 0x7f800000U;
        memcpy(&value, &magnitude, sizeof value);
    } else if (type == ELEMENT_F16) {
        value *= 0x1p112F;
    }
    return bits & 0x8000U ? -value : value;
}

static inline ncclDataType_t element_nccl_type(enum element_type type)
{
    return type == ELEMENT_F32 ? ncclFloat32 : type == ELEMENT_BF16 ? ncclBfloat16 : ncclFloat16;
}

#if GPU_HAS_CUDNN
static inline cudnnDataType_t element_cudnn_type(enum element_type type)
{
    return type == ELEMENT_F32 ? CUDNN_DATA_FLOAT : type == ELEMENT_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
}
#endif

#endif
