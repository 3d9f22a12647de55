/* SPDX-License-Identifier: MIT
 *
 * A world whose ranks are threads of this process: the ranks of DDP under one thread sanitizer, without processes.
 */
#ifndef TESTS_DDP_THREAD_WORLD_H
#define TESTS_DDP_THREAD_WORLD_H

#include <pthread.h>

#include "run/world.h"

struct thread_world {
    int size;
    pthread_barrier_t barrier;
    void *all;        /* rank 0's buffer of the gather under way */
    const void *sent; /* rank 0's data of the broadcast under way */
};

/* What one rank does; returns an exit code. */
typedef int rank_body(struct world *world, void *context);

/* Runs body on `size` threads, each with its own world, local rank = rank; context is shared. Fills codes[size]. */
void thread_world_run(int size, rank_body *body, void *context, int *codes);

#endif
