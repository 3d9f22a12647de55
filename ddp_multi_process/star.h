/* SPDX-License-Identifier: MIT
 *
 * struct world over sockets: a star with rank 0 in the middle, made by the rendezvous. Every wait has a deadline and
 * ends at once when a peer's socket closes; what rank 0 finds out (a rank that left, one that is late) it tells to all,
 * so that every rank names the same cause.
 */
#ifndef DDP_STAR_H
#define DDP_STAR_H

#include <stdint.h>

#include "run/world.h"

struct star {
    int rank, size;
    int *sockets;        /* rank 0: [size], to each rank (at 0: the listening socket); others: [1], to rank 0. Owned. */
    double timeout_s;    /* of each operation */
    uint32_t operations; /* done so far: peers must be at the same one */
    int failed;          /* exit code of the operation that failed: there are no more after it */
};

/* Makes *world out of joined sockets; takes over `sockets`. */
int star_open(struct world *world, int rank, int size, int local_rank, int *sockets, double timeout_s);
void star_close(struct world *world); /* a zeroed world is allowed */

#endif
