/* SPDX-License-Identifier: MIT
 *
 * Training in memory, for tests: options from a line of text, some updates of a strategy in a world, and what came of
 * it. Without the engine, so that the engine's own mistakes are not in it; dp, single and ddp (ranks as threads, each
 * with a world of its own) are used alike.
 */
#ifndef TESTS_RUN_HARNESS_H
#define TESTS_RUN_HARNESS_H

#include <stddef.h>
#include <stdint.h>

#include "run/strategy.h"

#define HARNESS_MAX_UPDATES 32

struct harness {
    const struct strategy *strategy;
    struct options options;
    struct world *world;
    struct dataset dataset;
    struct model model;
    void *state;                    /* the strategy's */
    uint64_t step;                  /* updates done */
    char line[512], *arguments[64]; /* the options' text */
};

/* What some updates left on one rank. The caller frees with outcome_free. */
struct outcome {
    size_t elements;        /* of each flat buffer, padding included */
    float *first_gradients; /* that the optimizer saw in the first update */
    float *parameters;      /* after the last update */
    double loss_sum[HARNESS_MAX_UPDATES];
    size_t samples; /* over all updates */
};

/* Parses "--gpus 4 --global-batch 8" into *options; the harness holds the text. Ends the test program on a refusal. */
void harness_options(struct harness *harness, const char *program, const char *line);

/* Configures the backend: once a process, also by harness_open. For tests that run the engine itself. */
int harness_configure(void);

/* After harness_options and setting harness->strategy: opens data, model and the strategy. world NULL: a world of one.
 * 0 or an exit code. */
int harness_open(struct harness *harness, struct world *world);
void harness_close(struct harness *harness);

/* Runs `updates` updates and fills *outcome (NULL: not wanted). 0 or an exit code; then *outcome is empty. */
int harness_train(struct harness *harness, int updates, struct outcome *outcome);
void outcome_free(struct outcome *outcome);

/* All in one, world of one: the strategy follows from the line ("--strategy single"). 0 or an exit code. */
int harness_run(const struct strategy *strategy, const char *line, int updates, struct outcome *outcome);

/* Elements whose bits differ; and max |a - b| / max |b| (a NaN in either: INFINITY). */
size_t count_different(const float *a, const float *b, size_t count);
double relative_difference(const float *a, const float *b, size_t count);

#endif
