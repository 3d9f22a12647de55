/* SPDX-License-Identifier: MIT
 *
 * For LD_PRELOAD: a wall clock that somebody sets back by an hour each time it is read. Other clocks run as ever.
 */
#include <stddef.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define HOUR 3600

static atomic_long reads;

static time_t set_back(time_t seconds)
{
    return seconds - (time_t)(HOUR * (1 + atomic_fetch_add(&reads, 1)));
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int status = (int)syscall(SYS_clock_gettime, clock, now);
    if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec = set_back(now->tv_sec);
    return status;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    (void)zone;
    struct timespec precise;
    int status = clock_gettime(CLOCK_REALTIME, &precise);
    *now = (struct timeval){.tv_sec = precise.tv_sec, .tv_usec = precise.tv_nsec / 1000};
    return status;
}

time_t time(time_t *now)
{
    struct timespec precise;
    (void)clock_gettime(CLOCK_REALTIME, &precise);
    if (now)
        *now = precise.tv_sec;
    return precise.tv_sec;
}
