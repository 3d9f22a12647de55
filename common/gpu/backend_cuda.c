/* SPDX-License-Identifier: MIT
 *
 * CUDA behind backend.h.
 */
#include <math.h>
#include <stdio.h>

#include "backend.h"
#include "memory.h"
#include "sys/clock.h"
#include "sys/exit_codes.h"
#include "sys/log.h"
#include "vendor.h"

#define DEVICES_MAX 64
#define POLL_BUSY_S 0.001 /* most steps end within this: then no sleep delays the reading of the clock */
#define POLL_SLEEP_S 50e-6

/* Ties a device's clock to the host's: this event happened at this host time. */
struct anchor {
    cudaEvent_t event;
    double host_s;
};

static struct anchor anchors[DEVICES_MAX];

const char *gpu_backend_name(void)
{
    return "cuda";
}

const char *vendor_error_detail(void)
{
    return "";
}

bool vendor_is_resource_error(cudaError_t error)
{
    switch (error) {
    case cudaErrorMemoryAllocation:
    case cudaErrorInitializationError:
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorDevicesUnavailable:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorSystemNotReady:
        return true;
    default:
        return false;
    }
}

bool gpu_executes(void) { return true; }

int gpu_configure(const struct gpu_settings *settings)
{
    if (settings->record_path) {
        log_error("--record %s: only soft GPUs record a run; this one uses CUDA", settings->record_path);
        return EXIT_RESOURCE;
    }
    if (settings->shape_only) {
        log_error("--shape-only: only soft GPUs can leave the work out; this run uses CUDA");
        return EXIT_RESOURCE;
    }
    memory_set_limit(settings->device_memory);
    return EXIT_OK;
}

int gpu_device_count(int *count)
{
    *count = 0;
    cudaError_t error = cudaGetDeviceCount(count);
    if (error == cudaSuccess && *count > 0)
        return EXIT_OK;
    (void)cudaGetLastError();
    *count = 0;
    log_error("no CUDA device: %s; use --device soft",
              error == cudaSuccess ? "none is visible" : cudaGetErrorString(error));
    return EXIT_RESOURCE;
}

int gpu_device_describe(int device, char *name, size_t name_size, char *cores, size_t cores_size)
{
    struct cudaDeviceProp properties;
    GPU_TRY(cudaGetDeviceProperties(&properties, device));
    snprintf(name, name_size, "%s", properties.name);
    if (cores_size > 0)
        cores[0] = '\0';
    return EXIT_OK;
}

/* The event is one of the current device, as CUDA's elapsed time asks. */
int gpu_event_time(cudaEvent_t event, double *seconds)
{
    int device = 0;
    GPU_TRY(cudaGetDevice(&device));
    if (device >= DEVICES_MAX || !anchors[device].event) {
        log_error("device %d: an event's time was asked for before gpu_clock_anchor", device);
        return EXIT_CHECK_FAILED;
    }
    float milliseconds = 0;
    GPU_TRY(cudaEventElapsedTime(&milliseconds, anchors[device].event, event));
    *seconds = anchors[device].host_s + 1e-3 * (double)milliseconds;
    return EXIT_OK;
}

int gpu_clock_anchor(int device, cudaStream_t stream)
{
    if (device < 0 || device >= DEVICES_MAX) {
        log_error("device %d: at most %d devices have a clock", device, DEVICES_MAX);
        return EXIT_RESOURCE;
    }
    struct anchor *anchor = &anchors[device];
    if (!anchor->event)
        GPU_TRY(cudaEventCreateWithFlags(&anchor->event, cudaEventDefault));
    GPU_TRY(cudaStreamSynchronize(stream));
    double before = clock_seconds();
    GPU_TRY(cudaEventRecord(anchor->event, stream));
    GPU_TRY(cudaEventSynchronize(anchor->event));
    anchor->host_s = 0.5 * (before + clock_seconds());
    return EXIT_OK;
}

double gpu_busy_seconds(int device)
{
    (void)device;
    return NAN;
}

bool gpu_traffic_visit(gpu_traffic_visitor *visit, void *context)
{
    (void)visit;
    (void)context;
    return false;
}

void gpu_traffic_reset(void) {}

/* A communicator's own error; ncclInProgress is none. */
static int check_communicator(ncclComm_t comm)
{
    ncclResult_t failure = ncclSuccess;
    if (!comm)
        return EXIT_OK;
    GPU_TRY(ncclCommGetAsyncError(comm, &failure));
    if (failure == ncclSuccess || failure == ncclInProgress)
        return EXIT_OK;
    log_error("NCCL: %s: %s", ncclGetErrorString(failure), ncclGetLastError(comm));
    return EXIT_CHECK_FAILED;
}

int gpu_stream_finish(cudaStream_t stream, ncclComm_t comm, double limit_s)
{
    double start = clock_seconds();
    for (;;) {
        cudaError_t error = cudaStreamQuery(stream);
        if (error == cudaSuccess)
            return check_communicator(comm);
        if (error != cudaErrorNotReady)
            return gpu_report_cuda(error, "cudaStreamQuery", __FILE__, __LINE__);
        (void)cudaGetLastError();
        TRY(check_communicator(comm));
        double passed = clock_seconds() - start;
        if (passed > limit_s) {
            log_error("time limit of %.1f s: the stream has not finished%s", limit_s,
                      comm ? "; a rank is missing from a collective" : "");
            return EXIT_TIME_LIMIT;
        }
        if (passed > POLL_BUSY_S)
            clock_sleep(POLL_SLEEP_S);
    }
}

bool gpu_device_is_lost(void)
{
    return false;
}

static void stall(void *nothing)
{
    (void)nothing;
    for (;;)
        clock_sleep(1);
}

int gpu_stall(cudaStream_t stream)
{
    GPU_TRY(cudaLaunchHostFunc(stream, stall, NULL));
    return EXIT_OK;
}

void gpu_record_note(const char *what, const char *text, uint32_t number)
{
    (void)what;
    (void)text;
    (void)number;
}

void gpu_record_setting(const char *name, const char *value)
{
    (void)name;
    (void)value;
}

int gpu_finish(void)
{
    return EXIT_OK;
}
