/* SPDX-License-Identifier: MIT
 *
 * The soft GPU behind backend.h.
 */
#include <stdio.h>
#include <string.h>

#include "backend.h"
#include "sys/exit_codes.h"
#include "sys/log.h"
#include "sys/topology.h"
#include "vendor.h"

const char *gpu_backend_name(void)
{
    return "soft";
}

const char *vendor_error_detail(void)
{
    return softErrorDetail();
}

bool vendor_is_resource_error(cudaError_t error)
{
    return error == cudaErrorMemoryAllocation || error == cudaErrorNoDevice || error == cudaErrorInvalidDevice;
}

static bool executes = true;

bool gpu_executes(void) { return executes; }

int gpu_configure(const struct gpu_settings *settings)
{
    executes = !settings->shape_only;
    int cores = settings->cores_per_device;
    if (cores == 0 && settings->devices_used > 0)
        cores = topology_usable_cores() / settings->devices_used;
    struct soft_settings soft = {
        .memory_bytes = settings->device_memory,
        .cores_per_device = cores > 0 ? cores : 1,
        .collective_limit_s = settings->collective_limit_s,
        .record_path = settings->record_path,
        .shape_only = settings->shape_only,
    };
    GPU_TRY(softConfigure(&soft));
    return EXIT_OK;
}

int gpu_device_count(int *count)
{
    if (cudaGetDeviceCount(count) == cudaSuccess)
        return EXIT_OK;
    log_error("no soft GPU: %s", softErrorDetail());
    (void)cudaGetLastError();
    return EXIT_RESOURCE;
}

int gpu_device_describe(int device, char *name, size_t name_size, char *cores, size_t cores_size)
{
    struct cudaDeviceProp properties;
    GPU_TRY(cudaGetDeviceProperties(&properties, device));
    snprintf(name, name_size, "%s", properties.name);
    GPU_TRY(softDeviceCores(device, cores, cores_size));
    return EXIT_OK;
}

int gpu_event_time(cudaEvent_t event, double *seconds)
{
    GPU_TRY(softEventTime(event, seconds));
    return EXIT_OK;
}

int gpu_clock_anchor(int device, cudaStream_t stream)
{
    (void)device;
    (void)stream;
    return EXIT_OK;
}

double gpu_busy_seconds(int device)
{
    return softBusySeconds(device);
}

bool gpu_traffic_visit(gpu_traffic_visitor *visit, void *context)
{
    softTrafficVisit(visit, context);
    return true;
}

void gpu_traffic_reset(void)
{
    softTrafficReset();
}

/* The soft GPU keeps the limit itself (gpu_configure has told it). A late collective fails and lets its stream go on;
 * the stream then fails too, and the communicator's sentence is the better one. */
int gpu_stream_finish(cudaStream_t stream, ncclComm_t comm, double limit_s)
{
    (void)limit_s;
    cudaError_t stopped = cudaStreamSynchronize(stream);
    ncclResult_t failure = ncclSuccess;
    if (stopped == cudaErrorLaunchTimeout) {
        log_error("%s", softErrorDetail());
        return EXIT_TIME_LIMIT;
    }
    if (comm)
        GPU_TRY(ncclCommGetAsyncError(comm, &failure));
    if (failure == ncclSuccess)
        return gpu_report_cuda(stopped, "cudaStreamSynchronize", __FILE__, __LINE__);
    const char *sentence = ncclGetLastError(comm);
    log_error("%s", sentence);
    return strncmp(sentence, "time limit", strlen("time limit")) == 0 ? EXIT_TIME_LIMIT : EXIT_CHECK_FAILED;
}

bool gpu_device_is_lost(void)
{
    return softDevicesLost();
}

int gpu_stall(cudaStream_t stream)
{
    GPU_TRY(softTestStall(stream));
    return EXIT_OK;
}

void gpu_record_note(const char *what, const char *text, uint32_t number)
{
    softRecordNote(what, text, number);
}

void gpu_record_setting(const char *name, const char *value)
{
    softRecordSetting(name, value);
}

int gpu_finish(void)
{
    cudaError_t failed = softRecordFinish();
    if (failed == cudaErrorUnknown) /* the file could not be written, and that has been reported */
        return EXIT_RESOURCE;
    return gpu_report_cuda(failed, "softRecordFinish", __FILE__, __LINE__);
}
