/* SPDX-License-Identifier: MIT
 *
 * One step of DataParallel, from its parts, and the strategy's table. The update is device 0's alone: only there are
 * optimizer state and the parameters that last; all other replicas are overwritten by the next replicate.
 */
#include <string.h>

#include "dp.h"
#include "gpu/backend.h"
#include "run/schedule.h"
#include "sys/exit_codes.h"

/* ---- a step ------------------------------------------------------------------------------------------------------ */

static void cut(struct dp_pass *pass, int devices)
{
    pass->n = chunk_devices_used(pass->rows, devices);
    for (int r = 0; r < pass->n; r++)
        pass->piece[r] = chunk_piece(pass->rows, devices, r);
}

/* The devices that take part: the replicas in use, and the output device. */
static bool takes_part(const struct dp *dp, const struct dp_pass *pass, int r)
{
    return r < pass->n || r == dp->output;
}

static int begin_timelines(struct dp *dp)
{
    for (int r = 0; r < dp->devices_asked; r++) {
        if (!dp->device[r].open)
            continue;
        GPU_TRY(cudaSetDevice(r));
        TRY(timeline_begin(&dp->device[r].timeline, dp_compute(dp, r)));
    }
    return EXIT_OK;
}

/* Only copies from the host run on another stream, so only they need to know that a micro-batch has been used. */
static int mark_consumed(struct dp *dp, const struct dp_pass *pass)
{
    for (int r = 0; r < dp->devices_asked && !dp->resident; r++) {
        if (!takes_part(dp, pass, r))
            continue;
        GPU_TRY(cudaSetDevice(r));
        GPU_TRY(cudaEventRecord(dp->device[r].consumed, dp_compute(dp, r)));
    }
    return EXIT_OK;
}

static int update(struct dp *dp)
{
    struct dp_device *first = &dp->device[0];

    GPU_TRY(cudaSetDevice(0));
    phase_begin(PHASE_UPDATE);
    TRY(optimizer_step(&dp->optimizer));
    return phase_end(&first->timeline, first->replica.compute, PHASE_UPDATE);
}

static int run_pass(struct dp *dp, const struct dp_pass *pass)
{
    TRY(dp_scatter(dp, pass));
    TRY(dp_replicate(dp, pass));
    TRY(dp_parallel_apply(dp, pass, dp_forward));
    TRY(dp_gather(dp, pass));
    if (!dp->per_replica_loss) {
        TRY(dp_loss(dp, pass));
        TRY(dp_return_gradients(dp, pass));
    }
    TRY(dp_parallel_apply(dp, pass, dp_backward));
    TRY(dp_reduce(dp, pass));
    return pass->last ? update(dp) : mark_consumed(dp, pass);
}

static void dp_announce(void *state, uint64_t step, const uint32_t *indices)
{
    const struct dp *dp = state;

    if (dp->loader)
        loader_announce(dp->loader, step, indices);
}

static int dp_step(void *state, const struct batch *batch)
{
    struct dp *dp = state;
    struct dp_pass pass = {
        .indices = batch->indices,
        .rows = batch->count,
        .loss_scale = batch->loss_scale,
        .first = batch->first,
        .last = batch->last,
        .step = batch->step,
    };

    if (batch->first) {
        dp->micro_batches = 0;
        dp->samples = 0;
        TRY(begin_timelines(dp));
    }
    pass.number = dp->micro_batches;
    pass.offset = dp->samples;
    cut(&pass, dp->devices_asked);
    dp->replicas[dp->micro_batches++] = pass.n;
    dp->samples += batch->count;
    return run_pass(dp, &pass);
}

static int finish_streams(struct dp *dp)
{
    for (int r = 0; r < dp->devices_asked; r++) {
        const struct dp_communicators *set = dp_communicators_of(dp, dp->replicas[0]);
        if (dp->device[r].open)
            TRY(gpu_stream_finish(dp_compute(dp, r), set && r < set->n ? set->comm[r] : NULL, dp->options->timeout));
    }
    return EXIT_OK;
}

/* The sums come from the output device: one a micro-batch, or one a replica, in the order of the devices. */
static int dp_finish(void *state, struct step_result *result)
{
    struct dp *dp = state;

    *result = (struct step_result){.samples = dp->samples};
    TRY(finish_streams(dp));
    if (dp->loader)
        loader_release(dp->loader);
    for (int k = 0; k < dp->micro_batches; k++) {
        if (!dp->per_replica_loss)
            result->loss_sum += (double)*dp->losses[k].host_sum;
        for (int r = 0; r < dp->replicas[k] && dp->per_replica_loss; r++)
            result->loss_sum += (double)dp->host_scalars[k * dp->devices_asked + r];
    }
    return EXIT_OK;
}

