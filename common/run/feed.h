/* SPDX-License-Identifier: MIT
 *
 * Brings one device the rows of its batches: from the host through pinned memory, on the replica's compute stream. The
 * host memory holds all micro-batches of an update, so that nothing is overwritten that is still being copied. Resident
 * data (synthetic) is on the device since open, and a step copies nothing: the replica reads it where it lies.
 */
#ifndef RUN_FEED_H
#define RUN_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "run/strategy.h"

struct feed {
    const struct dataset *dataset;
    struct replica *replica;  /* borrowed */
    size_t rows_max, rows;    /* samples of an update: room, and used so far */
    char *values;             /* pinned: the inputs of rows_max samples; NULL: resident */
    int32_t *labels;          /* pinned [rows_max][targets] */
    char *resident;           /* device: the same inputs, in place of the replica's own; NULL: not resident */
    int32_t *resident_labels; /* device [rows_max][targets] */
};

/* For device or rank `device` of `devices`; the replica is open. */
int feed_open(struct feed *feed, const struct run *run, struct replica *replica, int devices, int device);

/* Before replica_close. */
void feed_close(struct feed *feed);

/* Enqueues replica->input, replica->labels := these rows. first: the update begins, the device is idle. A batch of at
 * most the replica's batch_max rows; the sum since `first` at most the rows of an update on this device. */
int feed_enqueue(struct feed *feed, const uint32_t *indices, size_t count, bool first);

/* New device memory on the replica's device, filled with the samples indices[rows]; synchronous. gpu_free by the
 * caller. */
int feed_make_resident(const struct dataset *dataset, const uint32_t *indices, size_t rows,
                       const struct replica *replica, void **values, int32_t **labels);

#endif
