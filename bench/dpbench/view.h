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

#define VIEWS_MAX 16 /* workloads that are run here, two scalings each */

/* The workload that a row of results.csv belongs to; NULL: none of today's. */
const struct workload *row_workload(const struct table *rows, int row);

/* The first row from `start` on of a cell that went well and was executed, not only recorded (shape only); -1: none. */
int executed_row(const struct table *rows, int start);

/* All workloads and scalings that have rows; returns their number. */
int views_make(const struct results *results, struct view views[VIEWS_MAX]);

/* The view that a row of results.csv belongs to, without its Ns; workload NULL: none of today's. */
struct view view_of_row(const struct results *results, int row);

/* The row of results.csv of a cell that went well; -1: none, or it failed. */
int view_row(const struct view *view, const char *strategy, int gpus, bool no_overlap);

/* A number of that row; NAN if the row or the number is absent. */
double view_number(const struct view *view, const char *strategy, int gpus, const char *column);

/* More cores asked for than there are: its times are shown nowhere. */
bool view_oversubscribed(const struct view *view, const char *strategy, int gpus);

/* The row of pairs.csv; -1: none. */
int view_pair(const struct view *view, int gpus, const char *left, const char *right);

/* What an interval round a ratio says of the two sides. An end that is 1.00 with two digits, as it is printed, holds 1.
 */
enum seen {
    SEEN_UNKNOWN, /* no interval: one round */
    SEEN_NONE,    /* it holds 1 */
    SEEN_ABOVE,
    SEEN_BELOW
};
enum seen seen(double low, double high);

/* Does overlap save, or cost, anything at this N? By the interval; with one round by the spread of the steps. */
enum seen view_overlap(const struct view *view, int gpus);

/* Spread of a cell's steps, MAD / median. From UNSTEADY on its times are not to be built on. */
double row_spread(const struct table *rows, int row);
#define UNSTEADY 0.2

/* The largest N at which both dp and ddp went well, of all or of those not oversubscribed; 0: none. */
int view_largest(const struct view *view, bool timed);

#endif
