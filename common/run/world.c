/* SPDX-License-Identifier: MIT
 *
 * The world of one, and what can be said with gather and broadcast alone.
 */
#include "run/world.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/exit_codes.h"
#include "sys/log.h"

static int alone_gather(struct world *world, const void *mine, size_t bytes, void *all)
{
    (void)world;
    if (bytes)
        memcpy(all, mine, bytes);
    return EXIT_OK;
}

static int alone_broadcast(struct world *world, void *data, size_t bytes)
{
    (void)world;
    (void)data;
    (void)bytes;
    return EXIT_OK;
}

struct world world_alone(void)
{
    return (struct world){.size = 1, .gather = alone_gather, .broadcast = alone_broadcast};
}

static void *new_array(struct world *world, const char *what, size_t bytes)
{
    void *memory = world->rank == 0 ? calloc((size_t)world->size, bytes) : NULL;
    if (world->rank == 0 && !memory)
        log_error("%s of %d ranks: no memory for %zu bytes each", what, world->size, bytes);
    return memory;
}

int world_barrier(struct world *world)
{
    char nothing = 0;
    char *all = calloc((size_t)world->size, 1);

    if (!all) {
        log_error("barrier: no memory for %d bytes", world->size);
        return EXIT_RESOURCE;
    }
    int status = world->gather(world, &nothing, 1, world->rank == 0 ? all : NULL);
    free(all);
    return status ? status : world->broadcast(world, &nothing, 1);
}

struct reason {
    int status;
    char text[508];
};

/* The first failing rank's last words become rank 0's: it writes the report. Each rank has printed its own. */
static void tell_reason(struct world *world, int status)
{
    struct reason mine = {.status = status};
    struct reason *all = new_array(world, "reasons", sizeof *all);

    if (status)
        snprintf(mine.text, sizeof mine.text, "%s", log_last_error());
    if ((world->rank == 0 && !all) || world->gather(world, &mine, sizeof mine, all) || world->rank || status) {
        free(all);
        return;
    }
    for (int rank = 0; rank < world->size; rank++) {
        if (!all[rank].status)
            continue;
        log_remember("rank %d: %.*s", rank, (int)sizeof all[rank].text - 1, all[rank].text);
        break;
    }
    free(all);
}

int world_agree_who(struct world *world, int status, int *who)
{
    int *all = new_array(world, "statuses", sizeof *all);
    struct {
        int status, rank;
    } agreed = {status, world->rank}; /* of the first rank that failed */

    *who = world->rank;
    if (world->rank == 0 && !all)
        return EXIT_RESOURCE;
    int failed = world->gather(world, &status, sizeof status, all);
    for (int rank = world->size - 1; world->rank == 0 && !failed && rank >= 0; rank--)
        if (all[rank]) {
            agreed.status = all[rank];
            agreed.rank = rank;
        }
    free(all);
    if (!failed)
        failed = world->broadcast(world, &agreed, sizeof agreed);
    if (failed || !agreed.status || world->size == 1)
        return failed ? failed : agreed.status;
    *who = agreed.rank;
    if (!status && world->blame)
        world->blame(world->rank, agreed.rank);
    tell_reason(world, status);
    return agreed.status;
}

int world_agree(struct world *world, int status)
{
    int who;

    return world_agree_who(world, status, &who);
}

/* Ranks pad their items to the largest number, since gather wants equal bytes. packed: rank 0's, NULL elsewhere. */
static int gather_padded(struct world *world, const void *mine, uint64_t count, uint64_t most, size_t item_bytes,
                         const uint64_t *counts, char *packed)
{
    char *padded = calloc(most, item_bytes);
    char *all = packed ? calloc((size_t)world->size * most, item_bytes) : NULL;
    int status = EXIT_RESOURCE;

    if (!padded || (packed && !all)) {
        log_error("gather: no memory for %d x %zu items of %zu bytes", world->size, (size_t)most, item_bytes);
        goto done;
    }
    if (count)
        memcpy(padded, mine, count * item_bytes);
    status = world->gather(world, padded, most * item_bytes, all);
    for (int rank = 0; rank < world->size && packed && !status; rank++) {
        memcpy(packed, all + (size_t)rank * most * item_bytes, counts[rank] * item_bytes);
        packed += counts[rank] * item_bytes;
    }
done:
    free(padded);
    free(all);
    return status;
}

int world_gather_items(struct world *world, const void *mine, size_t count, size_t item_bytes, void **all,
                       size_t *total)
{
    uint64_t number = count, most = 0, sum = 0;
    uint64_t *counts = calloc((size_t)world->size, sizeof *counts);
    int status = EXIT_RESOURCE;

    *all = NULL;
    *total = 0;
    if (!counts) {
        log_error("gather: no memory for %d numbers", world->size);
        return status;
    }
    status = world->gather(world, &number, sizeof number, world->rank == 0 ? counts : NULL);
    for (int rank = 0; rank < world->size; rank++) {
        most = counts[rank] > most ? counts[rank] : most;
        sum += counts[rank];
    }
    if (!status)
        status = world->broadcast(world, &most, sizeof most);
    if (status || most == 0)
        goto done;
    if (sum && !(*all = malloc(sum * item_bytes))) { /* only rank 0 knows of any */
        log_error("gather: no memory for %zu items of %zu bytes", (size_t)sum, item_bytes);
        status = EXIT_RESOURCE;
        goto done;
    }
    status = gather_padded(world, mine, number, most, item_bytes, counts, *all);
    if (status) {
        free(*all);
        *all = NULL;
    } else {
        *total = sum;
    }
done:
    free(counts);
    return status;
}
