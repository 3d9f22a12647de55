/* SPDX-License-Identifier: MIT
 *
 * The one GPU header: exactly one vendor, and the check macros. Host code includes this and writes CUDA's names.
 *
 * Two families of checks. GPU_TRY returns from a function that owns nothing; GPU_GOTO jumps to its clean-up with the
 * first error kept. Both report file, line, the call's text and the error's name and sentence through log_error.
 * In clean-up call the function plainly and ignore its value.
 */
#ifndef GPU_GPU_H
#define GPU_GPU_H

#if defined(GPU_VENDOR_CUDA)
#include "vendors/cuda.h"
#elif defined(GPU_VENDOR_SOFT)
#include "vendors/soft.h"
#else
#error "define GPU_VENDOR_SOFT or GPU_VENDOR_CUDA"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Each returns 0 if the call succeeded, else reports it and returns the exit code of common/sys/exit_codes.h that fits
 * (3 for memory and devices, 6 for a collective's time limit, 1 else). They clear CUDA's sticky last error. */
int gpu_report_cuda(cudaError_t error, const char *call, const char *file, int line);
int gpu_report_cublas(cublasStatus_t status, const char *call, const char *file, int line);
int gpu_report_nccl(ncclResult_t result, const char *call, const char *file, int line);
#if GPU_HAS_CUDNN
int gpu_report_cudnn(cudnnStatus_t status, const char *call, const char *file, int line);
#define GPU_STATUS_CUDNN cudnnStatus_t: gpu_report_cudnn,
#else
#define GPU_STATUS_CUDNN
#endif

#define GPU_STATUS(call)                                       \
    _Generic((call),                                           \
        cudaError_t: gpu_report_cuda,                          \
        cublasStatus_t: gpu_report_cublas,                     \
        GPU_STATUS_CUDNN                                       \
        ncclResult_t: gpu_report_nccl)((call), #call, __FILE__, __LINE__)

#define GPU_TRY(call)                        \
    do {                                     \
        int gpu_status_ = GPU_STATUS(call);  \
        if (gpu_status_)                     \
            return gpu_status_;              \
    } while (0)

#define GPU_GOTO(call, status, label)        \
    do {                                     \
        int gpu_status_ = GPU_STATUS(call);  \
        if (gpu_status_) {                   \
            (status) = gpu_status_;          \
            goto label;                      \
        }                                    \
    } while (0)

/* The same for functions of ours that return an exit code. */
#define TRY(call)                  \
    do {                           \
        int status_ = (call);      \
        if (status_)               \
            return status_;        \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
