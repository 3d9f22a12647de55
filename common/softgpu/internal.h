/* SPDX-License-Identifier: MIT
 *
 * What the rooms of the soft GPU (core, products, collectives) tell each other.
 */
#ifndef SOFTGPU_INTERNAL_H
#define SOFTGPU_INTERNAL_H

#include "hidden.h"
#include "launch.h"
#include "softgpu.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SOFT_PRINTF(text, first) __attribute__((format(printf, text, first)))

/* ---- errors ---------------------------------------------------------------------------------- */

/* Sets this thread's last error and its sentence, and returns the error, for use as `return soft_fail(...)`. */
softError_t soft_fail(softError_t error, const char *format, ...) SOFT_PRINTF(2, 3);

struct soft_device;

/* Sets the device's sticky error (the first one stays): each later call on the device returns it. For work that fails
 * in a stream, where no caller is left to return to. */
void soft_device_fail(struct soft_device *device, softError_t error, const char *format, ...) SOFT_PRINTF(3, 4);

/* The sticky error; if there is one, it becomes this thread's last error with the device's sentence. */
softError_t soft_device_error(struct soft_device *device);

/* ---- settings -------------------------------------------------------------------------------- */

/* With the defaults filled in (capacity, one core, 30 s); fixes them: softConfigure fails from now on. */
const struct soft_settings *soft_settings(void);

/* ---- devices --------------------------------------------------------------------------------- */

/* The fixed facts of a device. Device pointer + (kernel_base - device_base) = kernel pointer. */
struct soft_device_map {
    int ordinal;       /* position in this process's list: cudaSetDevice's number */
    int physical;      /* 0 .. SOFTGPU_MAX_DEVICES - 1, the same in all processes */
    int memfd;         /* the device's memory; stays the device's: pass it on, don't close it */
    size_t map_bytes;  /* of the memfd and of both mappings (capacity, guards and slack) */
    char *device_base; /* PROT_NONE reservation: what softMalloc's pointers point into */
    char *kernel_base; /* readable and writable mapping of the memfd */
    int cores;
};

/* The device, created on first use; NULL with this thread's last error set. */
struct soft_device *soft_device_get(int ordinal);
struct soft_device *soft_device_current(void);
const struct soft_device_map *soft_device_map(const struct soft_device *device);

/* True if [pointer, pointer + bytes) lies whole within one live allocation of the device; *offset is then its place in
 * the memfd. bytes = 0: the pointer must lie within (or just behind) a live allocation. */
bool soft_device_find(struct soft_device *device, const void *pointer, size_t bytes, size_t *offset);

/* The live device whose reservation holds the pointer, or NULL: it is host memory. */
struct soft_device *soft_device_of_pointer(const void *pointer);

/* ---- streams --------------------------------------------------------------------------------- */

/* Device of a live stream; NULL with this thread's last error set for NULL and for handles that are no live stream. */
struct soft_device *soft_stream_device(softStream_t stream);

enum soft_task_kind {
    SOFT_TASK_LAUNCH,
    SOFT_TASK_PRODUCT,
    SOFT_TASK_COPY,
    SOFT_TASK_MEMSET,
    SOFT_TASK_EVENT_RECORD,
    SOFT_TASK_EVENT_WAIT,
    SOFT_TASK_COLLECTIVE,
};

/* What a task says of itself, for the record and the traffic. */
struct soft_what {
    enum soft_task_kind kind;
    const char *name; /* static storage */
    uint32_t range;   /* set by soft_enqueue: the caller's innermost range */
    uint32_t detail;  /* a collective's soft_record_collective number; a copy's pair; an event's mark; a
                       * product's type + 1 */
    double flops, bytes;
};

/* Runs in the stream's thread, in stream order; may block. `arguments` are the enqueued bytes, which the task may
 * change and which live until it returns. Bodies that touch device memory belong into code the thread sanitizer sees.
 */
typedef void soft_task(softStream_t stream, const struct soft_what *what, void *arguments);

/* Enqueues and returns; blocks only while the stream's ring is full. argument_bytes <= SOFT_LAUNCH_ARGUMENT_BYTES,
 * copied. The edge host -> task is stated. Sets and returns the last error for a dead stream. Does not look at the
 * current device (softLaunch does: CUDA refuses a launch into another device's stream, but not a copy, a record or a
 * wait). */
softError_t soft_enqueue(softStream_t stream, const struct soft_what *what, soft_task *task, const void *arguments,
                         size_t argument_bytes);

/* In the stream's thread, of a collective that failed: what it was to deliver never came. What was enqueued behind it before
 * it failed, in this stream and in those that wait for its events, is not executed: no kernel, product, copy or memset; events
 * and collectives are passed. What is enqueued afterwards is executed. */
void soft_stream_break(softStream_t stream);

/* ---- ranges and traffic ---------------------------------------------------------------------- */

uint32_t soft_range_current(void); /* this thread's innermost range; 0: none, named "" */
const char *soft_range_name(uint32_t range);

/* Counts bytes moved, by the task that moves them. from, to: -1 for the host, else see softTrafficVisit. */
void soft_traffic_add(uint32_t range, int from, int to, uint64_t bytes);

/* ---- record ---------------------------------------------------------------------------------- */

bool soft_recording(void); /* one load and one branch */

/* Times an API function for the record: first line of its body, SOFT_HOST_CALL("ncclAllReduce"). Off: one branch. */
struct soft_host_call {
    const char *name; /* NULL: not recording, or inside another recorded call */
    uint64_t start_ns;
};
struct soft_host_call soft_host_call_begin(const char *name);
void soft_host_call_end(struct soft_host_call *call);
#define SOFT_HOST_CALL(name)                                                                                           \
    __attribute__((cleanup(soft_host_call_end), unused)) struct soft_host_call soft_host_call_ =                       \
        soft_host_call_begin(name)

/* The facts of one collective of one rank. Returns the number to put into soft_what.detail (0 if nothing is recorded);
 * start and end are taken by the stream's thread when the task runs. */
struct soft_collective_facts {
    uint64_t communicator; /* the same number on all ranks: a hash of the unique id */
    uint64_t sequence;     /* 0, 1, ... in the communicator */
    const char *operation; /* static: "all_reduce" */
    uint64_t count;
    int type, reduce_op, root, rank, ranks;
};
uint32_t soft_record_collective(const struct soft_collective_facts *facts);

#ifdef __cplusplus
}
#endif
#endif
