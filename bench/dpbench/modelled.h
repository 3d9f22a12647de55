/* SPDX-License-Identifier: MIT
 *
 * The modelled band: workloads recorded without executing (--shape-only --record) and replayed on described machines.
 * Its rows are kept apart from the measured ones in memory (struct results: `modelled`), so that nothing which reads
 * times of this machine can meet a modelled one; in results.csv they are told apart by clock and machine.
 */
#ifndef DPBENCH_MODELLED_H
#define DPBENCH_MODELLED_H

#include "plan.h"
#include "results.h"
#include "settings.h"

struct modelled_machine {
    const char *name;  /* of bench/machines/NAME.ini */
    const char *title; /* its description there */
    int devices;
};
extern const struct modelled_machine modelled_machines[];
extern const int modelled_machine_count;

/* Numbers of devices, ascending; a machine takes those that it has. All are weak scaling: a batch per device. */
extern const int modelled_numbers[];
extern const int modelled_number_count;

/* What each launch takes longer where the launch lock is on: one lock a process, as an interpreter has. No measured
 * figure: calibration knows only whole operations (an element-wise one of PyTorch about 20 us, a launch 5.6 us). */
#define MODELLED_LOCK_US 10

struct modelled_cell {
    const struct workload *workload;
    const struct modelled_machine *machine;
    const char *strategy;
    int gpus;
    bool lock;
};

/* All cells of a workload on a machine, in the order of their rows: single, then dp and ddp by N, then dp and ddp on
 * all devices with the launch lock. Returns their number. */
#define MODELLED_CELLS_MAX 16
int modelled_cells(const struct settings *settings, const struct workload *workload,
                   const struct modelled_machine *machine, struct modelled_cell cells[MODELLED_CELLS_MAX]);

/* The variant that the replay prints for the cell. */
void modelled_variant(const struct modelled_cell *cell, char *text, size_t size);

/* The row of results->modelled (or of another table with columns `machine` and those that name a cell), at or after
 * `start`; -1: none. */
int modelled_find(const struct table *table, int start, const struct modelled_cell *cell);
/* Likewise, in results->modelled, and only if its status is ok. */
int modelled_ok(const struct results *results, const struct modelled_cell *cell);

/* Records and replays all that settings->workloads has of the band and `results` lacks, and writes the tables after
 * each workload. What fails is a row with its reason; a missing replay is one row with status `left_out`. *interrupted:
 * the signal that came, or 0; the workload that it met is as if never begun. 0, or EXIT_RESOURCE: the folder can no
 * longer be written. */
int modelled_run(const struct settings *settings, struct results *results, const char *run_id, int *interrupted);

/* ---- modelled_rows.c ---- */

/* Adds the cell's rows from the replay's JSON lines, and its timeline unless trace is NULL. NULL, or why not. */
const char *modelled_add(struct results *results, const struct modelled_cell *cell, const char *run_id,
                         const char *json, const char *trace);
/* Adds a row for a cell that failed; cell NULL: for the whole band. */
void modelled_add_failure(struct results *results, const struct modelled_cell *cell, const char *run_id,
                          const char *status, const char *reason);
/* Speed-up and efficiency of a finished workload's cells over `single` on the same machine. */
void modelled_add_speedups(struct results *results, const struct modelled_cell *cells, int count);

/* ---- timeline.c ---- */

/* Adds the first step's spans, neighbours of one phase joined. step_ms: its length. */
const char *timeline_add(struct table *table, const struct modelled_cell *cell, const char *trace, double step_ms);
/* Fills the columns that name a cell in the tables of this band. */
void modelled_set_key(struct table *table, int row, const struct modelled_cell *cell);

#endif
