/* SPDX-License-Identifier: MIT
 *
 * What DataParallel sets up once: devices, the replicas that the batch will reach, events, peer access. All memory of a
 * run is allocated here or by the steps' own open functions.
 */
#include <stdlib.h>

#include "dp.h"
#include "gpu/backend.h"
#include "run/schedule.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

static int open_events(struct dp_device *device)
{
    cudaEvent_t *const events[] = {&device->scattered, &device->forwarded, &device->ended, &device->consumed};

    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++)
        GPU_TRY(cudaEventCreateWithFlags(events[i], cudaEventDisableTiming));
    return EXIT_OK;
}

/* An event belongs to the device that records it: `replicated` to device 0, `returned` to the output device. */
static int open_sender_events(struct dp *dp, struct dp_device *device)
{
    GPU_TRY(cudaSetDevice(0));
    GPU_TRY(cudaEventCreateWithFlags(&device->replicated, cudaEventDisableTiming));
    GPU_TRY(cudaSetDevice(dp->output));
    GPU_TRY(cudaEventCreateWithFlags(&device->returned, cudaEventDisableTiming));
    return EXIT_OK;
}

static int open_device(struct dp *dp, int r, size_t batch_max)
{
    struct dp_device *device = &dp->device[r];

    device->open = true;
    TRY(replica_open(&device->replica, dp->model, r, batch_max, true));
    TRY(timeline_open(&device->timeline, r));
    TRY(open_events(device));
    TRY(open_sender_events(dp, device));
    return gpu_clock_anchor(r, device->replica.compute);
}

/* Direct copies between device 0 or the output device and the others, where the machine has a path for them. Without,
 * cudaMemcpyPeerAsync goes through the host. */
static int enable_peer(int device, int peer)
{
    int can = 0;

    GPU_TRY(cudaSetDevice(device));
    GPU_TRY(cudaDeviceCanAccessPeer(&can, device, peer));
    if (!can)
        return EXIT_OK;
    cudaError_t error = cudaDeviceEnablePeerAccess(peer, 0);
    if (error == cudaErrorPeerAccessAlreadyEnabled) {
        (void)cudaGetLastError();
        return EXIT_OK;
    }
    return GPU_STATUS(error);
}

static int enable_peers(struct dp *dp)
{
    for (int a = 0; a < dp->devices_asked; a++) {
        for (int b = 0; b < dp->devices_asked; b++) {
            bool wanted = a == 0 || b == 0 || a == dp->output || b == dp->output;
            if (a != b && wanted && dp->device[a].open && dp->device[b].open)
                TRY(enable_peer(a, b));
        }
    }
    return EXIT_OK;
}

/* PyTorch warns at construction when a device has less than 75 % of another one's memory or multiprocessors. */
static int warn_of_imbalance(const struct dp *dp)
{
    size_t least_memory = SIZE_MAX, most_memory = 0;
    int least_cores = INT32_MAX, most_cores = 0;

    for (int r = 0; r < dp->devices_asked; r++) {
        struct cudaDeviceProp properties;
        GPU_TRY(cudaGetDeviceProperties(&properties, r));
        least_memory = properties.totalGlobalMem < least_memory ? properties.totalGlobalMem : least_memory;
        most_memory = properties.totalGlobalMem > most_memory ? properties.totalGlobalMem : most_memory;
        least_cores = properties.multiProcessorCount < least_cores ? properties.multiProcessorCount : least_cores;
        most_cores = properties.multiProcessorCount > most_cores ? properties.multiProcessorCount : most_cores;
    }
    if ((double)least_memory < 0.75 * (double)most_memory || least_cores < 0.75 * most_cores)
        log_warning(
            "there is an imbalance between the devices: memory from %zu to %zu bytes, multiprocessors from %d to %d; "
            "the weakest has less than 75 %% of the strongest, which will wait for it",
            least_memory, most_memory, least_cores, most_cores);
    return EXIT_OK;
}

