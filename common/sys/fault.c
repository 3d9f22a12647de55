/* SPDX-License-Identifier: MIT
 *
 * The one reader of DPBENCH_FAULT, which is read once.
 */
#include "fault.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const char *planted;
static int own_rank;
static _Atomic uint64_t allocations;

static void read_environment(void)
{
    const char *rank = getenv("RANK");
    planted = getenv("DPBENCH_FAULT");
    own_rank = rank ? (int)strtol(rank, NULL, 10) : 0;
}

bool fault_planted(const char *place, int index, uint64_t step)
{
    char here[64];

    (void)pthread_once(&once, read_environment);
    if (!planted)
        return false;
    snprintf(here, sizeof here, "%s:%d:step%" PRIu64, place, index, step);
    return !strcmp(planted, here);
}

bool fault_allocation(void)
{
    (void)pthread_once(&once, read_environment);
    return planted && !strncmp(planted, "alloc:", strlen("alloc:")) &&
           fault_planted("alloc", own_rank, atomic_fetch_add(&allocations, 1));
}
