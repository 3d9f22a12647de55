/* SPDX-License-Identifier: MIT
 *
 * The engine's own rooms (strategy.h has its door). engine.c: the life of a run; engine_train.c: updates, verification,
 * warm-up, timed steps; engine_results.c: what was measured, from all ranks to rank 0; report_json.c and
 * report_screen.c: what is told of it.
 */
#ifndef RUN_ENGINE_H
#define RUN_ENGINE_H

#include "data/sampler.h"
#include "gpu/memory.h"
#include "run/ledger.h"
#include "run/loader.h"
#include "run/strategy.h"
#include "run/trace.h"

#define VERIFICATION_STEPS 3
#define RUN_MAX_DEVICES 64 /* the most --gpus allows */
#define DEVICE_TEXT 128

/* One timed step as one rank saw it. Its phases are those of its slowest device: the one whose last mark came last. */
struct step_row {
    double ms;               /* host clock around step and finish */
    double phase_ms[PHASES]; /* exclusive; host is what lies before the first mark and after the last one */
    double communication_hidden_ms;
    double loss_sum;
    uint64_t samples;
};

/* One device after the timed steps. */
struct device_row {
    int32_t position; /* DP: the device's number; DDP: the rank */
    int32_t rank;
    uint64_t peak_total, peak[MEMORY_CATEGORIES]; /* bytes */
    double busy_s;                                /* in the timed steps; NAN: the backend can't tell */
    double step_s;                                /* the timed steps of its rank in all */
    int32_t cores;                                /* 0: not a matter of cores (CUDA) */
    char name[DEVICE_TEXT], cpuset[DEVICE_TEXT];
};

/* What is known at the end, on rank 0. */
struct results {
    struct step_row *rows; /* [ranks][steps] */
    size_t row_count;
    struct device_row *devices; /* by position */
    size_t device_count;
    struct ledger ledger;
    struct evaluation evaluation;
    bool evaluated;
    struct update_control control; /* of the optimizer, after the timed steps: the loss scale, skipped updates */
};

struct engine {
    const struct strategy *strategy;
    const struct options *options;
    struct world *world;
    struct dataset dataset;
    struct model model;
    struct sampler sampler;
    void *state;     /* the strategy's */
    uint32_t *drawn; /* [1 + LOADER_PREFETCH][global_batch]: batches of the steps drawn_from .. drawn_to - 1 */
    uint64_t drawn_from, drawn_to;
    uint64_t end;          /* the step before which this part of the run ends: no batch beyond it is announced */
    uint32_t *indices;     /* [global_batch], in drawn: of the step at hand */
    uint64_t step;         /* updates since the initial weights: the number of the next one */
    int warmup, steps;     /* to be done in this run */
    int skipped;           /* timed steps without a sample: no update */
    struct step_row *rows; /* [steps] of this rank */
    int row_count;
    struct trace trace;
    bool scaled; /* fp16: there is a loss scale */
    bool verified;
    bool json_refused; /* there is no writing to --json, and that has been said */
    struct options tried;                /* --find-batch: what `options` points to, with the batch that is tried */
    size_t found_batch;                  /* per device; 0: not looked for */
    size_t device_bytes;                 /* that each device may hold; likewise */
    bool complete;                       /* all that was planned has been done: nobody waits for anybody */
    uint64_t checksum;                   /* after the verification */
    double busy_before[RUN_MAX_DEVICES]; /* seconds, by device of this rank, when the timed steps began */
    int cores_per_device;                /* 0: CUDA */
    char device_name[DEVICE_TEXT];
};

/* ---- engine.c ---- */

/* Tells where this rank stands (place.h). */
void engine_reach(const struct engine *engine, enum progress_phase phase, uint64_t step);

/* ---- engine_train.c ---- */

/* One update, from the batch's indices to idle devices; *result is this rank's. A global batch of 0 is skipped. */
int engine_update(struct engine *engine, struct step_result *result);

/* VERIFICATION_STEPS updates from the initial weights, gradients of the first one saved, checksum compared over the
 * ranks, then everything as before. */
int engine_verify(struct engine *engine);
int engine_warm_up(struct engine *engine);
int engine_run_timed(struct engine *engine);

/* The test set, every sample once over all ranks. Rank 0 gets the sum. */
int engine_evaluate(struct engine *engine, struct evaluation *total);

/* ---- find_batch.c ---- */

/* --find-batch, in place of training: fills *results for the largest batch per device that fits. All ranks. */
int engine_find_batch(struct engine *engine, struct results *results);
/* The device that holds most at that batch. */
const struct device_row *fullest_device(const struct results *results);

/* ---- engine_results.c ---- */

/* busy[i] := busy seconds of this rank's device i so far. */
void engine_read_busy(const struct engine *engine, double busy[RUN_MAX_DEVICES]);

/* Collective: fills *results on rank 0. Closed by results_close everywhere. */
int results_collect(struct results *results, struct engine *engine);
void results_close(struct results *results);

/* Numbers of results.csv, from the rows; NAN where nothing was measured. */
struct summary {
    double step_ms, step_ms_mad, step_ms_p95, samples_per_s;
    double phase_ms[PHASES], communication_hidden_ms; /* of the median step: they add up to step_ms */
    double peak_mib, device0_mib, median_others_mib, imbalance;
    double util_mean, util_device0;
    double loss_first, loss_last;
    bool oversubscribed;
};
void results_summarize(struct summary *summary, const struct results *results, const struct engine *engine);

/* A step over all ranks. --shape-only: NAN, since nothing was executed. */
double results_step_ms(const struct results *results, const struct engine *engine, int step);
double results_step_loss(const struct results *results, const struct engine *engine, int step);
double device_utilization(const struct device_row *device);

/* ---- report_json.c, report_screen.c: rank 0 ---- */

/* Writes the whole file at the end (file_write_output). results NULL: the run failed with exit code `status`. */
int report_json(const struct engine *engine, const struct results *results, int status);

void screen_start(const struct engine *engine);
void screen_step(const struct engine *engine, const char *what, int step, int steps, const struct step_result *result,
                 double seconds);
void screen_end(const struct engine *engine, const struct results *results);
void screen_found_batch(const struct engine *engine, const struct results *results);

/* Mean over the samples' targets or their sum, as --loss says; NAN without samples or without values. */
double engine_loss(const struct engine *engine, double sum, uint64_t samples);

#endif
