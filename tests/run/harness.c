/* SPDX-License-Identifier: MIT
 *
 * See harness.h.
 */
#include "harness.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/sampler.h"
#include "gpu/gpu.h"
#include "run/schedule.h"
#include "sys/exit_codes.h"

static pthread_once_t configured = PTHREAD_ONCE_INIT;
static int configure_status;

/* Small devices: a test that takes more than this is wrong. */
static void configure(void)
{
    struct harness harness;

    harness_options(&harness, "dp-train", "--gpus 8 --cores-per-device 1 --device-memory 512 --timeout 20");
    configure_status = engine_configure(&harness.options, harness.options.gpus);
}

int harness_configure(void)
{
    pthread_once(&configured, configure);
    return configure_status;
}

void harness_options(struct harness *harness, const char *program, const char *line)
{
    int count = 1;
    char *rest;

    *harness = (struct harness){0};
    snprintf(harness->line, sizeof harness->line, "%s", line);
    harness->arguments[0] = (char *)(uintptr_t)program;
    for (char *word = strtok_r(harness->line, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        harness->arguments[count++] = word;
    if (options_parse(&harness->options, program, count, harness->arguments) != 0) {
        fprintf(stderr, "harness: the options were refused: %s\n", line);
        exit(EXIT_USAGE);
    }
}

static int open_parts(struct harness *harness)
{
    const struct options *options = &harness->options;
    const struct run run = {options, harness->world, &harness->model, &harness->dataset};

    TRY(engine_open_data(options, &harness->dataset, &harness->model));
    return harness->strategy->open(&harness->state, &run);
}

int harness_open(struct harness *harness, struct world *world)
{
    TRY(harness_configure());
    harness->world = world;
    if (!world) {
        harness->world = malloc(sizeof *harness->world);
        *harness->world = world_alone();
    }
    int status = open_parts(harness);
    if (!world && status) {
        free(harness->world);
        harness->world = NULL;
    }
    return status;
}

void harness_close(struct harness *harness)
{
    if (harness->state)
        harness->strategy->close(harness->state, false);
    if (harness->world && !harness->world->state && harness->world->size == 1)
        free(harness->world);
    model_close(&harness->model);
    dataset_close(&harness->dataset);
    harness->state = NULL;
    harness->world = NULL;
}

/* As the engine cuts an update (run/engine_train.c), written a second time: the two must agree. */
static int update(struct harness *harness, const uint32_t *indices, struct step_result *result)
{
    const struct options *options = &harness->options;
    int count = schedule_micro_batches(options);
    float labels = (float)options->global_batch * (float)harness->model.targets;
    float scale = options->loss == LOSS_SUM ? 1.0F : 1.0F / labels;

    for (int k = 0; k < count; k++) {
        struct piece micro = schedule_micro_batch(options, k);
        const struct batch batch = {.indices = indices + micro.first,
                                    .count = micro.count,
                                    .loss_scale = scale,
                                    .first = k == 0,
                                    .last = k == count - 1,
                                    .step = harness->step};
        TRY(harness->strategy->step(harness->state, &batch));
    }
    harness->step++;
    return harness->strategy->finish(harness->state, result);
}

static int read_flat(struct harness *harness, bool gradients, float **flat)
{
    struct replica *replica = harness->strategy->replica(harness->state, 0);

    *flat = malloc(harness->model.flat_bytes);
    return replica_read(replica, gradients ? replica->gradients : replica->parameters, *flat);
}

static int train(struct harness *harness, int updates, struct outcome *outcome, uint32_t *indices)
{
    struct sampler sampler;

    TRY(schedule_open_sampler(&sampler, harness->dataset.train_count, &harness->options));
    int status = EXIT_OK;
    for (int i = 0; i < updates && !status; i++) {
        struct step_result result;
        sampler_batch(&sampler, harness->step, indices);
        status = update(harness, indices, &result);
        if (!status && outcome) {
            outcome->loss_sum[i] = result.loss_sum;
            outcome->samples += result.samples;
            if (i == 0)
                status = read_flat(harness, true, &outcome->first_gradients);
        }
    }
    sampler_close(&sampler);
    return status;
}

int harness_train(struct harness *harness, int updates, struct outcome *outcome)
{
    uint32_t *indices = calloc(harness->options.global_batch + 1, sizeof *indices);

    if (outcome)
        *outcome = (struct outcome){.elements = harness->model.flat_bytes / sizeof(float)};
    int status = train(harness, updates, outcome, indices);
    if (!status && outcome)
        status = read_flat(harness, false, &outcome->parameters);
    if (status && outcome)
        outcome_free(outcome);
    free(indices);
    return status;
}

void outcome_free(struct outcome *outcome)
{
    free(outcome->first_gradients);
    free(outcome->parameters);
    *outcome = (struct outcome){0};
}

int harness_run(const struct strategy *strategy, const char *line, int updates, struct outcome *outcome)
{
    struct harness harness;

    *outcome = (struct outcome){0};
    harness_options(&harness, "dp-train", line);
    harness.strategy = strategy;
    int status = harness_open(&harness, NULL);
    if (!status)
        status = harness_train(&harness, updates, outcome);
    harness_close(&harness);
    return status;
}

size_t count_different(const float *a, const float *b, size_t count)
{
    size_t different = 0;

    for (size_t i = 0; i < count; i++)
        different += memcmp(&a[i], &b[i], sizeof a[i]) != 0;
    return different;
}

double relative_difference(const float *a, const float *b, size_t count)
{
    double largest = 0, difference = 0;

    for (size_t i = 0; i < count; i++) {
        if (isnan(a[i]) || isnan(b[i]))
            return INFINITY;
        largest = fmax(largest, fabs((double)b[i]));
        difference = fmax(difference, fabs((double)a[i] - (double)b[i]));
    }
    return difference > 0 ? difference / largest : 0;
}
