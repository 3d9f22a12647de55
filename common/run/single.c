/* SPDX-License-Identifier: MIT
 *
 * One device, one replica, no wrapper: the reference that dp and ddp are compared with, and the baseline of speed-up.
 * Everything but copies from the host runs on one stream; the host waits once a step, in finish.
 */
#include <stdlib.h>

#include "gpu/backend.h"
#include "kernels/kernels.h"
#include "nn/loss.h"
#include "run/fault_gradient.h"
#include "run/feed.h"
#include "run/schedule.h"
#include "run/strategy.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

struct single {
    const struct options *options;
    const struct model *model;
    struct replica replica;
    struct optimizer optimizer;
    struct feed feed;
    struct timeline timeline;
    struct loss *losses; /* one a micro-batch: each sum is read when the step is finished */
    int loss_count;
    int micro_batches; /* of the step so far */
    size_t samples;
};

static void single_close(void *state, bool failed)
{
    (void)failed;
    struct single *single = state;

    if (single->replica.compute)
        (void)cudaStreamSynchronize(single->replica.compute);
    timeline_close(&single->timeline);
    for (int k = 0; k < single->loss_count; k++)
        loss_close(&single->losses[k]);
    free(single->losses);
    feed_close(&single->feed);
    optimizer_close(&single->optimizer);
    replica_close(&single->replica);
    free(single);
}

static int open_losses(struct single *single)
{
    int count = single->options->accumulate;

    single->losses = calloc((size_t)count, sizeof *single->losses);
    if (!single->losses) {
        log_error("single: no memory for %d losses", count);
        return EXIT_RESOURCE;
    }
    for (; single->loss_count < count; single->loss_count++)
        TRY(loss_open(&single->losses[single->loss_count], single->model, 0, single->replica.batch_max));
    for (int k = 0; k < count; k++)
        single->losses[k].loss_scale = optimizer_loss_scale(&single->optimizer);
    return EXIT_OK;
}

static int open_parts(struct single *single, const struct run *run)
{
    const struct options *options = run->options;
    struct optimizer_settings settings = options_optimizer(options);

    TRY(replica_open(&single->replica, run->model, 0, schedule_batch_max(options, 1), true));
    TRY(optimizer_open(&single->optimizer, &settings, &single->replica));
    TRY(replica_hold_sums(&single->replica, schedule_micro_batches(options)));
    TRY(replica_initialize(&single->replica, options->seed));
    TRY(feed_open(&single->feed, run, &single->replica, 1, 0));
    TRY(open_losses(single));
    TRY(timeline_open(&single->timeline, 0));
    return gpu_clock_anchor(0, single->replica.compute);
}

static int single_open(void **state, const struct run *run)
{
    struct single *single = calloc(1, sizeof *single);

    if (!single) {
        log_error("single: no memory");
        return EXIT_RESOURCE;
    }
    single->options = run->options;
    single->model = run->model;
    int status = open_parts(single, run);
    if (status) {
        single_close(single, true);
        return status;
    }
    *state = single;
    return EXIT_OK;
}

/* Micro-batches add up in the gradients, or in the replica's fp32 sums. */
static int backward(struct single *single, const struct batch *batch)
{
    struct replica *replica = &single->replica;
    bool in_place = !replica->sums && !batch->first;

    TRY(single->model->type->backward(replica, replica->d_logits, batch->count, in_place, NULL, NULL));
    TRY(fault_in_gradient(replica, 0, batch->step));
    if (!replica->sums || (batch->first && batch->last))
        return EXIT_OK;
    if (!batch->last)
        return replica_add_to_sums(replica, batch->first);
    GPU_TRY(kernel_sum_scale(single->model->settings.type, replica->gradients, replica->gradients, replica->sums, 1,
                             single->model->flat_elements, replica->compute));
    return EXIT_OK;
}

static void single_announce(void *state, uint64_t step, const uint32_t *indices)
{
    feed_announce(&((struct single *)state)->feed, step, indices);
}

