/* SPDX-License-Identifier: MIT
 *
 * The progress bar (progress.h). Results go to files; what is printed here is for the one who waits.
 */
#include "progress.h"

#include <stdio.h>
#include <unistd.h>

#include "sys/clock.h"

#define BAR_WIDTH 24

void progress_begin(struct progress *progress, int total)
{
    *progress = (struct progress){.total = total, .begin = clock_seconds(), .terminal = isatty(STDOUT_FILENO)};
}

void progress_next(const struct progress *progress, const char *what)
{
    if (!progress->terminal)
        return;
    int filled = progress->total ? progress->done * BAR_WIDTH / progress->total : BAR_WIDTH;
    printf("\r\033[K[");
    for (int i = 0; i < BAR_WIDTH; i++)
        putchar(i < filled ? '#' : '.');
    printf("] %d/%d  %s", progress->done, progress->total, what);
    if (progress->ran_count) {
        double left = progress->ran / progress->ran_count * (progress->total - progress->done);
        printf("  about %d:%02d left", (int)left / 60, (int)left % 60);
    }
    fflush(stdout);
}

void progress_done(struct progress *progress, const char *what, const char *result, double seconds)
{
    progress->done++;
    if (seconds >= 0) {
        progress->ran += seconds;
        progress->ran_count++;
    }
    if (progress->terminal)
        printf("\r\033[K");
    printf("%3d/%d  %-38s %s\n", progress->done, progress->total, what, result);
    fflush(stdout);
}

void progress_end(const struct progress *progress)
{
    double seconds = clock_seconds() - progress->begin;
    printf("%d of %d runs done in %d min %02d s\n", progress->done, progress->total, (int)seconds / 60,
           (int)seconds % 60);
}
