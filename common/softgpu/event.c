/* SPDX-License-Identifier: MIT
 *
 * Events. Each record makes a mark; the event holds its latest. A wait captures the mark that is the latest at the
 * call, so recording again neither moves nor hastens a wait that is already enqueued, as on a GPU.
 */
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "record.h"
#include "sys/clock.h"

struct soft_mark {
    uint32_t references;     /* the event's, the recording task's, each waiting task's */
    uint32_t number;         /* for the record of the run */
    struct soft_signal done; /* 1: the stream has reached it */
    uint64_t time_ns;
    bool broken; /* the stream was, when it came here */
};

struct softEvent {
    uint64_t magic;
    struct soft_device *device;
    bool timed;
    struct soft_lock lock;
    struct soft_mark *latest; /* NULL: never recorded */
};

/* Both tasks' arguments. */
struct reach {
    struct soft_mark *mark;
};

static uint32_t marks_made;

static void drop(struct soft_mark *mark)
{
    if (mark && __atomic_sub_fetch(&mark->references, 1, __ATOMIC_ACQ_REL) == 0)
        hidden_free(mark);
}

/* The latest mark with a reference of the caller's, or NULL. */
static struct soft_mark *capture(softEvent_t event)
{
    soft_lock(&event->lock, "event");
    struct soft_mark *mark = event->latest;
    if (mark)
        __atomic_add_fetch(&mark->references, 1, __ATOMIC_RELAXED);
    soft_unlock(&event->lock);
    return mark;
}

static softError_t check(softEvent_t event, const char *call)
{
    if (event && event->magic == SOFT_EVENT_MAGIC)
        return softSuccess;
    return soft_fail(softErrorInvalidResourceHandle, "%s: %p is not a live event", call, (void *)event);
}

softError_t softEventCreateWithFlags(softEvent_t *created, unsigned flags)
{
    SOFT_HOST_CALL("cudaEventCreateWithFlags");
    if (!created || flags & ~(softEventBlockingSync | softEventDisableTiming))
        return soft_fail(softErrorInvalidValue, "cudaEventCreateWithFlags: flags are %u, known are %u and %u", flags,
                         softEventBlockingSync, softEventDisableTiming);
    *created = NULL;
    struct soft_device *device = soft_device_current();
    if (!device)
        return softPeekAtLastError();
    softEvent_t event = hidden_alloc(sizeof(*event));
    if (!event)
        return soft_fail(softErrorMemoryAllocation, "cudaEventCreateWithFlags: no memory");
    event->magic = SOFT_EVENT_MAGIC;
    event->device = device;
    event->timed = !(flags & softEventDisableTiming);
    *created = event;
    return softSuccess;
}

softError_t softEventDestroy(softEvent_t event)
{
    SOFT_HOST_CALL("cudaEventDestroy");
    softError_t error = check(event, "cudaEventDestroy");
    if (error)
        return error;
    event->magic = 0;
    drop(event->latest);
    hidden_free(event);
    return softSuccess;
}

/* ---- in the stream --------------------------------------------------------------------------- */

static void run_record(softStream_t stream, const struct soft_what *what, void *arguments)
{
    (void)what;
    struct soft_mark *mark = ((struct reach *)arguments)->mark;
    mark->broken = soft_stream_broken(stream);
    mark->time_ns = clock_nanoseconds();
    soft_release(mark);
    soft_signal_set(&mark->done, 1);
    drop(mark);
}

static void run_wait(softStream_t stream, const struct soft_what *what, void *arguments)
{
    (void)what;
    struct soft_mark *mark = ((struct reach *)arguments)->mark;
    while (soft_signal_read(&mark->done) == 0)
        soft_signal_wait(&mark->done, 0, soft_spin_ns(), SOFT_NO_DEADLINE);
    soft_acquire(mark);
    if (mark->broken)
        soft_stream_follow(stream);
    drop(mark);
}

softError_t softEventRecord(softEvent_t event, softStream_t stream)
{
    SOFT_HOST_CALL("cudaEventRecord");
    softError_t error = check(event, "cudaEventRecord");
    struct soft_device *device = soft_stream_device(stream);
    if (error || !device)
        return softPeekAtLastError();
    if (device != event->device)
        return soft_fail(softErrorInvalidResourceHandle,
                         "cudaEventRecord: the event is device %d's, the stream device %d's",
                         event->device->map.ordinal, device->map.ordinal);
    struct soft_mark *mark = hidden_alloc(sizeof(*mark));
    if (!mark)
        return soft_fail(softErrorMemoryAllocation, "cudaEventRecord: no memory");
    mark->references = 2;
    mark->number = __atomic_add_fetch(&marks_made, 1, __ATOMIC_RELAXED);
    struct soft_what what = {.kind = SOFT_TASK_EVENT_RECORD, .name = "event_record", .detail = mark->number};
    error = soft_enqueue(stream, &what, run_record, &(struct reach){mark}, sizeof(struct reach));
    soft_lock(&event->lock, "event");
    struct soft_mark *previous = event->latest;
    event->latest = mark;
    soft_unlock(&event->lock);
    drop(previous);
    return error;
}

