/* SPDX-License-Identifier: MIT
 *
 * What a replay says: the numbers of results.csv (docs/results.md), and the bottleneck.
 */
#ifndef REPLAY_SUMMARY_H
#define REPLAY_SUMMARY_H

#include "play.h"

struct summary {
    int steps;
    double step_ms, step_ms_mad, step_ms_p95; /* the lower median: a step that is there */
    double phase_ms[PLAY_PHASES];             /* of that step's slowest device; they add up to step_ms */
    double hidden_ms, exposed_ms;             /* collectives beside computing; phases that only move bytes */
    int slowest_device;                       /* NOBODY_SLOWEST: the record has no marks */
    double util_mean, util_device0, util_most;
    int busiest_device;
    double comm_mib;               /* between devices, a step */
    double busiest_link_mib;       /* a step */
    int busiest_from, busiest_to;  /* -1: not known by pair (too many devices) */
    double host_share, lock_share; /* of the makespan: the busiest host thread, the launch lock */
    double collective_ms;          /* a step */
    double own_work_ms;            /* a step: the most own work of a host thread, from the record's measured times */
    char bottleneck[160];
};
#define NOBODY_SLOWEST (-1)

void summarize(struct summary *summary, const struct play_result *result);

#endif
