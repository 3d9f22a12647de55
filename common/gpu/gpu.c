/* SPDX-License-Identifier: MIT
 *
 * How a failed call of the vendor's becomes a sentence and an exit code.
 */
#include "gpu.h"

#include <string.h>

#include "sys/exit_codes.h"
#include "sys/log.h"
#include "vendor.h"

static const char *base_name(const char *file)
{
    const char *slash = strrchr(file, '/');
    return slash ? slash + 1 : file;
}

/* The call's name and arguments, cut at 120 characters; the name, its sentence, and the detail if there is one. */
static void report(const char *name, const char *text, const char *detail, const char *call, const char *file, int line)
{
    log_error("%s:%d: %.120s: %s (%s)%s%s", base_name(file), line, call, text, name, detail[0] ? ": " : "", detail);
}

int gpu_report_cuda(cudaError_t error, const char *call, const char *file, int line)
{
    if (error == cudaSuccess)
        return EXIT_OK;
    report(cudaGetErrorName(error), cudaGetErrorString(error), vendor_error_detail(), call, file, line);
    (void)cudaGetLastError();
    if (error == cudaErrorLaunchTimeout)
        return EXIT_TIME_LIMIT;
    return vendor_is_resource_error(error) ? EXIT_RESOURCE : EXIT_CHECK_FAILED;
}

int gpu_report_cublas(cublasStatus_t status, const char *call, const char *file, int line)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return EXIT_OK;
    report("cuBLAS", cublasGetStatusString(status), vendor_error_detail(), call, file, line);
    (void)cudaGetLastError();
    return EXIT_CHECK_FAILED;
}

#if GPU_HAS_CUDNN
int gpu_report_cudnn(cudnnStatus_t status, const char *call, const char *file, int line)
{
    if (status == CUDNN_STATUS_SUCCESS)
        return EXIT_OK;
    report("cuDNN", cudnnGetErrorString(status), vendor_error_detail(), call, file, line);
    (void)cudaGetLastError();
    return EXIT_CHECK_FAILED;
}
#endif

/* A collective that outlived its limit says so at the start of its sentence. */
int gpu_report_nccl(ncclResult_t result, const char *call, const char *file, int line)
{
    if (result == ncclSuccess)
        return EXIT_OK;
    const char *detail = ncclGetLastError(NULL);
    report("NCCL", ncclGetErrorString(result), detail ? detail : "", call, file, line);
    (void)cudaGetLastError();
    return detail && strncmp(detail, "time limit", strlen("time limit")) == 0 ? EXIT_TIME_LIMIT : EXIT_CHECK_FAILED;
}
