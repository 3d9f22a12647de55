/* SPDX-License-Identifier: MIT
 *
 * The record's inner side. docs/record.md describes the file.
 */
#ifndef SOFTGPU_RECORD_H
#define SOFTGPU_RECORD_H

#include "core.h"

#define SOFT_RECORD_MAGIC "SOFTREC1"
/* 2: notes, settings, types of products, sizes of allocations. 3: the run's exit code, times that rise in a thread. */
#define SOFT_RECORD_VERSION 3

enum soft_record_kind {
    SOFT_RECORD_FACTS = 1, /* of a collective */
    SOFT_RECORD_HOST_CALL = 2,
    SOFT_RECORD_HOST_WAIT = 3, /* inside a host call: for a stream or an event */
    SOFT_RECORD_LOCK_WAIT = 4,
    SOFT_RECORD_NOTE = 5,    /* of the program: where steps, phases and jobs begin and end */
    SOFT_RECORD_SETTING = 6, /* of the program: name = range */
    SOFT_RECORD_TASK = 16, /* + enum soft_task_kind */
};

struct soft_record_header {
    char magic[8];
    uint32_t version;     /* SOFT_RECORD_VERSION */
    uint32_t entry_bytes; /* sizeof(struct soft_record_entry) */
    uint32_t flags;       /* 1: shape only */
    uint32_t pid;
    uint64_t string_count, string_bytes; /* NUL-terminated, in the order of their numbers, padded to 8 bytes */
    uint64_t entry_count;
    uint64_t checksum; /* common/sys/checksum.h over all that follows the header */
};

struct soft_record_entry {
    uint16_t kind;
    uint16_t thread;      /* host thread: that called, or that enqueued the task */
    int16_t device;       /* ordinal; -1: none */
    uint16_t stream;      /* number on its device; 0: none */
    uint32_t name, range; /* strings */
    uint64_t task; /* tasks: number in the stream, from 0. Calls: of the last task enqueued. Waits: tasks waited for */
    uint64_t start_ns, end_ns;
    uint64_t enqueued_ns; /* tasks */
    double flops, bytes;
    uint32_t mark; /* event record, event wait, host wait: one record of one event. Collectives: their facts */
    uint32_t reserved;
    uint64_t waited_ns; /* host calls: part of start to end that was spent waiting */
};

struct soft_record_facts {
    uint16_t kind, rank;
    int16_t root;
    uint16_t ranks;
    uint32_t name;   /* the operation */
    uint32_t number; /* what the task's `mark` holds */
    uint64_t communicator, sequence, count;
    uint32_t type, reduce_op;
    uint64_t reserved[4];
};

extern bool soft_record_on;

/* The time for an entry of the calling thread: later than the last one given to it, also where the clock's ticks are
 * coarse, since the order of a thread's entries is read from their times. */
uint64_t soft_record_clock(void);

/* One finished task; called in its stream's thread. */
void soft_record_task(softStream_t stream, uint64_t number, const struct soft_slot *slot, uint64_t start_ns);

/* What the running host call enqueued, or waited for since start_ns: an event's mark, or (mark 0) a stream's first
 * tasks. */
void soft_record_enqueued(softStream_t stream, uint64_t task, struct soft_slot *slot);
void soft_record_waited(softStream_t stream, uint64_t task, uint32_t mark, uint64_t start_ns);

void soft_record_lock_wait(const char *name, uint64_t start_ns);
void soft_record_open(const char *path); /* by the settings, once */

/* What a program says of itself while it runs (softRecordNote, softRecordSetting in softgpu.h are the outer side). */
void soft_record_bytes(double bytes); /* what the running host call allocates or frees */

/* Names by number: ranges and all strings of the record. The text is copied; 0 is "". */
uint32_t soft_intern(const char *text);
uint32_t soft_intern_count(void);

#endif
