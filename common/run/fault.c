/* SPDX-License-Identifier: MIT
 *
 * The one reader of DPBENCH_FAULT, which is read once.
 */
#include "run/fault.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const char *planted;

static void read_environment(void)
{
    planted = getenv("DPBENCH_FAULT");
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
