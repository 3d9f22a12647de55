/* SPDX-License-Identifier: MIT
 *
 * What happens next: a binary heap that knows where each actor stands, so that a time can be moved.
 */
#include <stdlib.h>

#include "play_state.h"
#include "sys/exit_codes.h"

int play_queue_open(struct play_queue *queue, int actors)
{
    size_t count = (size_t)actors + 1;
    *queue = (struct play_queue){malloc(count * sizeof(int)), malloc(count * sizeof(int)),
                                 calloc(count, sizeof(int64_t)), 0};
    if (!queue->heap || !queue->place || !queue->at)
        return EXIT_RESOURCE;
    for (int i = 0; i < actors; i++)
        queue->place[i] = NOBODY;
    return EXIT_OK;
}

void play_queue_close(struct play_queue *queue)
{
    free(queue->heap);
    free(queue->place);
    free(queue->at);
}

static bool before(const struct play_queue *queue, int a, int b)
{
    return queue->at[a] != queue->at[b] ? queue->at[a] < queue->at[b] : a < b;
}

static void put(struct play_queue *queue, int index, int actor)
{
    queue->heap[index] = actor;
    queue->place[actor] = index;
}

static void rise(struct play_queue *queue, int index)
{
    int actor = queue->heap[index];
    while (index > 0 && before(queue, actor, queue->heap[(index - 1) / 2])) {
        put(queue, index, queue->heap[(index - 1) / 2]);
        index = (index - 1) / 2;
    }
    put(queue, index, actor);
}

static void sink(struct play_queue *queue, int index)
{
    int actor = queue->heap[index];
    for (;;) {
        int child = 2 * index + 1;
        if (child >= queue->count)
            break;
        if (child + 1 < queue->count && before(queue, queue->heap[child + 1], queue->heap[child]))
            child++;
        if (!before(queue, queue->heap[child], actor))
            break;
        put(queue, index, queue->heap[child]);
        index = child;
    }
    put(queue, index, actor);
}

void play_queue_set(struct play_queue *queue, int actor, int64_t at)
{
    queue->at[actor] = at;
    if (queue->place[actor] == NOBODY)
        put(queue, queue->count++, actor);
    rise(queue, queue->place[actor]);
    sink(queue, queue->place[actor]);
}

int play_queue_take(struct play_queue *queue)
{
    if (queue->count == 0)
        return NOBODY;
    int actor = queue->heap[0], last = queue->heap[--queue->count];
    queue->place[actor] = NOBODY;
    if (queue->count) {
        put(queue, 0, last);
        sink(queue, 0);
    }
    return actor;
}
