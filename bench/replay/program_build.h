/* SPDX-License-Identifier: MIT
 *
 * Between program.c (tasks), program_end.c, program_collectives.c and program_host.c (host threads): a record while its
 * program is built.
 */
#ifndef REPLAY_PROGRAM_BUILD_H
#define REPLAY_PROGRAM_BUILD_H

#include "program.h"

struct build {
    struct program *program;
    const struct record_file *record;
    uint64_t begin_ns, end_ns; /* the window, both ends in it */
    uint32_t main_thread;      /* 0: the record names no steps */
    uint32_t *marks;           /* [event_count] the record's numbers, rising */
    uint32_t *jobs;            /* [job_count] likewise */
};

/* Index of key in rising[count]; NO_EVENT if it is not there. */
uint32_t build_find(const uint32_t *rising, uint32_t count, uint32_t key);
/* Sorts and drops repetitions; returns how many are left. */
uint32_t build_unique(uint32_t *values, uint32_t count);

struct task_list *build_stream(const struct build *build, int device_ordinal, int stream);
bool build_in_window(const struct build *build, const struct soft_record_entry *entry);
int build_no_memory(const struct build *build);
bool build_is_note(const struct record_file *record, const struct soft_record_entry *entry, const char *what);

/* The run came to its end: its exit code (from version 3 on) and its steps say so. */
int build_check_end(struct build *build);

/* Collectives of the streams' tasks. */
int build_collectives(struct build *build);

/* Threads, jobs and the steps' ends. */
int build_threads(struct build *build);

#endif
