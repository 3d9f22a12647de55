/* SPDX-License-Identifier: MIT
 *
 * The processes (or threads) that run the engine together, and the few host-side operations they need. single and dp
 * have a world of one (world_alone). ddp's is made by ddp_multi_process/rendezvous.c; tests make one of threads. All
 * operations are collective: every rank calls them in the same order. They return 0 or an exit code (reported, naming
 * the rank).
 */
#ifndef RUN_WORLD_H
#define RUN_WORLD_H

#include <stddef.h>
#include <stdint.h>

#include "run/place.h"

struct world {
    int rank, size;
    int local_rank; /* position among the ranks of this host: the device to use */
    /* Rank 0 ends up with all ranks' data, in rank order, in `all` (size * bytes; NULL elsewhere). bytes equal on all.
     */
    int (*gather)(struct world *world, const void *mine, size_t bytes, void *all);
    /* Rank 0's data to all. */
    int (*broadcast)(struct world *world, void *data, size_t bytes);
    /* Rank 0: its --json is written, and tells of this exit code. NULL: nobody wants to know. */
    void (*reported)(int status);
    /* This rank has come to this phase and step (from 1; 0: before the first). NULL: nobody looks on. */
    void (*reach)(int rank, enum progress_phase phase, uint64_t step);
    /* This rank leaves because `failed` has failed: another one, or this one if it is sure. NULL: nobody wants to know. */
    void (*blame)(int rank, int failed);
    void *state;
};

int world_barrier(struct world *world); /* gather + broadcast of nothing */
struct world world_alone(void);

/* All ranks return the same: 0 if all say 0, else the exit code of the first rank that does not. So no rank goes on to
 * a collective that another one has given up. */
int world_agree(struct world *world, int status);
/* Likewise; *who := that rank. This rank's own number if nobody failed or the others can't be asked. */
int world_agree_who(struct world *world, int status, int *who);

/* Gathers items of which each rank may have another number. On rank 0 *all is a new array of all ranks' items in rank
 * order (the caller frees; NULL if there are none) and *total their number; elsewhere NULL and 0. */
int world_gather_items(struct world *world, const void *mine, size_t count, size_t item_bytes, void **all,
                       size_t *total);

#endif