/* The most replicas that a micro-batch has (9 rows on 8 devices need 5, 8 rows need 8), and at least device 0. */
static int most_replicas(const struct options *options)
{
    int most = 1;

    for (int k = 0; k < schedule_micro_batches(options); k++) {
        int n = chunk_devices_used(schedule_micro_batch(options, k).count, options->gpus);
        most = n > most ? n : most;
    }
    return most;
}

static int check_devices(const struct dp *dp)
{
    int present = 0;

    TRY(gpu_device_count(&present));
    if (present >= dp->devices_asked)
        return EXIT_OK;
    log_error("--gpus %d: there %s %d device%s", dp->devices_asked, present == 1 ? "is" : "are", present,
              present == 1 ? "" : "s");
    return EXIT_RESOURCE;
}

static int open_parts(struct dp *dp)
{
    size_t batch_max = schedule_batch_max(dp->options, dp->devices_asked);
    struct optimizer_settings settings = options_optimizer(dp->options);

    TRY(check_devices(dp));
    TRY(warn_of_imbalance(dp));
    for (int r = 0; r < dp->devices_used; r++)
        TRY(open_device(dp, r, batch_max));
    if (!dp->device[dp->output].open)
        TRY(open_device(dp, dp->output, 0));
    TRY(enable_peers(dp));
    TRY(optimizer_open(&dp->optimizer, &settings, &dp->device[0].replica));
    TRY(replica_initialize(&dp->device[0].replica, dp->options->seed));
    TRY(dp_scatter_open(dp));
    TRY(dp_replicate_open(dp));
    TRY(dp_gather_open(dp));
    TRY(dp_reduce_open(dp));
    return dp_workers_open(dp);
}

static void close_device(struct dp_device *device)
{
    cudaEvent_t events[] = {device->scattered, device->forwarded,  device->ended,
                            device->consumed,  device->replicated, device->returned};

    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++)
        if (events[i])
            (void)cudaEventDestroy(events[i]);
    timeline_close(&device->timeline);
    replica_close(&device->replica);
}

void dp_close(void *state, bool failed)
{
    struct dp *dp = state;

    dp_workers_close(dp);
    if (failed)
        dp_abort(dp);
    for (int r = 0; r < dp->devices_asked; r++)
        if (dp->device[r].replica.compute) {
            (void)cudaStreamSynchronize(dp->device[r].replica.copy);
            (void)cudaStreamSynchronize(dp->device[r].replica.compute);
        }
    dp_reduce_close(dp);
    dp_gather_close(dp);
    dp_replicate_close(dp);
    dp_scatter_close(dp);
    optimizer_close(&dp->optimizer);
    for (int r = 0; r < dp->devices_asked; r++)
        if (dp->device[r].open)
            close_device(&dp->device[r]);
    free(dp);
}

int dp_open(void **state, const struct run *run)
{
    const struct options *options = run->options;
    struct dp *dp = calloc(1, sizeof *dp);

    if (!dp) {
        log_error("dp: no memory");
        return EXIT_RESOURCE;
    }
    dp->options = options;
    dp->model = run->model;
    dp->dataset = run->dataset;
    dp->devices_asked = options->gpus;
    dp->devices_used = most_replicas(options);
    dp->output = options->output_device;
    dp->per_replica_loss = options->dp_loss != DP_LOSS_GATHERED;
    dp->keeps_outputs = options->dp_loss == DP_LOSS_REPLICA_OUTPUTS && options->gpus > 1;
    dp->gathers = options->gpus > 1 && !dp->per_replica_loss;
    dp->rows_max = options->global_batch;
    dp->gathered_max = schedule_micro_batches(options) ? schedule_micro_batch(options, 0).count : 1;
    for (int r = 0; r < dp->devices_asked; r++) {
        dp->device[r].replica.device = r;
        dp->device[r].timeline = (struct timeline){.device = r, .marks = -1};
    }
    int status = open_parts(dp);
    if (status) {
        dp_close(dp, true);
        return status;
    }
    *state = dp;
    return EXIT_OK;
}
