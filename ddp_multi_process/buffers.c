/* SPDX-License-Identifier: MIT
 *
 * All on the compute stream, so that no event is needed: the collectives stand between the kernels that write and read
 * the same memory. The communicator is the reducer's; all ranks call in the same order.
 */
#include "buffers.h"

#include "gpu/memory.h"
#include "run/timeline.h"
#include "sys/exit_codes.h"

static const struct model *model_of(const struct buffers *buffers)
{
    return buffers->replica->model;
}

/* ---- SyncBatchNorm ----------------------------------------------------------------------------------------------- */

static int gather(void *context, const float **all, const float *mine, size_t count)
{
    struct buffers *buffers = context;
    GPU_TRY(ncclAllGather(mine, buffers->gathered, count, ncclFloat32, buffers->comm, buffers->replica->compute));
    *all = buffers->gathered;
    return EXIT_OK;
}

static int sum(void *context, float *values, size_t count)
{
    struct buffers *buffers = context;
    GPU_TRY(ncclAllReduce(values, values, count, ncclFloat32, ncclSum, buffers->comm, buffers->replica->compute));
    return EXIT_OK;
}

/* Buffers come in pairs, mean and variance of a BatchNorm. */
static size_t channels(const struct buffers *buffers, int layer)
{
    return model_of(buffers)->buffers[2 * layer].count;
}

static int layers(const struct buffers *buffers)
{
    return model_of(buffers)->buffer_count / 2;
}

static int open_sync(struct buffers *buffers)
{
    size_t most = 0;
    for (int i = 0; i < layers(buffers); i++)
        most = channels(buffers, i) > most ? channels(buffers, i) : most;
    TRY(gpu_malloc((void **)&buffers->gathered, (size_t)buffers->world->size * (2 * most + 1) * sizeof(float),
                   MEMORY_COMMUNICATION));
    buffers->sync = (struct statistics_sync){buffers->world->size, gather, sum, buffers};
    buffers->replica->sync = &buffers->sync;
    return EXIT_OK;
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

int buffers_open(struct buffers *buffers, struct world *world, struct replica *replica, ncclComm_t comm,
                 bool sync_batch_norm)
{
    *buffers = (struct buffers){.world = world, .replica = replica, .comm = comm, .stale = true};
    if (model_of(buffers)->buffer_count == 0 || !sync_batch_norm)
        return EXIT_OK;
    return open_sync(buffers);
}

void buffers_close(struct buffers *buffers)
{
    if (buffers->replica)
        buffers->replica->sync = NULL;
    gpu_free(buffers->gathered);
    *buffers = (struct buffers){0};
}

/* ---- rank 0's to all --------------------------------------------------------------------------------------------- */

int buffers_before_forward(struct buffers *buffers, bool reduces)
{
    bool stale = buffers->stale;
    if (!buffers->replica || model_of(buffers)->buffer_count == 0)
        return EXIT_OK;
    buffers->stale = reduces;
    if (!stale)
        return EXIT_OK;
    float *values = buffers->replica->buffers;
    phase_begin(PHASE_REPLICATE);
    int status = GPU_STATUS(ncclBroadcast(values, values, model_of(buffers)->buffer_bytes / sizeof(float), ncclFloat32,
                                          0, buffers->comm, buffers->replica->compute));
    (void)nvtxRangePop();
    return status;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

uint64_t buffers_broadcast_bytes(const struct buffers *buffers)
{
    return buffers->replica ? (uint64_t)(buffers->world->size - 1) * model_of(buffers)->buffer_bytes : 0;
}

/* All-gather: every rank sends 2 C + 1 numbers to each other one. */
uint64_t buffers_forward_bytes(const struct buffers *buffers)
{
    uint64_t ranks = buffers->gathered ? (uint64_t)buffers->world->size : 1, bytes = 0;
    for (int i = 0; ranks > 1 && i < layers(buffers); i++)
        bytes += ranks * (ranks - 1) * (2 * channels(buffers, i) + 1) * sizeof(float);
    return bytes;
}

/* All-reduce of 2 C numbers: 2 (N - 1) times their size. */
uint64_t buffers_backward_bytes(const struct buffers *buffers)
{
    uint64_t ranks = buffers->gathered ? (uint64_t)buffers->world->size : 1, bytes = 0;
    for (int i = 0; ranks > 1 && i < layers(buffers); i++)
        bytes += 2 * (ranks - 1) * 2 * channels(buffers, i) * sizeof(float);
    return bytes;
}
