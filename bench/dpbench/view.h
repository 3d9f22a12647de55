/* SPDX-License-Identifier: MIT
 *
 * The results of one workload under one scaling, as figures, verdict and report look at them.
 */
#ifndef DPBENCH_VIEW_H
#define DPBENCH_VIEW_H

#include "results.h"
#include "settings.h"

struct view {
    const struct results *results;
    const struct workload *workload;
    enum scaling scaling;
    int gpus[SETTINGS_MAX_GPUS], gpu_count; /* the Ns that dp or ddp ran on, ascending */
};

#define VIEWS_MAX 8

/* The workload that a row of results.csv belongs to; NULL: none of today's. */
const struct workload *row_workload(const struct table *rows, int row);

/* All workloads and scalings that have rows; returns their number. */
int views_make(const struct results *results, struct view views[VIEWS_MAX]);

/* The row of results.csv of a cell that went well; -1: none, or it failed. */
int view_row(const struct view *view, const char *strategy, int gpus, bool no_overlap);

/* A number of that row; NAN if the row or the number is absent. */
double view_number(const struct view *view, const char *strategy, int gpus, const char *column);

/* More cores asked for than there are: its times are shown nowhere. */
bool view_oversubscribed(const struct view *view, const char *strategy, int gpus);

/* The row of pairs.csv; -1: none. */
int view_pair(const struct view *view, int gpus, const char *left, const char *right);

/* The largest N at which both dp and ddp went well, of all or of those not oversubscribed; 0: none. */
int view_largest(const struct view *view, bool timed);

#endif
