/* SPDX-License-Identifier: MIT
 *
 * The one clock: CLOCK_MONOTONIC, which nobody can set back.
 */
#include "clock.h"

#include <errno.h>
#include <time.h>

uint64_t clock_nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

double clock_seconds(void)
{
    return (double)clock_nanoseconds() * 1e-9;
}

void clock_sleep(double seconds)
{
    if (!(seconds > 0))
        return;
    uint64_t until = clock_nanoseconds() + (uint64_t)(seconds * 1e9);
    struct timespec end = {.tv_sec = (time_t)(until / 1000000000u), .tv_nsec = (long)(until % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
        continue;
}
