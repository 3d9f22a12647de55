/* SPDX-License-Identifier: MIT
 *
 * The core's own structures: devices, streams, events. Products and collectives see internal.h only.
 */
#ifndef SOFTGPU_CORE_H
#define SOFTGPU_CORE_H

#include <pthread.h>

#include "internal.h"

/* ---- devices --------------------------------------------------------------------------------- */

#define SOFT_GUARD_BYTES 256 /* stand before and behind each allocation; also its alignment */

struct soft_block { /* a live allocation: its place in the memfd and the bytes that were asked for */
    size_t offset, bytes;
};

struct soft_device {
    struct soft_device_map map;
    size_t capacity; /* bytes that may be asked for in all */

    struct soft_lock memory_lock;
    size_t used;               /* bytes asked for by live allocations */
    struct soft_block *blocks; /* sorted by offset */
    size_t block_count, block_room;

    struct soft_lock streams_lock;
    softStream_t streams; /* linked list of live streams */
    uint32_t streams_made;
    uint64_t retired_busy_ns; /* CPU time of the threads of destroyed streams */
    char cores[256];          /* read back by the stream threads */
    struct soft_crowd crowd;

    uint64_t peers; /* bit i: access to ordinal i was enabled */

    struct soft_lock error_lock;
    uint32_t error; /* sticky; 0: none */
    char error_detail[512];
};

/* Visible devices: CUDA_VISIBLE_DEVICES over SOFTGPU_DEVICES. Fails with softErrorNoDevice if there are none. */
softError_t soft_visible_count(int *count);
int soft_visible_physical(int ordinal); /* of an existing ordinal */
void soft_uuid_text(int physical, char text[41]);
int soft_current_ordinal(void);

/* Calls visit for each live device. */
void soft_devices_visit(void (*visit)(struct soft_device *device, void *context), void *context);

/* Waits until all streams of the device are idle, or the devices are lost; states the edge to the host. */
void soft_device_drain(struct soft_device *device);

/* Looks at the guards of all live allocations; a damaged one becomes the device's sticky error. */
void soft_guards_check(struct soft_device *device);

/* ---- pinned host memory ---------------------------------------------------------------------- */

bool soft_pinned(const void *pointer, size_t bytes); /* lies whole within one softMallocHost range */

/* ---- streams --------------------------------------------------------------------------------- */

#define SOFT_STREAM_MAGIC UINT64_C(0x6d61657274535347)
#define SOFT_EVENT_MAGIC UINT64_C(0x00746e6576455347)
#define SOFT_RING_SLOTS 1024u /* tasks that the host may be ahead; a power of two */
#define SOFT_SLOT_BYTES (SOFT_LAUNCH_ARGUMENT_BYTES + 16)

struct soft_slot {
    struct soft_what what;
    soft_task *task;      /* NULL: the stream ends */
    uint64_t enqueued_ns; /* when recording */
    uint32_t host_thread;
    _Alignas(16) unsigned char arguments[SOFT_SLOT_BYTES];
};

struct softStream {
    uint64_t magic;
    struct soft_device *device;
    softStream_t next, next_of_all;
    uint32_t number; /* 1, 2, ... on its device */
    pthread_t thread;
    struct soft_signal ready; /* 1: the thread is bound and runs */
    struct soft_lock producers;
    struct soft_signal enqueued; /* tasks so far; written under `producers` */
    struct soft_signal done;
    uint32_t blocks;            /* of launches, done so far: for the watch */
    uint32_t at_break;          /* tasks enqueued when a collective of the process failed last: soft_stream_break */
    bool broken;                /* in the stream's thread: tasks before `executed_from` are not executed */
    uint32_t executed_from;
    struct soft_lock waiting;   /* of the next two */
    struct soft_signal reached; /* rings when `done` comes to the milestone */
    uint32_t milestone;         /* the earliest number of tasks done that somebody waits for */
    struct soft_slot *ring;
    struct soft_team *team; /* NULL: one core, or no launch of several blocks yet */
};

/* soft_enqueue with the arguments in two parts, SOFT_SLOT_BYTES together. */
softError_t soft_enqueue_parts(softStream_t stream, const struct soft_what *what, soft_task *task, const void *first,
                               size_t first_bytes, const void *second, size_t second_bytes);

/* In the stream's thread: is the present task not to be executed (soft_stream_break)? And: it waited for a stream of which
 * that holds, so what was enqueued here before the break is not to be either. */
bool soft_stream_broken(softStream_t stream);
void soft_stream_follow(softStream_t stream);

/* Waits until all tasks enqueued so far are done; states the edge to the host. Returns too when the devices are lost. */
void soft_stream_drain(softStream_t stream);

/* ---- the watch: no wait of the host is for ever ---------------------------------------------- */

/* The streams whose progress is looked at: from their first task to their end. */
void soft_watch_add(softStream_t stream);
void soft_watch_remove(softStream_t stream);

/* Each stream's at_break := the tasks that it has by now. */
void soft_watch_mark_break(void);

/* Waits on the host until the signal's value is no longer `seen`. False: no stream of the process has ended a task, or a
 * block of a launch, for the limit of the settings. Then all devices have the sticky error softErrorLaunchTimeout, and no wait waits any more. */
bool soft_watch_wait(struct soft_signal *signal, uint32_t seen);

/* ---- the team: threads that share a launch's blocks with the stream's own thread ------------- */

/* Runs the body's blocks on the stream's thread and cores - 1 helpers; called in the stream's thread. */
void soft_team_run(softStream_t stream, soft_body *body, const void *arguments, unsigned blocks);
void soft_team_destroy(struct soft_team *team);
uint64_t soft_team_cpu_ns(const struct soft_team *team); /* NULL: 0 */
uint64_t soft_thread_cpu_ns(pthread_t thread);

#endif
