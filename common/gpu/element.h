/* SPDX-License-Identifier: MIT
 *
 * The types that activations, parameters' working copies and gradients may have, with the names that cuBLAS and NCCL give them.
 */
#ifndef GPU_ELEMENT_H
#define GPU_ELEMENT_H

#include <stddef.h>

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
