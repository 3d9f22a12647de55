/* SPDX-License-Identifier: MIT
 *
 * The largest batch per device that dp and ddp fit into the same memory: --find-batch of the trainers, which executes
 * nothing. For the workloads that are recorded only (shape_gpus), on their devices and memory.
 */
#ifndef DPBENCH_LARGEST_H
#define DPBENCH_LARGEST_H

#include "results.h"
#include "settings.h"

/* Asks for what results->largest lacks, and writes the tables. A trainer that gives no answer is a row with its reason.
 * *interrupted: the signal that came, or 0. 0, or EXIT_RESOURCE: the folder can no longer be written. */
int largest_run(const struct settings *settings, struct results *results, int *interrupted);

/* The row of a workload's strategy whose status is ok; -1: none. */
int largest_find(const struct results *results, const struct workload *workload, const char *strategy);

#endif
