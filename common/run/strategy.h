/* SPDX-License-Identifier: MIT
 *
 * The function table that single, dp and ddp fill, and the one engine that runs them. The comparison is in the
 * structure: warm-up, timed steps, barriers, evaluation, checks and output belong to the engine and are the same for
 * all.
 */
#ifndef RUN_STRATEGY_H
#define RUN_STRATEGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/dataset.h"
#include "nn/model.h"
#include "nn/optimizer.h"
#include "run/options.h"
#include "run/timeline.h"
#include "run/world.h"

/* What a strategy is given at open. All borrowed. */
struct run {
    const struct options *options;
    struct world *world;
    const struct model *model;
    const struct dataset *dataset;
};

/* One global batch, or one micro-batch of it under --accumulate. */
struct batch {
    const uint32_t *indices; /* [count] into the dataset: rows of the global batch in order */
    size_t count;            /* samples over all devices */
    float loss_scale; /* what d loss / d logits of each sample is multiplied by for the one-device value: 1 / (global
                         batch x targets) for the mean, 1 for the sum. ddp multiplies by world size (its reducer divides
                         by it) */
    bool first, last; /* micro-batch of the update: gradients overwritten at first; reduced and applied at last */
    uint64_t step;    /* number of the update since the initial weights, from 0: for fault points and messages */
};

struct step_result {
    double loss_sum; /* of all targets of the samples that THIS process's devices saw; valid after finish */
    size_t samples;  /* the same samples, counted */
};

struct evaluation {
    size_t samples; /* of this process's devices */
    size_t correct; /* of their targets */
    double loss_sum;
};

struct strategy {
    const char *name;
    int (*open)(void **state, const struct run *run);
    /* Tells that update `step` will be of indices[global_batch], up to LOADER_PREFETCH updates before it is run, in
     * order: a hint to load it in the background. */
    void (*announce)(void *state, uint64_t step, const uint32_t *indices);
    /* Enqueues one (micro-)step, marks its timelines. May return before devices are done. */
    int (*step)(void *state, const struct batch *batch);
    /* Waits until all of this process's devices are idle (deadline: options->timeout) and tells the result. */
    int (*finish)(void *state, struct step_result *result);
    /* Forward only over samples indices[count] in pieces; every sample once, whatever N. Synchronous. */
    int (*evaluate)(void *state, const uint32_t *indices, size_t count, struct evaluation *evaluation);
    /* Devices of this process: their replicas and timelines, index 0 .. devices-1. */
    int (*devices)(void *state);
    struct timeline *(*timeline)(void *state, int index);
    struct replica *(*replica)(void *state, int index); /* index 0 holds the authoritative parameters and gradients */
    int (*restart)(void *state);                        /* parameters and optimizer as after open */
    /* Bytes between devices that one step must move, by semantics.md's formulas, whole world: for the ledger. Fills
     * formula[PHASES] (0 where nothing moves). */
    void (*traffic_formula)(void *state, uint64_t formula[PHASES]);
    struct optimizer *(*optimizer)(void *state); /* of replica 0: the engine saves and loads through these two */
    /* failed: this rank or another one. Then a collective may be under way that never ends: it is aborted. */
    void (*close)(void *state, bool failed);
};

/* --device names another backend than this program's: EXIT_RESOURCE. Touches no device. */
int engine_check_backend(const struct options *options);

/* Tells the backend what the options say (memory, cores, limits, record): once a process, before the first CUDA call.
 * devices: used by this run on this host. Ends with
 * engine_check_backend's refusals. */
int engine_configure(const struct options *options, int devices);

/* The data and the model that the options name, made to fit each other. The caller closes both, also after a failure.
 */
int engine_open_data(const struct options *options, struct dataset *dataset, struct model *model);

/* --device-count: prints how many devices can be used. EXIT_RESOURCE if there is none. */
int engine_print_device_count(void);

extern const struct strategy strategy_single; /* common/run/single.c */

/* Writes --json of a run that ended with this exit code before rank 0 could: the settings that are known, and why
 * (log_last_error). Without --json nothing. */
int engine_report_failure(const struct strategy *strategy, const struct options *options, int status);

/* Runs a whole training as options say: opens data and model, verification (--checksum), warm-up, timed steps,
 * evaluation, output on terminal and --json. Called by every rank. Returns an exit code. After EXIT_TIME_LIMIT nothing
 * has been closed: a device may be at work for ever, and would be waited for. */
int engine_run(const struct strategy *strategy, const struct options *options, struct world *world);

/* Ends the process with the code of engine_run; after EXIT_TIME_LIMIT without a wait for devices at exit. */
_Noreturn void engine_leave(int status);

#endif
