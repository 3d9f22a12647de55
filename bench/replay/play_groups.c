/* SPDX-License-Identifier: MIT
 *
 * Which calls of which ranks belong together: a group is one collective over all its ranks.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "exact.h"
#include "play_state.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

struct member {
    const struct collective *collective;
    const char *path;
    int index; /* in group_of */
};

static int compare_members(const void *a, const void *b)
{
    const struct collective *x = ((const struct member *)a)->collective, *y = ((const struct member *)b)->collective;
    if (x->communicator != y->communicator)
        return x->communicator < y->communicator ? -1 : 1;
    if (x->sequence != y->sequence)
        return x->sequence < y->sequence ? -1 : 1;
    return x->rank - y->rank;
}

static int group_open(struct simulation *simulation, int group, const struct member *member, int ranks)
{
    const struct collective *collective = member->collective;
    struct group_run *run = &simulation->groups[group];
    *run = (struct group_run){.operation = collective_operation_of(collective->operation),
                              .ranks = ranks,
                              .root = collective->root,
                              .streams = NOBODY,
                              .bytes = collective->bytes};
    if (run->operation == COLLECTIVE_OPERATIONS) {
        log_error("%s: collective %s, expected all_reduce, broadcast, reduce, reduce_scatter or all_gather",
                  member->path, collective->operation);
        return EXIT_BAD_FILE;
    }
    run->duration_ps = exact_ps(
        collective_seconds(simulation->machine, &simulation->options->what_if, run->operation, ranks, run->bytes));
    run->slowdown = (int64_t)(collective_slowdown(simulation->machine, ranks) * 1000 + 0.5);
    return EXIT_OK;
}

/* members[first .. first + count): one call of one communicator. */
static int check_group(const struct member *members, size_t count)
{
    const struct collective *first = members[0].collective;
    for (size_t i = 0; i < count; i++) {
        const struct collective *own = members[i].collective;
        if (own->rank != (int)i || own->ranks != first->ranks || own->bytes != first->bytes ||
            strcmp(own->operation, first->operation) != 0) {
            log_error("%s: collective %" PRIu64 " of communicator %016" PRIx64
                      ": rank %d of %d calls %s of %.0f bytes, "
                      "expected rank %zu of %d, %s of %.0f bytes (%s)",
                      members[i].path, own->sequence, own->communicator, own->rank, own->ranks, own->operation,
                      own->bytes, i, first->ranks, first->operation, first->bytes, members[0].path);
            return EXIT_BAD_FILE;
        }
    }
    if (count == (size_t)first->ranks)
        return EXIT_OK;
    log_error("%s: collective %" PRIu64 " of communicator %016" PRIx64
              ": %zu of its %d ranks are there; give the records of all ranks, or one and --gpus",
              members[0].path, first->sequence, first->communicator, count, first->ranks);
    return EXIT_BAD_FILE;
}

static int match_groups(struct simulation *simulation, struct member *members, size_t count)
{
    int groups = 0, status = EXIT_OK;
    for (size_t first = 0, next; first < count && !status; first = next) {
        const struct collective *own = members[first].collective;
        for (next = first; next < count && members[next].collective->communicator == own->communicator &&
                           members[next].collective->sequence == own->sequence;
             next++)
            simulation->group_of[members[next].index] = groups;
        status = check_group(&members[first], next - first);
        if (!status)
            status = group_open(simulation, groups++, &members[first], own->ranks);
    }
    simulation->group_count = groups;
    return status;
}

int groups_open(struct simulation *simulation)
{
    size_t room = (size_t)simulation->group_count + 1, count = 0;
    int most = simulation->options->replicate;
    int status = EXIT_OK;
    struct member *members = malloc(room * sizeof(*members));
    if (!members)
        return play_no_memory(simulation);
    for (int i = 0; i < simulation->instance_count && !(i && simulation->options->replicate); i++) {
        const struct instance *instance = &simulation->instances[i];
        for (uint32_t c = 0; c < instance->program->collective_count; c++) {
            const struct collective *own = &instance->program->collectives[c];
            most = own->ranks > most ? own->ranks : most;
            members[count++] = (struct member){own, instance->program->path, instance->groups + (int)c};
        }
    }
    if (simulation->options->replicate) {
        for (size_t c = 0; c < count && !status; c++) {
            simulation->group_of[c] = (int)c;
            status = group_open(simulation, (int)c, &members[c], simulation->options->replicate);
        }
    } else if (count) {
        qsort(members, count, sizeof(*members), compare_members);
        status = match_groups(simulation, members, count);
    }
    free(members);
    simulation->by_rank = calloc((size_t)most + 1, sizeof(*simulation->by_rank));
    return status || simulation->by_rank ? status : play_no_memory(simulation);
}
