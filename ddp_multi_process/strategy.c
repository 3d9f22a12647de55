/* SPDX-License-Identifier: MIT
 *
 * One rank of DistributedDataParallel. What it adds to `single`: the models are compared and rank 0's parameters
 * broadcast once, at open; each rank takes its piece of the global batch; the reducer averages gradients during the
 * last micro-batch's backward pass; every rank updates its own parameters, which stay bit-equal. A world of one rank
 * has nothing to reduce: no buckets, no communicator, the steps of `single`.
 */
#include "strategy.h"

#include <stdio.h>
#include <stdlib.h>

#include "buffers.h"
#include "data/sampler.h"
#include "gpu/backend.h"
#include "kernels/kernels.h"
#include "nn/loss.h"
#include "reducer.h"
#include "run/feed.h"
#include "run/schedule.h"
#include "sys/exit_codes.h"
#include "sys/log.h"
#include "verify.h"

#define MIB ((size_t)1 << 20)
#define FIRST_BROADCAST_BYTES (250 * MIB) /* PyTorch's: of parameters in one broadcast at open */

struct ddp {
    const struct options *options;
    const struct model *model;
    struct world *world;
    int device;
    ncclComm_t comm; /* NULL in a world of one */
    struct replica replica;
    struct optimizer optimizer;
    struct feed feed;
    struct timeline timeline;
    struct reducer reducer;
    struct buffers buffers;
    struct loss *losses; /* [accumulate]: each sum is read when the step is finished */
    int loss_count;
    int micro_batches; /* of the step so far */
    size_t samples;
};

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static void ddp_close(void *state, bool failed)
{
    struct ddp *ddp = state;
    (void)cudaSetDevice(ddp->device);
    if (ddp->comm) /* after a failure a collective may be under way that never ends */
        (void)(failed ? ncclCommAbort(ddp->comm) : ncclCommDestroy(ddp->comm));
    if (ddp->replica.compute)
        (void)cudaStreamSynchronize(ddp->replica.compute);
    reducer_close(&ddp->reducer);
    buffers_close(&ddp->buffers);
    timeline_close(&ddp->timeline);
    for (int k = 0; k < ddp->loss_count; k++)
        loss_close(&ddp->losses[k]);
    free(ddp->losses);
    feed_close(&ddp->feed);
    optimizer_close(&ddp->optimizer);
    replica_close(&ddp->replica);
    free(ddp);
}

/* The device of a rank is the position of the rank on its host, counted in CUDA_VISIBLE_DEVICES. */
static int choose_device(struct ddp *ddp)
{
    int count = 0;
    TRY(gpu_device_count(&count));
    if (ddp->device >= count) {
        const char *visible = getenv("CUDA_VISIBLE_DEVICES");
        log_error(
            "local rank %d of %d ranks needs device %d, but %d %s there (CUDA_VISIBLE_DEVICES %s): start at most %d "
            "ranks here",
            ddp->device, ddp->world->size, ddp->device, count, count == 1 ? "is" : "are",
            visible ? visible : "is not set", count);
        return EXIT_RESOURCE;
    }
    GPU_TRY(cudaSetDevice(ddp->device));
    return EXIT_OK;
}

static int open_losses(struct ddp *ddp)
{
    int count = ddp->options->accumulate;
    ddp->losses = calloc((size_t)count, sizeof(*ddp->losses));
    if (!ddp->losses) {
        log_error("no memory for %d losses", count);
        return EXIT_RESOURCE;
    }
    for (; ddp->loss_count < count; ddp->loss_count++)
        TRY(loss_open(&ddp->losses[ddp->loss_count], ddp->model, ddp->device, ddp->replica.batch_max));
    for (int k = 0; k < count; k++)
        ddp->losses[k].loss_scale = optimizer_loss_scale(&ddp->optimizer);
    return EXIT_OK;
}

/* One line a rank, from rank 0: which device it has. */
static int tell_devices(struct ddp *ddp)
{
    struct world *world = ddp->world;
    char mine[192], name[96] = "", cores[64] = "", *all = calloc((size_t)world->size, sizeof(mine));
    int status = gpu_device_describe(ddp->device, name, sizeof(name), cores, sizeof(cores));
    snprintf(mine, sizeof(mine), "device %d: %s%s%s", ddp->device, name, cores[0] ? ", cores " : "", cores);
    status = world_agree(world, all ? status : EXIT_RESOURCE);
    if (!status)
        status = world->gather(world, mine, sizeof(mine), all);
    for (int rank = 0; world->rank == 0 && !status && rank < world->size; rank++)
        log_info("rank %d has %s", rank, all + sizeof(mine) * (size_t)rank);
    free(all);
    return status;
}

