/* SPDX-License-Identifier: MIT
 *
 * Planted faults of ranks, for the tests of supervision. DPBENCH_FAULT (sys/fault.h) names what, which rank and when:
 *
 *     kill:2:step5           rank 2 at the beginning of step 5 (from 0 over the whole run)
 *     exit3-at-open:1:step0  rank 1 when it comes to that phase (progress.h)
 *
 * kill, abort, segv, fpe, bus, stop: signals; exit0, exit3; spin: for ever; deaf: sleeps for ever and ignores TERM.
 * Of its first all-reduce in that step: skip-collective, other-count. With step0 for all steps: slow (50 ms a step).
 * noexec (step0): the launcher finds no program for this rank.
 */
#ifndef DDP_RANK_FAULT_H
#define DDP_RANK_FAULT_H

#include <stdint.h>

#include "progress.h"

/* Fails here if it is planted here. Costs a look into the environment if nothing is planted. step counts from 1, 0:
 * before the first. */
void rank_fault_point(int rank, enum progress_phase phase, uint64_t step);

#endif