static int single_step(void *state, const struct batch *batch)
{
    struct single *single = state;
    struct replica *replica = &single->replica;
    struct timeline *timeline = &single->timeline;
    cudaStream_t compute = replica->compute;

    GPU_TRY(cudaSetDevice(0));
    if (batch->first) {
        single->micro_batches = 0;
        single->samples = 0;
        TRY(timeline_begin(timeline, compute));
    }
    struct loss *loss = &single->losses[single->micro_batches++];
    single->samples += batch->count;

    phase_begin(PHASE_SCATTER);
    TRY(feed_enqueue(&single->feed, batch->step, batch->indices, batch->count, batch->first));
    TRY(phase_end(timeline, compute, PHASE_SCATTER));

    phase_begin(PHASE_FORWARD);
    TRY(single->model->type->forward(replica, batch->count, true));
    TRY(phase_end(timeline, compute, PHASE_FORWARD));

    phase_begin(PHASE_LOSS);
    TRY(loss_enqueue(loss, replica->d_logits, replica->logits, replica->labels, batch->count, batch->loss_scale,
                     compute));
    TRY(phase_end(timeline, compute, PHASE_LOSS));

    phase_begin(PHASE_BACKWARD);
    TRY(backward(single, batch));
    TRY(phase_end(timeline, compute, PHASE_BACKWARD));

    if (!batch->last)
        return EXIT_OK;
    phase_begin(PHASE_UPDATE);
    TRY(optimizer_step(&single->optimizer));
    return phase_end(timeline, compute, PHASE_UPDATE);
}

static int single_finish(void *state, struct step_result *result)
{
    struct single *single = state;

    *result = (struct step_result){.samples = single->samples};
    TRY(gpu_stream_finish(single->replica.compute, NULL, single->options->timeout));
    feed_release(&single->feed);
    for (int k = 0; k < single->micro_batches; k++)
        result->loss_sum += (double)*single->losses[k].host_sum;
    return EXIT_OK;
}

static int single_evaluate(void *state, const uint32_t *indices, size_t count, struct evaluation *evaluation)
{
    struct single *single = state;
    struct replica *replica = &single->replica;
    struct loss *loss = &single->losses[0];

    *evaluation = (struct evaluation){0};
    GPU_TRY(cudaSetDevice(0));
    for (size_t at = 0; at < count;) {
        size_t rows = count - at < replica->batch_max ? count - at : replica->batch_max;
        TRY(feed_enqueue(&single->feed, 0, indices + at, rows, true));
        TRY(single->model->type->forward(replica, rows, false));
        TRY(loss_enqueue_evaluation(loss, replica->logits, replica->labels, rows, replica->compute));
        TRY(gpu_stream_finish(replica->compute, NULL, single->options->timeout));
        evaluation->samples += rows;
        evaluation->correct += (size_t)*loss->host_correct;
        evaluation->loss_sum += (double)*loss->host_sum;
        at += rows;
    }
    return EXIT_OK;
}

static int single_devices(void *state)
{
    (void)state;
    return 1;
}

static struct timeline *single_timeline(void *state, int index)
{
    (void)index;
    return &((struct single *)state)->timeline;
}

static struct replica *single_replica(void *state, int index)
{
    (void)index;
    return &((struct single *)state)->replica;
}

static int single_restart(void *state)
{
    struct single *single = state;

    GPU_TRY(cudaSetDevice(0));
    TRY(replica_initialize(&single->replica, single->options->seed));
    return optimizer_reset(&single->optimizer);
}

/* One device: nothing moves between devices. */
static void single_traffic_formula(void *state, uint64_t formula[PHASES])
{
    (void)state;
    for (int phase = 0; phase < PHASES; phase++)
        formula[phase] = 0;
}

static struct optimizer *single_optimizer(void *state)
{
    return &((struct single *)state)->optimizer;
}

const struct strategy strategy_single = {
    .name = "single",
    .open = single_open,
    .announce = single_announce,
    .step = single_step,
    .finish = single_finish,
    .evaluate = single_evaluate,
    .devices = single_devices,
    .timeline = single_timeline,
    .replica = single_replica,
    .restart = single_restart,
    .traffic_formula = single_traffic_formula,
    .optimizer = single_optimizer,
    .close = single_close,
};
