/* SPDX-License-Identifier: MIT
 *
 * See place.h. Phase and step lie in one word, so that they belong together.
 */
#include "run/place.h"

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "sys/clock.h"
#include "sys/log.h"

static _Atomic uint64_t word; /* step * 256 + phase */
static _Atomic uint64_t last_step;
static double start_s;

const char *progress_phase_name(enum progress_phase phase)
{
    static const char *const names[PROGRESS_PHASES] = {"start",  "rendezvous", "open",  "step",
                                                       "finish", "evaluation", "close", "end"};
    return names[phase];
}

void place_begin(void)
{
    start_s = clock_seconds();
}

void place_set_last_step(uint64_t last)
{
    atomic_store_explicit(&last_step, last, memory_order_relaxed);
}

void place_reach(enum progress_phase phase, uint64_t step)
{
    atomic_store_explicit(&word, step << 8 | phase, memory_order_relaxed);
}

void place_describe(char *text, size_t size)
{
    uint64_t here = atomic_load_explicit(&word, memory_order_relaxed);
    unsigned long long step = here >> 8, last = atomic_load_explicit(&last_step, memory_order_relaxed);
    const char *phase = progress_phase_name((enum progress_phase)(here & 0xff));
    double passed = clock_seconds() - start_s;

    if (step)
        snprintf(text, size, "pid %d in step %llu of %llu, phase %s, after %.2f s", (int)getpid(), step, last, phase,
                 passed);
    else
        snprintf(text, size, "pid %d in phase %s, after %.2f s", (int)getpid(), phase, passed);
}

void place_tell_end(int status)
{
    char where[128];

    if (status == 0 || (atomic_load_explicit(&word, memory_order_relaxed) & 0xff) == PROGRESS_START)
        return;
    place_describe(where, sizeof where);
    log_error("%s; %s; exit code %d", log_last_error(), where, status);
}
