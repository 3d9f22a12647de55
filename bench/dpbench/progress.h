/* SPDX-License-Identifier: MIT
 *
 * How far the sweep is: a bar that is rewritten on a terminal, a line a run when piped.
 */
#ifndef DPBENCH_PROGRESS_H
#define DPBENCH_PROGRESS_H

#include <stdbool.h>

struct progress {
    int done, total;
    double begin; /* clock_seconds */
    double ran;   /* seconds spent in runs that were not kept from before */
    int ran_count;
    bool terminal;
};

void progress_begin(struct progress *progress, int total);
/* A run begins: shown on a terminal only. */
void progress_next(const struct progress *progress, const char *what);
/* A run has ended; `result` in words ("45.1 ms, 2840 samples/s"). seconds < 0: kept from before. */
void progress_done(struct progress *progress, const char *what, const char *result, double seconds);
void progress_end(const struct progress *progress);

#endif
