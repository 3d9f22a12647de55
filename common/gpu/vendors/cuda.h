/* SPDX-License-Identifier: MIT
 *
 * CUDA's own names: the toolkit's headers and what differs between its versions.
 */
#ifndef GPU_VENDORS_CUDA_H
#define GPU_VENDORS_CUDA_H

#include "config.h"

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <nvtx3/nvToolsExt.h>

#if HAVE_CUDNN
#include <cudnn.h>
#define GPU_HAS_CUDNN 1
#else
#define GPU_HAS_CUDNN 0
#endif

#define GPU_VENDOR_NAME "cuda"

#endif
