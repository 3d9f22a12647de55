/* SPDX-License-Identifier: MIT
 *
 * The smallest record that is worth reading: one step, a kernel and an all-reduce of one rank.
 */
#ifndef TESTS_REPLAY_SMALL_RECORD_H
#define TESTS_REPLAY_SMALL_RECORD_H

#include "record_file.h"

#define ENTRIES 6
enum { EMPTY, KERNEL, FORWARD, STEP_BEGIN, STEP_END, ALL_REDUCE, LAUNCH, STRINGS };

/* As it lies in a file. */
struct small_record {
    struct soft_record_header header;
    char text[64];
    struct soft_record_entry entries[ENTRIES];
};

struct small_record small_record(void);
/* Puts the checksum right. */
void small_record_seal(struct small_record *file);

#endif
