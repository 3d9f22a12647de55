/* SPDX-License-Identifier: MIT
 *
 * The ledger: bytes that were moved, by phase and ordered pair of devices, beside what semantics.md's formulas say.
 * They must be equal, or the run fails: a copy that was forgotten, or made twice, is an error of the trainer that no
 * loss curve shows. Where the backend can't count (CUDA: inside NCCL), the formulas stand alone and are called derived.
 */
#ifndef RUN_LEDGER_H
#define RUN_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "run/timeline.h"
#include "run/world.h"

struct ledger_entry {
    int32_t phase;    /* enum phase; PHASES: moved outside any phase */
    int32_t from, to; /* position of the device (DP: its number, DDP: its rank); -1: the host */
    uint64_t bytes;   /* over all counted steps */
};

struct ledger {
    bool counted; /* false: only the formula is known */
    uint64_t steps;
    struct ledger_entry *entries; /* of all ranks, by phase, from, to; one for each triple */
    size_t count;
    uint64_t formula[PHASES]; /* bytes of one step between devices, whole world */
};

/* Collective: gathers what the ranks' devices have moved since gpu_traffic_reset. Rank 0 owns the entries. */
int ledger_collect(struct ledger *ledger, struct world *world, uint64_t steps, const uint64_t formula[PHASES]);
void ledger_close(struct ledger *ledger);

/* Bytes between devices (from and to both >= 0) in a phase, over all counted steps. */
uint64_t ledger_counted(const struct ledger *ledger, int phase);

/* 0, or EXIT_CHECK_FAILED after a report that names phase, counted and formula. Derived ledgers can't fail. */
int ledger_check(const struct ledger *ledger);

/* Bytes a step, counted or else derived: between all devices; sent or received by one device (NAN if derived); and of
 * the busiest link: the most that any device sends or receives, one direction of its own link. */
double ledger_total(const struct ledger *ledger);
double ledger_sent(const struct ledger *ledger, int device);
double ledger_received(const struct ledger *ledger, int device);
double ledger_busiest_link(const struct ledger *ledger, int devices);

#endif
