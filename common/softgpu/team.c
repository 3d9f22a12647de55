/* SPDX-License-Identifier: MIT
 *
 * A device of several cores shares a launch's blocks between its stream's thread and helpers. Each stream has helpers
 * of its own, started by the first launch that can use them: shared helpers would carry happens-before edges from one
 * stream to another.
 */
#include "core.h"
#include "sys/topology.h"

struct soft_team {
    softStream_t stream;
    struct soft_device *device;
    int helpers;
    struct soft_signal round;    /* + 1 starts a round */
    struct soft_signal finished; /* helpers done with the round */
    soft_body *body;             /* NULL: the team ends */
    const void *arguments;
    unsigned blocks;
    uint32_t next; /* the next block to be taken */
    pthread_t threads[];
};

static void run_block(softStream_t stream, soft_body *body, const void *arguments, unsigned block, unsigned blocks)
{
    body(arguments, block, blocks);
    __atomic_fetch_add(&stream->blocks, 1, __ATOMIC_RELAXED);
}

static void take_blocks(struct soft_team *team)
{
    for (;;) {
        uint32_t block = __atomic_fetch_add(&team->next, 1, __ATOMIC_RELAXED);
        if (block >= team->blocks)
            return;
        run_block(team->stream, team->body, team->arguments, block, team->blocks);
    }
}

static void *run_helper(void *argument)
{
    struct soft_team *team = argument;
    topology_bind_thread(team->device->map.physical * team->device->map.cores, team->device->map.cores);
    soft_crowd_join(&team->device->crowd);
    for (uint32_t round = 0;; round++) {
        while (soft_signal_read(&team->round) == round)
            soft_signal_wait(&team->round, round, soft_spin_ns(), SOFT_NO_DEADLINE);
        if (!team->body)
            break;
        soft_acquire(&team->round);
        take_blocks(team);
        soft_release(&team->finished);
        soft_signal_add(&team->finished, 1);
    }
    soft_crowd_leave();
    return NULL;
}

/* As many helpers as can be started; fewer (or none) only make the launch slower. */
static struct soft_team *create(softStream_t stream)
{
    struct soft_device *device = stream->device;
    int wanted = device->map.cores - 1;
    struct soft_team *team = hidden_alloc(sizeof(*team) + (size_t)wanted * sizeof(team->threads[0]));
    if (!team)
        return NULL;
    team->stream = stream;
    team->device = device;
    while (team->helpers < wanted && !pthread_create(&team->threads[team->helpers], NULL, run_helper, team))
        team->helpers++;
    return team;
}

void soft_team_run(softStream_t stream, soft_body *body, const void *arguments, unsigned blocks)
{
    if (blocks > 1 && stream->device->map.cores > 1 && !stream->team)
        __atomic_store_n(&stream->team, create(stream), __ATOMIC_RELEASE);
    struct soft_team *team = stream->team;
    if (blocks <= 1 || !team) {
        for (unsigned block = 0; block < blocks; block++)
            run_block(stream, body, arguments, block, blocks);
        return;
    }
    team->body = body;
    team->arguments = arguments;
    team->blocks = blocks;
    team->next = 0;
    team->finished.value = 0;
    soft_release(&team->round);
    soft_signal_add(&team->round, 1);
    take_blocks(team);
    for (;;) {
        uint32_t finished = soft_signal_read(&team->finished);
        if (finished == (uint32_t)team->helpers)
            break;
        soft_signal_wait(&team->finished, finished, soft_spin_ns(), SOFT_NO_DEADLINE);
    }
    soft_acquire(&team->finished);
}

void soft_team_destroy(struct soft_team *team)
{
    if (!team)
        return;
    team->body = NULL;
    soft_signal_add(&team->round, 1);
    for (int i = 0; i < team->helpers; i++)
        pthread_join(team->threads[i], NULL);
    hidden_free(team);
}

uint64_t soft_team_cpu_ns(const struct soft_team *team)
{
    uint64_t used = 0;
    for (int i = 0; team && i < team->helpers; i++)
        used += soft_thread_cpu_ns(team->threads[i]);
    return used;
}
