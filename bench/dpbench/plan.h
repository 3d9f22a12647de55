/* SPDX-License-Identifier: MIT
 *
 * What a sweep measures: workloads (a model, its data and its sizes), cells (one strategy on N devices) and the order
 * of the runs. Adding a workload: one row in workloads[] of plan.c.
 */
#ifndef DPBENCH_PLAN_H
#define DPBENCH_PLAN_H

#include <stdbool.h>
#include <stddef.h>

struct settings;

struct workload {
    const char *name;  /* for --models */
    const char *title; /* for the report */
    const char *model, *data;
    size_t inputs, width, depth, classes; /* an mlp's, as run */
    size_t parameters;                    /* of any other model */
    const char *arguments[8];             /* sizes given to the trainer; NULL-terminated */
    const char *variant;                  /* what the trainer then prints as variant */
    size_t batch;                         /* strong scaling: the global batch; weak: per device; 0: not run here */
    int quick_steps, quick_rounds, steps, rounds;
    bool timed;      /* made for times: gets throughput plots and a ddp cell without overlap */
    bool evaluated;  /* real data: the test accuracy counts */
    bool batch_norm; /* each piece has its own statistics: N > 1 does not train single's model */
    int shape_gpus;  /* not 0: recorded without executing, dp and ddp on so many devices: memory and bytes, no times */
    size_t modelled_batch; /* samples per device in the modelled band; 0: not in it */
};

extern const struct workload workloads[];
extern const int workload_count;

/* Parameters of a workload's model in bytes (fp32): what one file of gradients takes on the disk; shape only: 0. */
size_t workload_parameter_bytes(const struct workload *workload);

enum scaling { SCALING_STRONG, SCALING_WEAK };
const char *scaling_name(enum scaling scaling);

struct cell {
    const struct workload *workload;
    const char *strategy; /* "single", "dp", "ddp" */
    enum scaling scaling;
    int gpus;
    bool no_overlap; /* ddp only: reductions after the backward pass; for overlap_saved_ms */
    size_t global_batch;
    char id[96];      /* names its files: "mlp-strong-ddp-4", "mlp-strong-ddp-4-no-overlap" */
    char variant[96]; /* the column: the workload's and the cell's options in canonical order */
};

struct cell cell_make(const struct workload *workload, enum scaling scaling, const char *strategy, int gpus,
                      bool no_overlap);

/* What a shape-only cell's variant says after what its trainer prints. */
#define SHAPE_ONLY "shape_only=1"

/* Cells that are interleaved with each other: one workload under one scaling, all strategies, all N. */
struct group {
    struct cell *cells; /* in the order of a round: by N; single, dp, ddp, ddp without overlap */
    int cell_count;
    int rounds, steps;
};

struct plan {
    struct group *groups;
    int group_count;
    int cores_per_device; /* the same for every run of the sweep: max(1, usable cores / largest N) */
    int usable_cores;
};

/* Allocates; plan_free. */
void plan_make(struct plan *plan, const struct settings *settings);
void plan_free(struct plan *plan);

int plan_run_count(const struct plan *plan);

/* More cores asked for than there are: bytes and memory hold, times do not. Shape only: no, for nothing runs. */
bool plan_oversubscribed(const struct plan *plan, const struct cell *cell);

/* The cell of the group that differs from `cell` only in strategy (and overlap); NULL: not in the sweep. */
const struct cell *group_find(const struct group *group, const char *strategy, int gpus, bool no_overlap);

/* All that determines the sweep, as text: --resume compares it with what the folder was begun with. The caller frees.
 */
char *plan_text(const struct plan *plan, const struct settings *settings);

#endif
