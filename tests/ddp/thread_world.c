/* SPDX-License-Identifier: MIT
 *
 * Two barriers an operation: before the data are touched, and after. A rank that fails must not leave the others in
 * one: bodies agree (world_agree) before they give up, as strategies do.
 */
#include "thread_world.h"

#include <stdlib.h>
#include <string.h>

struct thread_rank {
    struct world world;
    rank_body *body;
    void *context;
    int code;
    pthread_t thread;
};

static int gather(struct world *world, const void *mine, size_t bytes, void *all)
{
    struct thread_world *shared = world->state;
    if (world->rank == 0)
        shared->all = all;
    pthread_barrier_wait(&shared->barrier);
    if (bytes > 0)
        memcpy((char *)shared->all + (size_t)world->rank * bytes, mine, bytes);
    pthread_barrier_wait(&shared->barrier);
    return 0;
}

static int broadcast(struct world *world, void *data, size_t bytes)
{
    struct thread_world *shared = world->state;
    if (world->rank == 0)
        shared->sent = data;
    pthread_barrier_wait(&shared->barrier);
    if (world->rank > 0 && bytes > 0)
        memcpy(data, shared->sent, bytes);
    pthread_barrier_wait(&shared->barrier);
    return 0;
}

static void *run_rank(void *argument)
{
    struct thread_rank *rank = argument;
    rank->code = rank->body(&rank->world, rank->context);
    return NULL;
}

void thread_world_run(int size, rank_body *body, void *context, int *codes)
{
    struct thread_world shared = {.size = size};
    struct thread_rank *ranks = calloc((size_t)size, sizeof(*ranks));
    if (!ranks || pthread_barrier_init(&shared.barrier, NULL, (unsigned)size) != 0)
        abort();
    for (int rank = 0; rank < size; rank++) {
        ranks[rank] = (struct thread_rank){.body = body, .context = context, .code = -1};
        ranks[rank].world = (struct world){
            .rank = rank, .size = size, .local_rank = rank, .gather = gather, .broadcast = broadcast, .state = &shared};
        if (pthread_create(&ranks[rank].thread, NULL, run_rank, &ranks[rank]) != 0)
            abort();
    }
    for (int rank = 0; rank < size; rank++) {
        pthread_join(ranks[rank].thread, NULL);
        codes[rank] = ranks[rank].code;
    }
    pthread_barrier_destroy(&shared.barrier);
    free(ranks);
}
