/* SPDX-License-Identifier: MIT
 *
 * Brings one device the rows of its batches: from the loader's pinned memory, on the replica's copy stream, which the
 * compute stream waits for. The pinned memory holds all micro-batches of an update, so that nothing is overwritten that
 * is still being copied. Resident data (synthetic) is on the device since open, and a step copies nothing: the replica
 * reads it where it lies.
 */
#ifndef RUN_FEED_H
#define RUN_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "run/loader.h"
#include "run/strategy.h"

struct feed {
    const struct dataset *dataset;
    struct replica *replica;      /* borrowed */
    struct loader *loader;        /* NULL: resident */
    cudaEvent_t copied, consumed; /* copy: the rows are here; compute: the micro-batch before has been used */
    size_t rows_max, rows;        /* samples of an update: room, and used so far */
    char *resident;               /* device: the same inputs, in place of the replica's own; NULL: not resident */
    int32_t *resident_labels;     /* device [rows_max][targets] */
};

/* For device or rank `device` of `devices`; the replica is open. */
int feed_open(struct feed *feed, const struct run *run, struct replica *replica, int devices, int device);

/* Before replica_close. */
void feed_close(struct feed *feed);

/* The next update but few: see loader_announce. */
void feed_announce(struct feed *feed, uint64_t step, const uint32_t *indices);

/* Enqueues replica->input, replica->labels := these rows; what is enqueued on the compute stream after it finds them.
 * first: the update `step` begins, the device is idle. A batch of at most the replica's batch_max rows; the sum since
 * `first` at most the rows of an update on this device. */
int feed_enqueue(struct feed *feed, uint64_t step, const uint32_t *indices, size_t count, bool first);

/* The device is idle after an update: what was copied is no longer needed on the host. */
void feed_release(struct feed *feed);

/* New device memory on the replica's device, filled with the samples indices[rows]; synchronous. gpu_free by the
 * caller. */
int feed_make_resident(const struct dataset *dataset, const uint32_t *indices, size_t rows,
                       const struct replica *replica, void **values, int32_t **labels);

#endif
