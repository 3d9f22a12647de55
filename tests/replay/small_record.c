/* SPDX-License-Identifier: MIT */
#include "small_record.h"

#include <string.h>

#include "sys/checksum.h"

static const char strings[] = "\0kernel\0forward\0step_begin\0step_end\0all_reduce\0cudaLaunchKernel";

void small_record_seal(struct small_record *file)
{
    file->header.checksum = checksum(CHECKSUM_SEED, &file->header + 1, sizeof(*file) - sizeof(file->header));
}

struct small_record small_record(void)
{
    struct small_record file = {.header = {.version = SOFT_RECORD_VERSION,
                                   .entry_bytes = sizeof(struct soft_record_entry),
                                   .string_count = STRINGS,
                                   .string_bytes = sizeof(file.text),
                                   .entry_count = ENTRIES}};
    memcpy(file.header.magic, SOFT_RECORD_MAGIC, 8);
    memcpy(file.text, strings, sizeof(strings));
    struct soft_record_facts facts = {
        .kind = SOFT_RECORD_FACTS, .ranks = 1, .name = ALL_REDUCE, .number = 5, .count = 10, .type = 7};
    memcpy(&file.entries[0], &facts, sizeof(facts));
    file.entries[1] = (struct soft_record_entry){
        .kind = SOFT_RECORD_NOTE, .thread = 1, .device = -1, .name = STEP_BEGIN, .start_ns = 10, .end_ns = 10};
    file.entries[2] = (struct soft_record_entry){
        .kind = SOFT_RECORD_HOST_CALL, .thread = 1, .stream = 1, .name = LAUNCH, .start_ns = 11, .end_ns = 13};
    file.entries[3] = (struct soft_record_entry){.kind = SOFT_RECORD_TASK,
                                                 .thread = 1,
                                                 .stream = 1,
                                                 .name = KERNEL,
                                                 .range = FORWARD,
                                                 .task = 3,
                                                 .start_ns = 14,
                                                 .end_ns = 15,
                                                 .enqueued_ns = 12,
                                                 .flops = 5,
                                                 .bytes = 6};
    file.entries[4] = (struct soft_record_entry){.kind = SOFT_RECORD_TASK + SOFT_TASK_COLLECTIVE,
                                                 .thread = 1,
                                                 .stream = 1,
                                                 .name = ALL_REDUCE,
                                                 .task = 4,
                                                 .start_ns = 16,
                                                 .end_ns = 17,
                                                 .enqueued_ns = 14,
                                                 .bytes = 40,
                                                 .mark = 5};
    file.entries[5] = (struct soft_record_entry){
        .kind = SOFT_RECORD_NOTE, .thread = 1, .device = -1, .name = STEP_END, .start_ns = 20, .end_ns = 20};
    small_record_seal(&file);
    return file;
}
