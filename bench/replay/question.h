/* SPDX-License-Identifier: MIT
 *
 * The command line of replay, and what of it stands in every row.
 */
#ifndef REPLAY_QUESTION_H
#define REPLAY_QUESTION_H

#include "play.h"

struct question {
    char **records; /* borrowed from argv */
    int record_count;
    const char *machine, *folder; /* NAME or FILE; where NAMEs are */
    struct play_options play;
    double bucket_cap_mib; /* 0: as recorded */
    const char *trace, *csv, *json;
};

#define QUESTION_DONE (-1) /* --help or --version: all is said */

/* 0, QUESTION_DONE or EXIT_USAGE (reported). */
int question_parse(struct question *question, int argc, char **argv, const char *folder);

/* What the question changes, "bandwidth=2;launch_lock_us=10", in the order of the options; "" for nothing. So an
 * emulation is named in every output. */
void question_variant(const struct question *question, char *text, size_t size);

#endif
