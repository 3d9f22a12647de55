/* SPDX-License-Identifier: MIT
 *
 * A record with one entry of each sort, whole and right, to be damaged.
 */
#ifndef TESTS_REPLAY_SMALL_RECORD_H
#define TESTS_REPLAY_SMALL_RECORD_H

#include "record_file.h"

#define SMALL_ENTRIES 15

/* Its strings by number. */
enum {
    SAY_EMPTY,
    SAY_KERNEL,
    SAY_FORWARD,
    SAY_STEP_BEGIN,
    SAY_STEP_END,
    SAY_REDUCTION,
    SAY_LAUNCH,
    SAY_EXIT_CODE,
    SAY_ZERO,
    SAY_JOB_GIVE,
    SAY_JOB_BEGIN,
    SAY_JOB_END,
    SAY_JOB_JOIN,
    SAY_EVENT,
    SAY_COPY,
    SAY_PHASE,
    SAY_STRINGS
};

struct small_record {
    struct soft_record_header header;
    char text[136];
    struct soft_record_entry entries[SMALL_ENTRIES];
};

/* One step: a kernel and an all-reduce of one rank, a copy to the host behind them, a job of another thread. */
struct small_record small_record(void);
void small_record_seal(struct small_record *file); /* makes the checksum fit */

#endif
