/* SPDX-License-Identifier: MIT
 *
 * The processes (or threads) that run the engine together, and the few host-side operations they need. single and dp have a
 * world of one (world_alone). ddp's is made by ddp_multi_process/rendezvous.c; tests make one of threads. All operations
 * are collective: every rank calls them in the same order. They return 0 or an exit code (reported, naming the rank).
 */
#ifndef RUN_WORLD_H
#define RUN_WORLD_H

#include <stddef.h>

struct world {
    int rank, size;
    int local_rank;                     /* position among the ranks of this host: the device to use */
    /* Rank 0 ends up with all ranks' data, in rank order, in `all` (size * bytes; NULL elsewhere). bytes equal on all. */
    int (*gather)(struct world *world, const void *mine, size_t bytes, void *all);
    /* Rank 0's data to all. */
    int (*broadcast)(struct world *world, void *data, size_t bytes);
    void *state;
};

int world_barrier(struct world *world);      /* gather + broadcast of nothing */
struct world world_alone(void);

#endif
