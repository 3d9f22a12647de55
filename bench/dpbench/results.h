/* SPDX-License-Identifier: MIT
 *
 * The tables of a sweep and how a cell's runs become their rows. docs/results.md derives every column.
 */
#ifndef DPBENCH_RESULTS_H
#define DPBENCH_RESULTS_H

#include <stdbool.h>

#include "compare.h"
#include "csv.h"
#include "plan.h"
#include "record.h"

#define RESULTS_SCHEMA "1"

struct results {
    struct table rows;     /* results.csv: a row a cell that was measured here */
    struct table devices;  /* devices.csv: a row a cell and device */
    struct table steps;    /* steps.csv: every timed step of every round */
    struct table traffic;  /* traffic.csv: bytes a step by phase and ordered pair of devices */
    struct table accuracy; /* accuracy.csv: a row a cell with a test set */
    struct table ledger;   /* ledger.csv: bytes a step by phase, counted and by formula */
    struct table pairs;    /* pairs.csv: two cells of one group compared */
    struct table largest;  /* largest.csv: the largest batch that fits, a row a strategy (largest.h) */
    /* The modelled band (modelled.h), apart so that no reader of the tables above meets a modelled time. */
    struct table modelled;         /* results.csv's other rows: clock = modelled */
    struct table modelled_more;    /* modelled.csv: what results.csv has no column for */
    struct table modelled_devices; /* modelled_devices.csv: a row a device */
    struct table timeline;         /* timeline.csv: one step's spans */
};

/* A cell's runs, and what was found about them. */
struct measured {
    const struct cell *cell;
    struct record *records; /* [rounds], those done; owned */
    int rounds;
    double *round_ms;   /* [rounds] median step of each round */
    double *round_rate; /* [rounds] samples per second of each round */
    int middle;         /* the round with the median step_ms: its breakdown is the row's */
    char status[24];    /* "ok", or what docs/output.md names */
    char reason[600];
    enum equality equal;
    char checksum_ref[24];
    struct comparison pair; /* ddp: with dp at the same N */
};

void results_open(struct results *results);
void results_close(struct results *results);

/* The first row at or after `start` that belongs to a cell, in any table but pairs.csv; -1: none. */
int results_find(const struct table *table, int start, const struct cell *cell);

/* Takes over a run's record (freed by measured_free) and notes its failure, if it failed. */
void measured_add(struct measured *measured, struct record *record);
/* After the last round: medians, the middle round, and whether all rounds computed the same. */
void measured_finish(struct measured *measured);
void measured_free(struct measured *measured);
bool measured_ok(const struct measured *measured);

/* The measured cell of the group with that strategy, or NULL if absent or failed. */
const struct measured *measured_find(const struct measured *all, const struct group *group, const char *strategy,
                                     int gpus, bool no_overlap);

/* Compares dp with ddp at each N, ddp without overlap with ddp, and each with single where the global batch is the
 * same; sets equal, checksum_ref, pair and, for `no`, reason. Gradients of round 0 are FOLDER/ID.gradients. */
void results_prove(const struct group *group, struct measured *all, const char *folder);

/* Adds the rows of all cells of a finished group that have none yet. */
void results_add_group(struct results *results, const struct plan *plan, const struct group *group,
                       const struct measured *all, const char *run_id);

/* Writes all tables; results.csv last: a cell that stands there stands in all. 0 or EXIT_RESOURCE. */
int results_write(const struct results *results, const char *folder);

/* Reads all tables and drops rows of cells that results.csv does not have. */
int results_read(struct results *results, const char *folder);

/* Writes results.json: {"results": [{column: value}, ...], "devices": [...], ...}, numbers as numbers, empty as null.
 */
int results_write_json(const struct results *results, const char *folder);

#endif
