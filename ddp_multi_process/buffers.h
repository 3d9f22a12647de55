/* SPDX-License-Identifier: MIT
 *
 * What DDP does with a model's buffers (BatchNorm's running statistics), beside the parameters
 * (torch/nn/parallel/distributed.py): rank 0's are broadcast before a forward pass if the pass before it was a training
 * pass whose gradients were reduced; in between each rank's move on their own. And SyncBatchNorm's two exchanges
 * (torch/nn/modules/_functions.py) behind the hook of struct replica.
 */
#ifndef DDP_BUFFERS_H
#define DDP_BUFFERS_H

#include "nn/model.h"
#include "run/world.h"

struct buffers {
    /* Borrowed. */
    struct world *world;
    struct replica *replica;
    ncclComm_t comm;

    bool stale; /* the ranks' buffers may differ: the next forward pass begins with a broadcast */
    struct statistics_sync sync;
    float *gathered; /* device [ranks][count of the largest BatchNorm] */
};

/* Nothing is allocated, and nothing will ever be sent, for a model without buffers. sync_batch_norm: fills
 * replica->sync. The replica's device is current. */
int buffers_open(struct buffers *buffers, struct world *world, struct replica *replica, ncclComm_t comm,
                 bool sync_batch_norm);
void buffers_close(struct buffers *buffers); /* the streams are idle; a zeroed one is allowed */

/* Before every forward pass, on all ranks; reduces: it is a training pass whose gradients will be reduced. */
int buffers_before_forward(struct buffers *buffers, bool reduces);

/* Bytes between devices, whole world: of an update's broadcast; of SyncBatchNorm in one forward, one backward pass. */
uint64_t buffers_broadcast_bytes(const struct buffers *buffers);
uint64_t buffers_forward_bytes(const struct buffers *buffers);
uint64_t buffers_backward_bytes(const struct buffers *buffers);

#endif
