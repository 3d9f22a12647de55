/* SPDX-License-Identifier: MIT
 *
 * Updates: the verification, the warm-up and the timed steps all run this one loop body. The clock stands outside of
 * strategy->step and strategy->finish, so a step is over when all of this rank's devices are idle. Ranks meet at a host
 * barrier before the timed steps and not in them: their collectives hold them together.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/backend.h"
#include "run/checkpoint.h"
#include "run/engine.h"
#include "run/schedule.h"
#include "sys/clock.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

/* What d loss / d logits is multiplied by: see struct batch. */
static float loss_scale(const struct engine *engine)
{
    const struct options *options = engine->options;

    return options->loss == LOSS_MEAN ? 1.0F / ((float)options->global_batch * (float)engine->model.targets) : 1.0F;
}

static int run_micro_batches(struct engine *engine)
{
    const struct options *options = engine->options;
    int count = schedule_micro_batches(options);

    for (int k = 0; k < count; k++) {
        struct piece micro = schedule_micro_batch(options, k);
        struct batch batch = {
            .indices = engine->indices + micro.first,
            .count = micro.count,
            .loss_scale = loss_scale(engine),
            .first = k == 0,
            .last = k == count - 1,
            .step = engine->step,
        };
        TRY(engine->strategy->step(engine->state, &batch));
    }
    return EXIT_OK;
}

int engine_update(struct engine *engine, struct step_result *result)
{
    *result = (struct step_result){0};
    if (engine->options->global_batch == 0)
        return EXIT_OK;
    engine_reach(engine, PROGRESS_STEP, engine->step + 1);
    TRY(run_micro_batches(engine));
    engine_reach(engine, PROGRESS_FINISH, engine->step + 1);
    TRY(engine->strategy->finish(engine->state, result));
    engine->step++;
    return EXIT_OK;
}

static uint32_t *drawn_batch(const struct engine *engine, uint64_t step)
{
    return engine->drawn + step % (1 + LOADER_PREFETCH) * engine->options->global_batch;
}

/* The batch of this step, and announces those that follow: each is drawn once, in order, unless the step has jumped
 * (restart, resume). */
static void draw_batch(struct engine *engine)
{
    uint64_t last = engine->step + LOADER_PREFETCH;

    if (engine->options->global_batch == 0)
        return;
    if (engine->step < engine->drawn_from || engine->step >= engine->drawn_to)
        engine->drawn_to = engine->step;
    engine->drawn_from = engine->step;
    for (; engine->drawn_to <= last && engine->drawn_to < engine->end; engine->drawn_to++) {
        uint32_t *indices = drawn_batch(engine, engine->drawn_to);
        sampler_batch(&engine->sampler, engine->drawn_to, indices);
        engine->strategy->announce(engine->state, engine->drawn_to, indices);
    }
    engine->indices = drawn_batch(engine, engine->step);
}

/* Ranks that hold other weights than rank 0 are named. */
static int compare_checksums(struct engine *engine)
{
    struct world *world = engine->world;
    uint64_t *all = calloc((size_t)world->size, sizeof *all);
    int status = EXIT_OK;

    if (!all) {
        log_error("checksums: no memory for %d ranks", world->size);
        return EXIT_RESOURCE;
    }
    status = world->gather(world, &engine->checksum, sizeof engine->checksum, world->rank == 0 ? all : NULL);
    for (int rank = 1; rank < world->size && world->rank == 0 && !status; rank++) {
        if (all[rank] != all[0]) {
            log_error("verification: after %d steps rank %d has weights with checksum %016" PRIx64
                      ", rank 0 %016" PRIx64,
                      VERIFICATION_STEPS, rank, all[rank], all[0]);
            status = EXIT_CHECK_FAILED;
        }
    }
    free(all);
    return world_agree(world, status);
}

static int run_verification(struct engine *engine)
{
    const struct options *options = engine->options;
    struct replica *replica = engine->strategy->replica(engine->state, 0);
    struct step_result result;

    engine->end = engine->step + VERIFICATION_STEPS;
    for (int i = 0; i < VERIFICATION_STEPS; i++) {
        draw_batch(engine);
        TRY(engine_update(engine, &result));
        if (i == 0 && options->save_gradients && engine->world->rank == 0)
            TRY(checkpoint_save_gradients(options->save_gradients, replica,
                                          engine->scaled ? options->optimizer.loss_scale : 1));
    }
    return replica_checksum(replica, &engine->checksum);
}

int engine_verify(struct engine *engine)
{
    if (!engine->options->checksum && !engine->options->save_gradients)
        return EXIT_OK;
    TRY(run_verification(engine));
    TRY(compare_checksums(engine));
    TRY(engine->strategy->restart(engine->state));
    engine->verified = true;
    engine->step = 0;
    engine->drawn_to = 0; /* the loader waits for none of them */
    return EXIT_OK;
}

int engine_warm_up(struct engine *engine)
{
    struct step_result result;

    engine->end = engine->step + (uint64_t)(engine->warmup + engine->steps);
    for (int i = 0; i < engine->warmup; i++) {
        double start = clock_seconds();
        draw_batch(engine);
        TRY(engine_update(engine, &result));
        screen_step(engine, "warm-up", i, engine->warmup, &result, clock_seconds() - start);
    }
    return EXIT_OK;
}

