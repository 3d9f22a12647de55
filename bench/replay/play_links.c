/* SPDX-License-Identifier: MIT
 *
 * Paths of copies, and what was moved over them. A copy takes everything on its path at the same time: a copy engine of
 * the device that sends (or, from the host, of the one that receives), and the link between the two devices; or, where
 * a switch joins them, both devices' ports; or the host links.
 *
 * Inside a collective nothing is queued: its duration is the machine's table. Its bytes are counted along a ring, as
 * NCCL's ring algorithms move them (derived, like the trainers' ledger on CUDA).
 */
#include <stdlib.h>

#include "cost.h"
#include "play_state.h"
#include "sys/exit_codes.h"

#define PATH_MAX_PARTS 6

/* Where each kind begins in result->link. */
struct places {
    size_t pair, out, in, up, down, shared, engines;
};

static struct places places_of(const struct simulation *simulation)
{
    size_t n = (size_t)simulation->device_count;
    struct places places = {.pair = 0};
    places.out = simulation->result->pair_bytes ? n * n : 0;
    places.in = places.out + n;
    places.up = places.in + n;
    places.down = places.up + n;
    places.shared = places.down + n;
    places.engines = places.shared + 2;
    return places;
}

int links_open(struct simulation *simulation)
{
    struct play_result *result = simulation->result;
    size_t n = (size_t)simulation->device_count;
    if (n <= PLAY_MATRIX_DEVICES) {
        result->pair_bytes = calloc((n + 1) * (n + 1), sizeof(*result->pair_bytes));
        if (!result->pair_bytes)
            return EXIT_RESOURCE;
    }
    result->link_count = places_of(simulation).engines + n * (size_t)simulation->machine->copy_engines;
    result->link = calloc(result->link_count, sizeof(*result->link));
    return result->link ? EXIT_OK : EXIT_RESOURCE;
}

void resource_take(struct play_resource *resource, int64_t start_ps, int64_t end_ps)
{
    resource->idle_ps += start_ps - resource->free_ps;
    resource->busy_ps += end_ps - start_ps;
    resource->free_ps = end_ps;
}

static struct play_resource *earliest_engine(const struct simulation *simulation, size_t first, int device)
{
    size_t count = (size_t)simulation->machine->copy_engines;
    struct play_resource *engines = simulation->result->link + first + (size_t)device * count, *best = engines;
    for (size_t i = 1; i < count; i++)
        best = engines[i].free_ps < best->free_ps ? &engines[i] : best;
    return best;
}

static int find_path(const struct simulation *simulation, int from, int to, bool through_host,
                     struct play_resource *path[PATH_MAX_PARTS])
{
    const struct machine *machine = simulation->machine;
    const struct places places = places_of(simulation);
    struct play_resource *link = simulation->result->link;
    int count = 0;
    if (from == HOST_SIDE && to == HOST_SIDE)
        return 0;
    path[count++] = earliest_engine(simulation, places.engines, from == HOST_SIDE ? to : from);
    if (from != HOST_SIDE && to != HOST_SIDE && !through_host) {
        if (machine->ports || !simulation->result->pair_bytes) {
            path[count++] = &link[places.out + (size_t)from];
            path[count++] = &link[places.in + (size_t)to];
        } else {
            path[count++] = &link[places.pair + (size_t)from * (size_t)simulation->device_count + (size_t)to];
        }
        return count;
    }
    if (from != HOST_SIDE)
        path[count++] = &link[places.up + (size_t)from];
    if (to != HOST_SIDE)
        path[count++] = &link[places.down + (size_t)to];
    if (from != HOST_SIDE && machine->host_shared)
        path[count++] = &link[places.shared];
    if (to != HOST_SIDE && machine->host_shared)
        path[count++] = &link[places.shared + 1];
    return count;
}

int64_t links_take(struct simulation *simulation, int from, int to, double bytes, int64_t *start_ps)
{
    struct play_resource *path[PATH_MAX_PARTS] = {NULL};
    bool through_host = false;
    int64_t duration = cost_copy(simulation->machine, &simulation->options->what_if, from, to, bytes, &through_host);
    int parts = find_path(simulation, from, to, through_host, path);
    int64_t start = simulation->now_ps;
    for (int i = 0; i < parts; i++)
        start = path[i]->free_ps > start ? path[i]->free_ps : start;
    if (play_too_late(simulation, start + duration))
        return start;
    for (int i = 0; i < parts; i++)
        resource_take(path[i], start, start + duration);
    links_count(simulation, from, to, bytes);
    *start_ps = start;
    return start + duration;
}

void links_count(struct simulation *simulation, int from, int to, double bytes)
{
    struct play_result *result = simulation->result;
    size_t side = (size_t)simulation->device_count + 1;
    if (from != HOST_SIDE && to != HOST_SIDE) {
        result->device[from].sent += bytes;
        result->device[to].received += bytes;
    }
    if (result->pair_bytes)
        result->pair_bytes[(from == HOST_SIDE ? side - 1 : (size_t)from) * side +
                           (to == HOST_SIDE ? side - 1 : (size_t)to)] += bytes;
}

void links_count_collective(struct simulation *simulation, const struct group_run *group)
{
    int n = group->ranks;
    for (int s = group->streams; s != NOBODY; s = simulation->streams[s].next) {
        const struct stream_run *stream = &simulation->streams[s];
        const struct program *program = simulation->instances[stream->instance].program;
        const struct collective *own = &program->collectives[stream->list->tasks[stream->head].number];
        simulation->by_rank[simulation->options->replicate ? stream->instance : own->rank] = stream->device;
    }
    bool rooted = group->operation == BROADCAST || group->operation == REDUCE;
    for (int p = 0; p < n - (rooted ? 1 : 0); p++) {
        int here = simulation->by_rank[(group->root + p) % n], next = simulation->by_rank[(group->root + p + 1) % n];
        double bytes = group->bytes * collective_factor(group->operation, n);
        links_count(simulation, group->operation == REDUCE ? next : here, group->operation == REDUCE ? here : next,
                    bytes);
    }
}
