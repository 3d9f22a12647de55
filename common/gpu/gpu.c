/* SPDX-License-Identifier: MIT
 *
 * Reports of failed calls: one line with the call, the error's name and its sentence, and the exit code that fits.
 */
#include "gpu/gpu.h"

#include <string.h>

#include "sys/exit_codes.h"
#include "sys/log.h"

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The soft GPU knows the whole story of its last error; CUDA tells no more than the error's sentence. */
static const char *detail(void)
{
#ifdef GPU_VENDOR_SOFT
    return softErrorDetail();
#else
    return "";
#endif
}

int gpu_report_cuda(cudaError_t error, const char *call, const char *file, int line)
{
    if (error == cudaSuccess)
        return EXIT_OK;
    const char *more = detail();
    log_error("%s:%d: %s: %s: %s%s%s", base_name(file), line, call, cudaGetErrorName(error), cudaGetErrorString(error),
              *more ? ": " : "", more);
    cudaGetLastError();
    switch ((int)error) {
    case cudaErrorMemoryAllocation:
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
        return EXIT_RESOURCE;
    default:
        return EXIT_CHECK_FAILED;
    }
}

int gpu_report_cublas(cublasStatus_t status, const char *call, const char *file, int line)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return EXIT_OK;
    const char *more = detail();
    log_error("%s:%d: %s: %s%s%s", base_name(file), line, call, cublasGetStatusString(status), *more ? ": " : "", more);
    cudaGetLastError();
    return EXIT_CHECK_FAILED;
}

int gpu_report_nccl(ncclResult_t result, const char *call, const char *file, int line)
{
    if (result == ncclSuccess)
        return EXIT_OK;
    const char *more = ncclGetLastError(NULL);
    log_error("%s:%d: %s: %s%s%s", base_name(file), line, call, ncclGetErrorString(result), more && *more ? ": " : "",
              more ? more : "");
    return result == ncclSystemError ? EXIT_RESOURCE : EXIT_CHECK_FAILED;
}
