/* SPDX-License-Identifier: MIT
 *
 * backend.h on soft GPUs.
 */
#include <stdio.h>

#include "gpu/backend.h"
#include "gpu/memory.h"
#include "sys/exit_codes.h"
#include "sys/log.h"
#include "sys/topology.h"

const char *gpu_backend_name(void) { return "soft"; }

/* The devices of a node share its cores evenly; a device has one at least. */
static int default_cores(int devices_used)
{
    int cores = topology_usable_cores() / (devices_used > 0 ? devices_used : 1);
    return cores > 0 ? cores : 1;
}

int gpu_configure(const struct gpu_settings *settings)
{
    const struct soft_settings soft = {
        .memory_bytes = settings->device_memory,
        .cores_per_device = settings->cores_per_device > 0 ? settings->cores_per_device : default_cores(settings->devices_used),
        .collective_limit_s = settings->collective_limit_s,
        .record_path = settings->record_path,
        .shape_only = settings->shape_only,
    };
    memory_set_limit(settings->device_memory);
    GPU_TRY(softConfigure(&soft));
    return EXIT_OK;
}

int gpu_device_count(int *count)
{
    *count = 0;
    cudaError_t error = cudaGetDeviceCount(count);
    if (error == cudaSuccess && *count > 0)
        return EXIT_OK;
    log_error("no soft GPU: %s", error == cudaSuccess ? "none is visible" : softErrorDetail());
    cudaGetLastError();
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

double gpu_busy_seconds(int device) { return softBusySeconds(device); }

bool gpu_traffic_visit(gpu_traffic_visitor *visit, void *context)
{
    softTrafficVisit(visit, context);
    return true;
}

void gpu_traffic_reset(void) { softTrafficReset(); }

int gpu_stream_finish(cudaStream_t stream, ncclComm_t comm, double limit_s)
{
    (void)limit_s; /* gpu_configure gave it to the collectives, which keep it themselves */
    cudaError_t error = cudaStreamSynchronize(stream);
    ncclResult_t failure = ncclSuccess;
    if (comm && ncclCommGetAsyncError(comm, &failure) == ncclSuccess && failure != ncclSuccess) {
        log_error("%s", ncclGetLastError(comm));
        cudaGetLastError();
        ncclCommAbort(comm);
        return failure == ncclRemoteError ? EXIT_TIME_LIMIT : EXIT_CHECK_FAILED;
    }
    GPU_TRY(error);
    return EXIT_OK;
}

int gpu_finish(void)
{
    GPU_TRY(softRecordFinish());
    return EXIT_OK;
}
