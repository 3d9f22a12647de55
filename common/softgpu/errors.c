/* SPDX-License-Identifier: MIT
 *
 * Errors: CUDA's names and sentences, the calling thread's last error, a device's sticky one.
 */
#include <stdarg.h>
#include <stdio.h>

#include "core.h"

static const struct {
    softError_t error;
    const char *name, *text;
} table[] = {
    {softSuccess, "cudaSuccess", "no error"},
    {softErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {softErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {softErrorInvalidDevicePointer, "cudaErrorInvalidDevicePointer", "invalid device pointer"},
    {softErrorNoDevice, "cudaErrorNoDevice", "no soft GPU is visible"},
    {softErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {softErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {softErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {softErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {softErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
    {softErrorPeerAccessNotEnabled, "cudaErrorPeerAccessNotEnabled", "peer access has not been enabled"},
    {softErrorLaunchTimeout, "cudaErrorLaunchTimeout", "the launch timed out and was terminated"},
    {softErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {softErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {softErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

static _Thread_local softError_t last_error;
static _Thread_local char last_detail[512];

const char *softGetErrorName(softError_t error)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (table[i].error == error)
            return table[i].name;
    }
    return "unrecognized error code";
}

const char *softGetErrorString(softError_t error)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (table[i].error == error)
            return table[i].text;
    }
    return "unrecognized error code";
}

softError_t softPeekAtLastError(void)
{
    return last_error;
}

softError_t softGetLastError(void)
{
    softError_t error = last_error;
    last_error = softSuccess;
    return error;
}

const char *softErrorDetail(void)
{
    return last_error == softSuccess ? "" : last_detail;
}

softError_t soft_fail(softError_t error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_detail, sizeof(last_detail), format, arguments);
    va_end(arguments);
    last_error = error;
    return error;
}

void soft_device_fail(struct soft_device *device, softError_t error, const char *format, ...)
{
    char text[sizeof(device->error_detail)];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    soft_lock(&device->error_lock, "device error");
    if (!device->error) {
        hidden_copy_text(device->error_detail, sizeof(device->error_detail), text);
        __atomic_store_n(&device->error, (uint32_t)error, __ATOMIC_RELEASE);
    }
    soft_unlock(&device->error_lock);
}

softError_t soft_device_error(struct soft_device *device)
{
    softError_t error = (softError_t)__atomic_load_n(&device->error, __ATOMIC_ACQUIRE);
    if (error == softSuccess)
        return softSuccess;
    last_error = error;
    hidden_copy_text(last_detail, sizeof(last_detail), device->error_detail); /* never written again */
    return error;
}