softError_t softStreamWaitEvent(softStream_t stream, softEvent_t event, unsigned flags)
{
    SOFT_HOST_CALL("cudaStreamWaitEvent");
    if (check(event, "cudaStreamWaitEvent") || !soft_stream_device(stream))
        return softPeekAtLastError();
    if (flags != 0)
        return soft_fail(softErrorInvalidValue, "cudaStreamWaitEvent: flags are %u, 0 was expected", flags);
    struct soft_mark *mark = capture(event);
    if (!mark)
        return softSuccess;
    struct soft_what what = {.kind = SOFT_TASK_EVENT_WAIT, .name = "event_wait", .detail = mark->number};
    return soft_enqueue(stream, &what, run_wait, &(struct reach){mark}, sizeof(struct reach));
}

#ifdef SOFTGPU_SKIP_WAITS
/* Leaves out the wait that the environment names: SOFTGPU_SKIP_WAIT=reducer.c:120. */
softError_t softStreamWaitEventAt(softStream_t stream, softEvent_t event, unsigned flags, const char *file, int line);
softError_t softStreamWaitEventAt(softStream_t stream, softEvent_t event, unsigned flags, const char *file, int line)
{
    const char *skip = getenv("SOFTGPU_SKIP_WAIT");
    const char *colon = skip ? strrchr(skip, ':') : NULL;
    const char *slash = strrchr(file, '/');
    const char *name = slash ? slash + 1 : file;
    if (colon && strlen(name) == (size_t)(colon - skip) && !strncmp(name, skip, strlen(name)) &&
        strtol(colon + 1, NULL, 10) == line)
        return softSuccess;
    return softStreamWaitEvent(stream, event, flags);
}
#endif

/* ---- on the host ----------------------------------------------------------------------------- */

softError_t softEventSynchronize(softEvent_t event)
{
    SOFT_HOST_CALL("cudaEventSynchronize");
    softError_t error = check(event, "cudaEventSynchronize");
    if (error)
        return error;
    struct soft_mark *mark = capture(event);
    if (!mark)
        return softSuccess;
    uint64_t start = soft_recording() ? soft_record_clock() : 0;
    if (soft_signal_read(&mark->done) == 0)
        (void)soft_watch_wait(&mark->done, 0); /* false: the device has an error, told below */
    soft_acquire(mark);
    if (start)
        soft_record_waited(NULL, 0, mark->number, start);
    drop(mark);
    return soft_device_error(event->device);
}

softError_t softEventQuery(softEvent_t event)
{
    SOFT_HOST_CALL("cudaEventQuery");
    softError_t error = check(event, "cudaEventQuery");
    if (error)
        return error;
    struct soft_mark *mark = capture(event);
    bool done = !mark || soft_signal_read(&mark->done);
    if (mark && done)
        soft_acquire(mark);
    drop(mark);
    return done ? soft_device_error(event->device) : soft_fail(softErrorNotReady, "the event has not happened yet");
}

/* The time of an event that has happened. */
static softError_t event_time(softEvent_t event, const char *call, uint64_t *time_ns)
{
    softError_t error = check(event, call);
    if (error)
        return error;
    struct soft_mark *mark = capture(event);
    if (!mark || !event->timed) {
        drop(mark);
        return soft_fail(softErrorInvalidResourceHandle, "%s: the event %s", call,
                         event->timed ? "was never recorded" : "was created without timing");
    }
    bool done = soft_signal_read(&mark->done);
    *time_ns = mark->time_ns;
    drop(mark);
    return done ? softSuccess : soft_fail(softErrorNotReady, "%s: the event has not happened yet", call);
}

softError_t softEventElapsedTime(float *milliseconds, softEvent_t start, softEvent_t end)
{
    uint64_t from = 0, to = 0;
    if (event_time(start, "cudaEventElapsedTime", &from) || event_time(end, "cudaEventElapsedTime", &to))
        return softPeekAtLastError();
    *milliseconds = (float)((double)(int64_t)(to - from) * 1e-6);
    return softSuccess;
}

softError_t softEventTime(softEvent_t event, double *seconds)
{
    uint64_t time_ns = 0;
    softError_t error = event_time(event, "softEventTime", &time_ns);
    if (!error)
        *seconds = (double)time_ns * 1e-9;
    return error;
}
