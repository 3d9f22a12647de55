/* SPDX-License-Identifier: MIT
 *
 * The reducer: averages the ranks' gradients while the backward pass goes on (torch/csrc/distributed/c10d/reducer.cpp).
 *
 *     compute        dW4 | copy | dW3 | copy | ...            wait 0 | copy back | wait 1 | copy back | update
 *     communication             all-reduce bucket 0 | all-reduce bucket 1 ...
 *
 * A gradient that is ready is multiplied by 1/N into its place in its bucket, on the compute stream. A bucket whose
 * gradients are all in is all-reduced (a plain sum, in place) on the communication stream when it is its turn: always
 * in index order, on all ranks. Iteration 1 has one bucket; at the beginning of iteration 2 buckets are made anew,
 * once, in the order in which rank 0's gradients became ready.
 *
 * Views (--gradient-as-bucket-view): a bucket is a range of the gradients' own buffer. Nothing is copied in or back: a
 * gradient that is ready is multiplied by 1/N where it lies, in the cache still. Buckets stand in the order of their first
 * parameters, and a bucket's gradients in registration order, each at a multiple of 256 bytes: so as long as each bucket
 * holds neighbours, as those of a backward pass in reverse do, every gradient keeps its usual place.
 */
#ifndef DDP_REDUCER_H
#define DDP_REDUCER_H

#include <stdbool.h>
#include <stdint.h>

#include "bucket.h"
#include "gpu/gpu.h"
#include "nn/model.h"
#include "run/timeline.h"
#include "run/world.h"

/* Where a gradient lies. */
struct place {
    int bucket;
    size_t first; /* element of the bucket memory */
};

/* A bucket's range of it, in elements. */
struct range {
    size_t first, count;
};

struct reducer_settings {
    size_t cap_bytes; /* --bucket-cap-mb: of every bucket but the first */
    bool overlap;     /* else all is reduced after the backward pass */
    bool views;       /* --gradient-as-bucket-view */
};

struct reducer {
    /* Borrowed. */
    struct world *world;
    struct replica *replica;
    struct timeline *timeline;
    ncclComm_t comm;

    struct reducer_settings settings;
    cudaStream_t communication;
    char *memory; /* device [parameter elements]: all buckets, one behind the other; views: the replica's gradients */
    struct bucket_layout layout;
    struct place *places; /* [parameters] */
    struct range *ranges; /* [buckets <= parameters] */
    size_t *offsets;      /* [parameters]: views: bytes, for the replica */
    int *missing;         /* [buckets <= parameters]: gradients not yet in */
    cudaEvent_t *filled;  /* [parameters]: bucket b is full (compute stream) */
    cudaEvent_t *reduced; /* [parameters]: bucket b is summed (communication stream) */
    int next;             /* bucket whose turn it is */

    int *ready_order; /* [parameters]: of iteration 1 */
    int ready_count;
    bool accumulated;   /* see reducer_begin */
    uint64_t iteration; /* updates begun since open or restart */
    uint64_t step;      /* the engine's number of the step, for fault points */
};

/* Allocates all that any layout can need (the replica's device is current). Returns 0 or an exit code (reported). */
int reducer_open(struct reducer *reducer, struct world *world, struct replica *replica, struct timeline *timeline,
                 ncclComm_t comm, const struct reducer_settings *settings);
void reducer_close(struct reducer *reducer); /* the streams are idle; a zeroed reducer is allowed */

/* Forgets the ready order: the next iteration is the first again. Streams are idle. */
int reducer_restart(struct reducer *reducer);

/* Before the first backward pass of an update: collective in iteration 2, when rank 0's order is broadcast and buckets are
 * made anew (as views they move, so no micro-batch may have left its gradients in them). */
int reducer_begin_update(struct reducer *reducer);

/* Before a backward pass that is to be reduced. accumulated:
 * micro-batches before it are in the gradients, or in 16 bit in replica->sums. */
int reducer_begin(struct reducer *reducer, uint64_t step, bool accumulated);

/* The backward pass's gradient_ready: context is the reducer. */
int reducer_ready(void *context, int index);

/* After the backward pass: the compute stream waits for each bucket and copies it back into the gradients (views: they are
 * there). Marks allreduce_exposed (waiting) and backward (copying). */
int reducer_finish(struct reducer *reducer);

/* Of all buckets together. */
size_t reducer_bytes(const struct reducer *reducer);

#endif
