/* SPDX-License-Identifier: MIT
 *
 * See small_record.h.
 */
#include "small_record.h"

#include <string.h>

#include "sys/checksum.h"

static const char strings[] = "\0kernel\0forward\0step_begin\0step_end\0all_reduce\0cudaLaunchKernel"
                              "\0exit_code\0000\0job_give\0job_begin\0job_end\0job_join\0event\0copy\0phase";

void small_record_seal(struct small_record *file)
{
    file->header.checksum = checksum(CHECKSUM_SEED, &file->header + 1, sizeof(*file) - sizeof(file->header));
}

static struct soft_record_entry note(uint32_t name, uint16_t thread, uint64_t at, uint32_t number)
{
    return (struct soft_record_entry){.kind = SOFT_RECORD_NOTE,
                                      .thread = thread,
                                      .device = -1,
                                      .name = name,
                                      .start_ns = at,
                                      .end_ns = at,
                                      .mark = number};
}

static struct soft_record_entry task(int kind, uint16_t stream, uint64_t number, uint64_t at, uint32_t mark)
{
    return (struct soft_record_entry){.kind = (uint16_t)(SOFT_RECORD_TASK + kind),
                                      .thread = 1,
                                      .stream = stream,
                                      .name = kind == SOFT_TASK_COPY ? SAY_COPY : SAY_EVENT,
                                      .task = number,
                                      .start_ns = at,
                                      .end_ns = at,
                                      .enqueued_ns = at,
                                      .bytes = kind == SOFT_TASK_COPY ? 700 : 0,
                                      .mark = mark};
}

/* One step: a kernel and an all-reduce of one rank, a copy to the host behind them, a job of another thread. */
struct small_record small_record(void)
{
    struct small_record file = {.header = {.version = SOFT_RECORD_VERSION,
                                           .entry_bytes = sizeof(struct soft_record_entry),
                                           .string_count = SAY_STRINGS,
                                           .string_bytes = sizeof(file.text),
                                           .entry_count = SMALL_ENTRIES}};
    memcpy(file.header.magic, SOFT_RECORD_MAGIC, 8);
    memcpy(file.text, strings, sizeof(strings));
    struct soft_record_facts facts = {
        .kind = SOFT_RECORD_FACTS, .ranks = 1, .name = SAY_REDUCTION, .number = 5, .count = 10, .type = 7};
    memcpy(&file.entries[0], &facts, sizeof(facts));
    file.entries[1] = (struct soft_record_entry){
        .kind = SOFT_RECORD_NOTE, .thread = 1, .device = -1, .name = SAY_STEP_BEGIN, .start_ns = 10, .end_ns = 10};
    file.entries[2] = (struct soft_record_entry){
        .kind = SOFT_RECORD_HOST_CALL, .thread = 1, .stream = 1, .name = SAY_LAUNCH, .start_ns = 11, .end_ns = 13};
    file.entries[3] = (struct soft_record_entry){.kind = SOFT_RECORD_TASK,
                                                 .thread = 1,
                                                 .stream = 1,
                                                 .name = SAY_KERNEL,
                                                 .range = SAY_FORWARD,
                                                 .task = 3,
                                                 .start_ns = 14,
                                                 .end_ns = 15,
                                                 .enqueued_ns = 12,
                                                 .flops = 5,
                                                 .bytes = 6};
    file.entries[4] = (struct soft_record_entry){.kind = SOFT_RECORD_TASK + SOFT_TASK_COLLECTIVE,
                                                 .thread = 1,
                                                 .stream = 1,
                                                 .name = SAY_REDUCTION,
                                                 .task = 4,
                                                 .start_ns = 16,
                                                 .end_ns = 17,
                                                 .enqueued_ns = 14,
                                                 .bytes = 40,
                                                 .mark = 5};
    file.entries[5] = task(SOFT_TASK_EVENT_RECORD, 1, 5, 15, 9);
    file.entries[6] = task(SOFT_TASK_EVENT_WAIT, 2, 0, 16, 9);
    file.entries[7] = task(SOFT_TASK_COPY, 2, 1, 17, 1 << 16);
    file.entries[8] = note(SAY_JOB_GIVE, 1, 18, 3);
    file.entries[9] = note(SAY_JOB_BEGIN, 2, 19, 3);
    file.entries[10] = note(SAY_JOB_END, 2, 20, 3);
    file.entries[11] = note(SAY_JOB_JOIN, 1, 21, 3);
    file.entries[12] = (struct soft_record_entry){
        .kind = SOFT_RECORD_HOST_WAIT, .thread = 1, .stream = 2, .task = 2, .start_ns = 22, .end_ns = 23};
    file.entries[13] = note(SAY_STEP_END, 1, 24, 0);
    file.entries[14] = (struct soft_record_entry){.kind = SOFT_RECORD_SETTING,
                                                  .thread = 1,
                                                  .device = -1,
                                                  .name = SAY_EXIT_CODE,
                                                  .range = SAY_ZERO,
                                                  .start_ns = 25,
                                                  .end_ns = 25};
    small_record_seal(&file);
    return file;
}
