/* SPDX-License-Identifier: MIT
 *
 * backend.h on CUDA devices.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>

#include "gpu/backend.h"
#include "gpu/memory.h"
#include "sys/clock.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

#define MAX_DEVICES 64
#define POLL_SECONDS 20e-6 /* of gpu_stream_finish after its first millisecond of polling without a pause */

/* One moment known on both clocks: the event and the host's time when it had just happened. */
struct anchor {
    cudaEvent_t event;
    double host_seconds;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct anchor anchors[MAX_DEVICES];

const char *gpu_backend_name(void) { return "cuda"; }

int gpu_configure(const struct gpu_settings *settings)
{
    if (settings->record_path || settings->shape_only) {
        log_error("--record and --shape-only need soft GPUs; the device in use is a CUDA device (say --device soft)");
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
    log_error("no CUDA device: %s", error == cudaSuccess ? "none is visible" : cudaGetErrorString(error));
    cudaGetLastError();
    *count = 0;
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

int gpu_clock_anchor(int device, cudaStream_t stream)
{
    struct anchor *anchor = &anchors[device];
    pthread_mutex_lock(&lock);
    cudaError_t error = anchor->event ? cudaSuccess : cudaEventCreateWithFlags(&anchor->event, cudaEventDefault);
    if (error == cudaSuccess)
        error = cudaEventRecord(anchor->event, stream);
    if (error == cudaSuccess)
        error = cudaEventSynchronize(anchor->event);
    anchor->host_seconds = clock_seconds();
    pthread_mutex_unlock(&lock);
    GPU_TRY(error);
    return EXIT_OK;
}

int gpu_event_time(cudaEvent_t event, double *seconds)
{
    int device = 0;
    float milliseconds = 0;
    GPU_TRY(cudaGetDevice(&device));
    pthread_mutex_lock(&lock);
    cudaError_t error = cudaEventElapsedTime(&milliseconds, anchors[device].event, event);
    *seconds = anchors[device].host_seconds + (double)milliseconds * 1e-3;
    pthread_mutex_unlock(&lock);
    GPU_TRY(error);
    return EXIT_OK;
}

double gpu_busy_seconds(int device)
{
    (void)device;
    return NAN; /* the runtime does not tell */
}

bool gpu_traffic_visit(gpu_traffic_visitor *visit, void *context)
{
    (void)visit;
    (void)context;
    return false; /* what NCCL and the copy engines move can't be counted from here */
}

void gpu_traffic_reset(void) {}

/* Ends a communicator whose collective failed or hangs; the stream can then be given up. */
static int give_up(ncclComm_t comm, ncclResult_t failure, double waited_s, double limit_s)
{
    if (failure != ncclSuccess) {
        const char *why = ncclGetLastError(comm);
        log_error("a collective failed: %s%s%s", ncclGetErrorString(failure), why ? ": " : "", why ? why : "");
    } else {
        log_error("a collective is not done after %.1f s, the limit is %.1f s (--timeout)", waited_s, limit_s);
    }
    ncclCommAbort(comm);
    return failure != ncclSuccess ? EXIT_CHECK_FAILED : EXIT_TIME_LIMIT;
}

int gpu_stream_finish(cudaStream_t stream, ncclComm_t comm, double limit_s)
{
    if (!comm) {
        GPU_TRY(cudaStreamSynchronize(stream));
        return EXIT_OK;
    }
    const double start = clock_seconds();
    for (;;) {
        cudaError_t error = cudaStreamQuery(stream);
        if (error != cudaErrorNotReady) {
            GPU_TRY(error);
            return EXIT_OK;
        }
        ncclResult_t failure = ncclSuccess;
        ncclCommGetAsyncError(comm, &failure);
        const double waited = clock_seconds() - start;
        if ((failure != ncclSuccess && failure != ncclInProgress) || waited > limit_s)
            return give_up(comm, failure == ncclInProgress ? ncclSuccess : failure, waited, limit_s);
        if (waited > 1e-3)
            clock_sleep(POLL_SECONDS);
    }
}

int gpu_finish(void) { return EXIT_OK; }
