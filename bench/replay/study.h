/* SPDX-License-Identifier: MIT
 *
 * The records of one run, as programs by rank.
 */
#ifndef REPLAY_STUDY_H
#define REPLAY_STUDY_H

#include "play.h"

struct study {
    struct record_file *records;
    struct program *programs;
    const struct program **by_rank; /* [count] */
    int count;
};

/* Reads the records, in whatever order they are named. Two of one rank, or a rank missing where `all` is wanted:
 * reported, EXIT_BAD_FILE. */
int study_open(struct study *study, char *const *paths, int count, bool all);
void study_close(struct study *study);

/* ---- rebucket.c ---- */

/* Rewrites each program as if DDP had closed its buckets at cap_mib (the first at 1 MiB), from the order in which
 * gradients became ready. EXIT_USAGE if a program is not DDP's with overlap. */
int rebucket(struct program *program, double cap_mib);

#endif