/* ---- evaluation -------------------------------------------------------------------------------------------------- */

static int evaluate_forward(struct dp *dp, const struct dp_pass *pass, int r)
{
    struct dp_device *device = &dp->device[r];
    struct replica *replica = &device->replica;
    size_t rows = pass->piece[r].count;

    GPU_TRY(cudaSetDevice(r));
    TRY(dp->model->type->forward(replica, rows, false));
    if (dp->per_replica_loss)
        TRY(loss_enqueue_evaluation(&device->loss, replica->logits, replica->labels, rows, replica->compute));
    GPU_TRY(cudaEventRecord(device->forwarded, replica->compute));
    return EXIT_OK;
}

static void add_evaluation(struct evaluation *evaluation, const struct loss *loss)
{
    evaluation->correct += (size_t)*loss->host_correct;
    evaluation->loss_sum += (double)*loss->host_sum;
}

/* One piece of the test set, to idle devices. Replicas hold the parameters since the beginning of the evaluation. */
static int evaluate_pass(struct dp *dp, const struct dp_pass *pass, struct evaluation *evaluation)
{
    TRY(begin_timelines(dp));
    TRY(dp_scatter(dp, pass));
    TRY(dp_parallel_apply(dp, pass, evaluate_forward));
    if (!dp->per_replica_loss) {
        TRY(dp_gather(dp, pass));
        GPU_TRY(cudaSetDevice(dp->output));
        TRY(loss_enqueue_evaluation(&dp->losses[0], dp->gathered, dp->gathered_labels, pass->rows,
                                    dp_compute(dp, dp->output)));
    }
    TRY(finish_streams(dp));
    evaluation->samples += pass->rows;
    if (!dp->per_replica_loss)
        add_evaluation(evaluation, &dp->losses[0]);
    for (int r = 0; r < pass->n && dp->per_replica_loss; r++)
        add_evaluation(evaluation, &dp->device[r].loss);
    return EXIT_OK;
}

static int dp_evaluate(void *state, const uint32_t *indices, size_t count, struct evaluation *evaluation)
{
    struct dp *dp = state;
    struct dp_pass all = {.n = dp->devices_used, .first = true, .last = true};

    *evaluation = (struct evaluation){0};
    dp->replicas[0] = dp->devices_used;
    TRY(begin_timelines(dp));
    TRY(dp_replicate(dp, &all));
    TRY(finish_streams(dp));
    for (size_t at = 0; at < count;) {
        struct dp_pass pass = {.indices = indices + at, .first = true, .last = true};
        pass.rows = count - at < dp->gathered_max ? count - at : dp->gathered_max;
        cut(&pass, dp->devices_used);
        TRY(evaluate_pass(dp, &pass, evaluation));
        at += pass.rows;
    }
    return EXIT_OK;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static int dp_devices(void *state)
{
    return ((struct dp *)state)->devices_asked;
}

static struct timeline *dp_timeline(void *state, int index)
{
    return &((struct dp *)state)->device[index].timeline;
}

static struct replica *dp_replica(void *state, int index)
{
    return &((struct dp *)state)->device[index].replica;
}

static struct optimizer *dp_optimizer(void *state)
{
    return &((struct dp *)state)->optimizer;
}

static int dp_restart(void *state)
{
    struct dp *dp = state;

    TRY(replica_initialize(&dp->device[0].replica, dp->options->seed));
    return optimizer_reset(&dp->optimizer);
}

static void dp_traffic_formula(void *state, uint64_t formula[PHASES])
{
    const struct dp *dp = state;

    memset(formula, 0, PHASES * sizeof *formula);
    for (int k = 0; k < schedule_micro_batches(dp->options); k++) {
        struct dp_pass pass = {.rows = schedule_micro_batch(dp->options, k).count};
        cut(&pass, dp->devices_asked);
        formula[PHASE_SCATTER] += dp_scatter_bytes(dp, &pass);
        formula[PHASE_REPLICATE] += dp_replicate_bytes(dp, &pass);
        formula[PHASE_GATHER] += dp_gather_bytes(dp, &pass);
        formula[PHASE_REDUCE] += dp_reduce_bytes(dp, &pass);
    }
}

const struct strategy strategy_dp = {
    .name = "dp",
    .open = dp_open,
    .announce = dp_announce,
    .step = dp_step,
    .finish = dp_finish,
    .evaluate = dp_evaluate,
    .devices = dp_devices,
    .timeline = dp_timeline,
    .replica = dp_replica,
    .restart = dp_restart,
    .traffic_formula = dp_traffic_formula,
    .optimizer = dp_optimizer,
    .close = dp_close,
};