/* What a rank can do alone. */
static int open_local(struct ddp *ddp, const struct run *run)
{
    const struct options *options = run->options;
    struct optimizer_settings settings = options_optimizer(options);
    TRY(choose_device(ddp));
    TRY(replica_open(&ddp->replica, run->model, ddp->device, schedule_batch_max(options, run->world->size), true));
    TRY(optimizer_open(&ddp->optimizer, &settings, &ddp->replica));
    TRY(replica_hold_sums(&ddp->replica, schedule_micro_batches(options)));
    TRY(replica_initialize(&ddp->replica, options->seed));
    TRY(feed_open(&ddp->feed, run, &ddp->replica, run->world->size, run->world->rank));
    TRY(open_losses(ddp));
    TRY(timeline_open(&ddp->timeline, ddp->device));
    return gpu_clock_anchor(ddp->device, ddp->replica.compute);
}

static int open_communicator(struct ddp *ddp)
{
    struct world *world = ddp->world;
    ncclUniqueId id = {{0}};
    int status = EXIT_OK;
    if (world->rank == 0)
        status = GPU_STATUS(ncclGetUniqueId(&id));
    TRY(world_agree(world, status));
    TRY(world->broadcast(world, &id, sizeof(id)));
    GPU_TRY(ncclCommInitRank(&ddp->comm, world->size, id, world->rank));
    return EXIT_OK;
}

/* Rank 0's parameters (in 16 bit its masters) to all; after this they are never sent again. */
static int broadcast_parameters(struct ddp *ddp)
{
    char *parameters = (char *)ddp->replica.masters;
    size_t bytes = ddp->model->float_bytes;
    for (size_t at = 0; at < bytes; at += FIRST_BROADCAST_BYTES) {
        size_t piece = bytes - at < FIRST_BROADCAST_BYTES ? bytes - at : FIRST_BROADCAST_BYTES;
        GPU_TRY(ncclBroadcast(parameters + at, parameters + at, piece / sizeof(float), ncclFloat32, 0, ddp->comm,
                              ddp->replica.compute));
    }
    TRY(replica_refresh(&ddp->replica));
    return gpu_stream_finish(ddp->replica.compute, ddp->comm, ddp->options->timeout);
}

static int open_all(struct ddp *ddp, const struct run *run)
{
    const struct options *options = run->options;
    TRY(verify_models(run->world, run->model));
    /* A rank that has no device must not leave the others waiting for it in a collective. */
    TRY(world_agree(run->world, open_local(ddp, run)));
    if (run->world->size == 1)
        return EXIT_OK;
    TRY(tell_devices(ddp));
    TRY(open_communicator(ddp));
    TRY(broadcast_parameters(ddp));
    TRY(world_agree(run->world, buffers_open(&ddp->buffers, run->world, &ddp->replica, ddp->comm, options->sync_bn)));
    const struct reducer_settings settings = {.cap_bytes = (size_t)(options->bucket_cap_mib * (double)MIB),
                                              .overlap = !options->no_overlap,
                                              .views = options->gradient_as_bucket_view};
    return world_agree(run->world, reducer_open(&ddp->reducer, run->world, &ddp->replica, &ddp->timeline, ddp->comm,
                                                &settings));
}

