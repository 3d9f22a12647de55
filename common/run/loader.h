/* SPDX-License-Identifier: MIT
 *
 * Loading in the background: threads gather the rows of the batches to come into pinned host memory while the devices
 * work on the present one.
 *
 *     engine                   training thread                               loader threads
 *     draws batch s + 2   ->   loader_announce: rows of this process    ->   each its share of the rows
 *     step s              ->   loader_take: waits until they are there; copies are enqueued from where they lie
 *
 * Announcing is a hint. What is taken is what was asked for, whatever was announced: rows that were not foreseen
 * (evaluation, the first step after a restart) are gathered when they are taken. So the bits don't depend on it.
 *
 * The number of threads is --loaders for each device of the process: `single` and each rank of `ddp` have L, `dp`'s one
 * process L x N. So as many threads load for N devices, whatever the strategy. 0: the training thread gathers.
 */
#ifndef RUN_LOADER_H
#define RUN_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "run/strategy.h"

#define LOADER_PREFETCH 2 /* batches beyond the present one */

struct loader;

/* For device or rank `device` of `devices` among which the rows are cut (dp, which loads for all of its devices: 0 of
 * 1). rows_max: the most that are in use at once. Pinned memory: 1 + LOADER_PREFETCH times as much. */
int loader_open(struct loader **loader, const struct run *run, size_t rows_max, int devices, int device);

/* Stops the threads, also amid a batch. The devices no longer copy. NULL is allowed. */
void loader_close(struct loader *loader);

/* The update `step` will be of indices[global_batch]. Ignored if 1 + LOADER_PREFETCH updates wait or are in use. */
void loader_announce(struct loader *loader, uint64_t step, const uint32_t *indices);

/* *values[count][inputs], *labels[count][targets] := these rows, in pinned memory. They stay until loader_release or the
 * next call with `first`, which begins an update. A thread that has failed
 * has said why: its exit code. --shape-only: memory without content. */
int loader_take(struct loader *loader, uint64_t step, const uint32_t *indices, size_t count, bool first, void **values,
                int32_t **labels);

/* The devices have copied what was taken: its memory is free for the batch after the next ones. */
void loader_release(struct loader *loader);

/* Batches that were taken as announced, so far: for tests. */
uint64_t loader_foreseen(const struct loader *loader);

#endif
