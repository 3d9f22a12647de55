/* SPDX-License-Identifier: MIT
 *
 * See ledger.h.
 */
#include "run/ledger.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/backend.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

/* What one process moved, as the backend tells it. */
struct tally {
    struct ledger_entry *entries;
    size_t count, room;
    bool no_memory;
};

static int32_t phase_of(const char *range)
{
    for (int phase = 0; phase < PHASES; phase++)
        if (!strcmp(range, phase_name((enum phase)phase)))
            return phase;
    return PHASES;
}

static void add_to_tally(void *context, const char *range, int from, int to, uint64_t bytes)
{
    struct tally *tally = context;

    if (tally->count == tally->room) {
        size_t room = tally->room ? 2 * tally->room : 64;
        struct ledger_entry *grown = realloc(tally->entries, room * sizeof *grown);
        if (!grown) {
            tally->no_memory = true;
            return;
        }
        tally->entries = grown;
        tally->room = room;
    }
    tally->entries[tally->count++] = (struct ledger_entry){phase_of(range), from, to, bytes};
}

static int compare_entries(const void *a, const void *b)
{
    const struct ledger_entry *x = a, *y = b;

    if (x->phase != y->phase)
        return x->phase < y->phase ? -1 : 1;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return (x->to > y->to) - (x->to < y->to);
}

/* Sorts, and joins the entries of one triple: several ranks, or several ranges, may have moved bytes for it. */
static void join_entries(struct ledger *ledger)
{
    size_t joined = 0;

    if (ledger->count == 0)
        return;
    qsort(ledger->entries, ledger->count, sizeof *ledger->entries, compare_entries);
    for (size_t i = 1; i < ledger->count; i++) {
        if (compare_entries(&ledger->entries[i], &ledger->entries[joined]) == 0)
            ledger->entries[joined].bytes += ledger->entries[i].bytes;
        else
            ledger->entries[++joined] = ledger->entries[i];
    }
    ledger->count = joined + 1;
}

int ledger_collect(struct ledger *ledger, struct world *world, uint64_t steps, const uint64_t formula[PHASES])
{
    struct tally tally = {0};
    void *all = NULL;
    size_t count = 0;
    int status = EXIT_OK;

    *ledger = (struct ledger){.steps = steps};
    memcpy(ledger->formula, formula, sizeof ledger->formula);
    ledger->counted = gpu_traffic_visit(add_to_tally, &tally);
    if (tally.no_memory) {
        log_error("ledger: no memory for %zu entries", tally.count);
        status = EXIT_RESOURCE;
    }
    status = world_agree(world, status);
    if (!status)
        status = world_gather_items(world, tally.entries, tally.count, sizeof *tally.entries, &all, &count);
    free(tally.entries);
    ledger->entries = all;
    ledger->count = count;
    join_entries(ledger);
    return status;
}

void ledger_close(struct ledger *ledger)
{
    free(ledger->entries);
    *ledger = (struct ledger){0};
}

static bool between_devices(const struct ledger_entry *entry)
{
    return entry->from >= 0 && entry->to >= 0 && entry->from != entry->to;
}

uint64_t ledger_counted(const struct ledger *ledger, int phase)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < ledger->count; i++)
        if (ledger->entries[i].phase == phase && between_devices(&ledger->entries[i]))
            bytes += ledger->entries[i].bytes;
    return bytes;
}

int ledger_check(const struct ledger *ledger)
{
    int status = EXIT_OK;

    for (int phase = 0; phase <= PHASES && ledger->counted; phase++) {
        uint64_t counted = ledger_counted(ledger, phase);
        uint64_t expected = phase < PHASES ? ledger->formula[phase] * ledger->steps : 0;
        if (counted == expected)
            continue;
        log_error("ledger: phase %s moved %" PRIu64 " bytes between devices in %" PRIu64
                  " steps, the formula says %" PRIu64,
                  phase < PHASES ? phase_name((enum phase)phase) : "(none)", counted, ledger->steps, expected);
        status = EXIT_CHECK_FAILED;
    }
    return status;
}

static double per_step(const struct ledger *ledger, uint64_t bytes)
{
    return ledger->steps ? (double)bytes / (double)ledger->steps : NAN;
}

double ledger_total(const struct ledger *ledger)
{
    uint64_t counted = 0, derived = 0;

    for (int phase = 0; phase < PHASES; phase++)
        derived += ledger->formula[phase];
    for (int phase = 0; phase <= PHASES; phase++)
        counted += ledger_counted(ledger, phase);
    return ledger->counted ? per_step(ledger, counted) : (double)derived;
}

double ledger_sent(const struct ledger *ledger, int device)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < ledger->count; i++)
        if (between_devices(&ledger->entries[i]) && ledger->entries[i].from == device)
            bytes += ledger->entries[i].bytes;
    return ledger->counted ? per_step(ledger, bytes) : NAN;
}

double ledger_received(const struct ledger *ledger, int device)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < ledger->count; i++)
        if (between_devices(&ledger->entries[i]) && ledger->entries[i].to == device)
            bytes += ledger->entries[i].bytes;
    return ledger->counted ? per_step(ledger, bytes) : NAN;
}

double ledger_busiest_link(const struct ledger *ledger, int devices)
{
    double most = ledger->counted ? 0 : NAN;

    for (int device = 0; device < devices && ledger->counted; device++) {
        most = fmax(most, ledger_sent(ledger, device));
        most = fmax(most, ledger_received(ledger, device));
    }
    return most;
}