static int ddp_open(void **state, const struct run *run)
{
    struct ddp *ddp = calloc(1, sizeof(*ddp));
    if (!ddp) {
        log_error("no memory for a rank");
        return EXIT_RESOURCE;
    }
    *ddp = (struct ddp){
        .options = run->options, .model = run->model, .world = run->world, .device = run->world->local_rank};
    int status = open_all(ddp, run);
    if (status) {
        ddp_close(ddp, true);
        return status;
    }
    *state = ddp;
    return EXIT_OK;
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

/* d loss / d logits of each of this rank's samples. The reducer divides by the number of ranks N, so:
 *   samples  N times the one-device value: the sum over ranks is exactly the one-device gradient (sum of sums / count);
 *   ranks    the mean over this rank's own samples: PyTorch's mean of means, different when pieces are uneven. */
static float loss_scale(const struct ddp *ddp, const struct batch *batch, size_t own)
{
    if (ddp->options->loss_average == LOSS_AVERAGE_SAMPLES)
        return batch->loss_scale * (float)ddp->world->size;
    if (ddp->options->loss == LOSS_SUM)
        return batch->loss_scale;
    return own ? batch->loss_scale * (float)batch->count / (float)own : 0;
}

static int run_forward(struct ddp *ddp, const struct batch *batch, struct piece piece)
{
    struct replica *replica = &ddp->replica;
    struct loss *loss = &ddp->losses[ddp->micro_batches++];
    ddp->samples += piece.count;

    phase_begin(PHASE_SCATTER);
    TRY(feed_enqueue(&ddp->feed, batch->step, batch->indices + piece.first, piece.count, batch->first));
    TRY(phase_end(&ddp->timeline, replica->compute, PHASE_SCATTER));

    phase_begin(PHASE_FORWARD);
    TRY(buffers_before_forward(&ddp->buffers, batch->last));
    TRY(ddp->model->type->forward(replica, piece.count, true));
    TRY(phase_end(&ddp->timeline, replica->compute, PHASE_FORWARD));

    phase_begin(PHASE_LOSS);
    TRY(loss_enqueue(loss, replica->d_logits, replica->logits, replica->labels, piece.count,
                     loss_scale(ddp, batch, piece.count), replica->compute));
    return phase_end(&ddp->timeline, replica->compute, PHASE_LOSS);
}

/* 16 bit: micro-batches add up in the replica's fp32 sums; what the last one leaves out, a reducer has added on the way
 * into the buckets. */
static int add_up(struct ddp *ddp, const struct batch *batch)
{
    struct replica *replica = &ddp->replica;
    if (!replica->sums || (batch->first && batch->last))
        return EXIT_OK;
    if (!batch->last)
        return replica_add_to_sums(replica, batch->first);
    if (ddp->world->size == 1)
        GPU_TRY(kernel_sum_scale(ddp->model->settings.type, replica->gradients, replica->gradients, replica->sums, 1,
                                 ddp->model->flat_elements, replica->compute));
    return EXIT_OK;
}

/* Only the last micro-batch of an update is reduced: the sum of all. */
static int run_backward(struct ddp *ddp, const struct batch *batch, size_t rows)
{
    struct replica *replica = &ddp->replica;
    bool reduces = batch->last && ddp->world->size > 1;
    if (reduces)
        TRY(reducer_begin(&ddp->reducer, batch->step, !batch->first));

    phase_begin(PHASE_BACKWARD);
    TRY(ddp->model->type->backward(replica, replica->d_logits, rows, !batch->first && !replica->sums,
                                   reduces ? reducer_ready : NULL, &ddp->reducer));
    TRY(add_up(ddp, batch));
    TRY(phase_end(&ddp->timeline, replica->compute, PHASE_BACKWARD));
    return reduces ? reducer_finish(&ddp->reducer) : EXIT_OK;
}

static int enqueue_step(struct ddp *ddp, const struct batch *batch)
{
    struct piece piece = chunk_piece(batch->count, ddp->world->size, ddp->world->rank);
    GPU_TRY(cudaSetDevice(ddp->device));
    if (batch->first) {
        ddp->micro_batches = 0;
        ddp->samples = 0;
        TRY(timeline_begin(&ddp->timeline, ddp->replica.compute));
        if (ddp->world->size > 1)
            TRY(reducer_begin_update(&ddp->reducer));
    }
    TRY(run_forward(ddp, batch, piece));
    TRY(run_backward(ddp, batch, piece.count));
    if (!batch->last)
        return EXIT_OK;
    phase_begin(PHASE_UPDATE);
    TRY(optimizer_step(&ddp->optimizer));
    return phase_end(&ddp->timeline, ddp->replica.compute, PHASE_UPDATE);
}

static void ddp_announce(void *state, uint64_t step, const uint32_t *indices)
{
    feed_announce(&((struct ddp *)state)->feed, step, indices);
}

static int ddp_step(void *state, const struct batch *batch)
{
    return enqueue_step(state, batch);
}

static int ddp_finish(void *state, struct step_result *result)
{
    struct ddp *ddp = state;
    *result = (struct step_result){.samples = ddp->samples};
    TRY(gpu_stream_finish(ddp->replica.compute, ddp->comm, ddp->options->timeout));
    feed_release(&ddp->feed);
    for (int k = 0; k < ddp->micro_batches; k++)
        result->loss_sum += (double)*ddp->losses[k].host_sum;
    return EXIT_OK;
}

static int ddp_evaluate(void *state, const uint32_t *indices, size_t count, struct evaluation *evaluation)
{
    struct ddp *ddp = state;
    struct replica *replica = &ddp->replica;
    struct loss *loss = &ddp->losses[0];
    *evaluation = (struct evaluation){0};
    GPU_TRY(cudaSetDevice(ddp->device));
    TRY(buffers_before_forward(&ddp->buffers, false));
    TRY(gpu_stream_finish(replica->compute, ddp->comm, ddp->options->timeout));
    for (size_t at = 0; at < count; at += replica->batch_max) {
        size_t rows = count - at < replica->batch_max ? count - at : replica->batch_max;
        TRY(feed_enqueue(&ddp->feed, 0, indices + at, rows, true));
        TRY(ddp->model->type->forward(replica, rows, false));
        TRY(loss_enqueue_evaluation(loss, replica->logits, replica->labels, rows, replica->compute));
        TRY(gpu_stream_finish(replica->compute, NULL, ddp->options->timeout));
        evaluation->samples += rows;
        evaluation->correct += (size_t)*loss->host_correct;
        evaluation->loss_sum += (double)*loss->host_sum;
    }
    return EXIT_OK;
}

/* ---- the rest of the table --------------------------------------------------------------------------------------- */

static int ddp_devices(void *state)
{
    (void)state;
    return 1;
}

static struct timeline *ddp_timeline(void *state, int index)
{
    (void)index;
    return &((struct ddp *)state)->timeline;
}

static struct replica *ddp_replica(void *state, int index)
{
    (void)index;
    return &((struct ddp *)state)->replica;
}

static struct optimizer *ddp_optimizer(void *state)
{
    return &((struct ddp *)state)->optimizer;
}

/* All ranks have the same seed (the rendezvous compared it), so nothing is sent. */
static int ddp_restart(void *state)
{
    struct ddp *ddp = state;
    GPU_TRY(cudaSetDevice(ddp->device));
    TRY(replica_initialize(&ddp->replica, ddp->options->seed));
    TRY(optimizer_reset(&ddp->optimizer));
    ddp->buffers.stale = true;
    return ddp->world->size > 1 ? reducer_restart(&ddp->reducer) : EXIT_OK;
}

/* A ring all-reduce of P bytes (of the buckets, which as views of gradients keep the padding): each rank sends
 * 2 (N - 1) / N P. Buffers: once an update. */
static void ddp_traffic_formula(void *state, uint64_t formula[PHASES])
{
    const struct ddp *ddp = state;
    for (int phase = 0; phase < PHASES; phase++)
        formula[phase] = 0;
    uint64_t passes = (uint64_t)schedule_micro_batches(ddp->options);
    formula[PHASE_REPLICATE] = buffers_broadcast_bytes(&ddp->buffers);
    formula[PHASE_FORWARD] = passes * buffers_forward_bytes(&ddp->buffers);
    formula[PHASE_BACKWARD] = passes * buffers_backward_bytes(&ddp->buffers);
    if (ddp->world->size > 1)
        formula[PHASE_ALLREDUCE_EXPOSED] = 2 * (uint64_t)(ddp->world->size - 1) * reducer_bytes(&ddp->reducer);
}

const struct strategy strategy_ddp = {
    .name = "ddp",
    .open = ddp_open,
    .announce = ddp_announce,
    .step = ddp_step,
    .finish = ddp_finish,
    .evaluate = ddp_evaluate,
    .devices = ddp_devices,
    .timeline = ddp_timeline,
    .replica = ddp_replica,
    .restart = ddp_restart,
    .traffic_formula = ddp_traffic_formula,
    .optimizer = ddp_optimizer,
    .close = ddp_close,
};
