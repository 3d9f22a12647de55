/* SPDX-License-Identifier: MIT
 *
 * Loaded before a trainer: a clock with ticks of a microsecond, as some machines have, so that several calls of a
 * thread happen at one time.
 */
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (syscall(SYS_clock_gettime, clock, now) != 0)
        return -1;
    now->tv_nsec -= now->tv_nsec % 1000;
    return 0;
}