/* Fills the row's phases from the device of this rank whose last mark came last. start and end: the step's on the host.
 */
static int read_timelines(struct engine *engine, struct step_row *row, int step, double start, double end)
{
    struct step_times slowest = {0};
    int devices = engine->strategy->devices(engine->state);

    for (int i = 0; i < devices; i++) {
        const struct timeline *timeline = engine->strategy->timeline(engine->state, i);
        struct step_times times;
        TRY(timeline_read(timeline, &times));
        if (times.last_s > slowest.last_s)
            slowest = times;
        if (engine->options->trace)
            TRY(trace_add(&engine->trace, timeline, engine->world->size > 1 ? engine->world->rank : i, step));
    }
    memcpy(row->phase_ms, slowest.ms, sizeof row->phase_ms);
    row->phase_ms[PHASE_HOST] += (slowest.first_s - start + end - slowest.last_s) * 1e3;
    row->communication_hidden_ms = slowest.communication_ms > 0 ? slowest.communication_hidden_ms : NAN;
    return EXIT_OK;
}

static int run_timed_step(struct engine *engine, int i)
{
    struct step_row *row = &engine->rows[engine->row_count];
    struct step_result result;

    draw_batch(engine);
    double start = clock_seconds();
    gpu_record_note("step_begin", "", (uint32_t)i);
    TRY(engine_update(engine, &result));
    gpu_record_note("step_end", "", (uint32_t)i);
    double end = clock_seconds();
    if (engine->options->global_batch == 0) {
        engine->skipped++;
        return EXIT_OK;
    }
    *row = (struct step_row){.ms = (end - start) * 1e3, .loss_sum = result.loss_sum, .samples = result.samples};
    TRY(read_timelines(engine, row, i, start, end));
    engine->row_count++;
    screen_step(engine, "step", i, engine->steps, &result, end - start);
    return EXIT_OK;
}

/* What the record needs to name its run as results.csv does. */
static int record_settings(const struct engine *engine)
{
    const struct options *options = engine->options;
    const struct {
        const char *name;
        size_t value;
    } numbers[] = {{"gpus", (size_t)options->gpus},
                   {"rank", (size_t)engine->world->rank},
                   {"ranks", (size_t)engine->world->size},
                   {"global_batch", options->global_batch},
                   {"accumulate", (size_t)options->accumulate},
                   {"params", engine->model.parameter_elements}};
    char text[32];
    char *variant = options_variant(options);

    if (!variant)
        return EXIT_RESOURCE;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        snprintf(text, sizeof text, "%zu", numbers[i].value);
        gpu_record_setting(numbers[i].name, text);
    }
    gpu_record_setting("strategy", engine->strategy->name);
    gpu_record_setting("model", options->model);
    gpu_record_setting("data", options->data);
    gpu_record_setting("precision", options->precision);
    gpu_record_setting("optimizer", options->optimizer.kind == OPTIMIZER_ADAMW ? "adamw" : "sgd");
    gpu_record_setting("variant", variant);
    free(variant);
    return EXIT_OK;
}

int engine_run_timed(struct engine *engine)
{
    TRY(record_settings(engine));
    TRY(world_barrier(engine->world));
    memory_reset_peaks();
    gpu_traffic_reset();
    engine_read_busy(engine, engine->busy_before);
    for (int i = 0; i < engine->steps; i++)
        TRY(run_timed_step(engine, i));
    return EXIT_OK;
}

int engine_evaluate(struct engine *engine, struct evaluation *total)
{
    struct world *world = engine->world;
    struct piece share = chunk_piece(engine->dataset.test_count, world->size, world->rank);
    uint32_t *indices = calloc(share.count + 1, sizeof *indices);
    struct evaluation *all = calloc((size_t)world->size, sizeof *all);
    struct evaluation mine = {0};
    int status = EXIT_RESOURCE;

    *total = (struct evaluation){0};
    if (!indices || !all) {
        log_error("evaluation: no memory for %zu samples", share.count);
        goto done;
    }
    for (size_t i = 0; i < share.count; i++)
        indices[i] = (uint32_t)(engine->dataset.train_count + share.first + i);
    engine_reach(engine, PROGRESS_EVALUATION, engine->step);
    status = engine->strategy->evaluate(engine->state, indices, share.count, &mine);
    if (!status)
        status = world->gather(world, &mine, sizeof mine, world->rank == 0 ? all : NULL);
    for (int rank = 0; rank < world->size; rank++) {
        total->samples += all[rank].samples;
        total->correct += all[rank].correct;
        total->loss_sum += all[rank].loss_sum;
    }
done:
    free(all);
    free(indices);
    return status;
}

double engine_loss(const struct engine *engine, double sum, uint64_t samples)
{
    const struct options *options = engine->options;

    if (samples == 0 || options->shape_only)
        return NAN;
    return options->loss == LOSS_SUM ? sum : sum / ((double)samples * (double)engine->model.targets);
}
