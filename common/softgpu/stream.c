/* SPDX-License-Identifier: MIT
 *
 * Streams: a thread each, bound to its device's cores, that takes tasks in order from a ring. The host only copies a
 * task's bytes into a slot: no allocation, and no system call unless the thread sleeps.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "core.h"
#include "record.h"
#include "sys/clock.h"
#include "sys/topology.h"

/* ---- the stream's thread --------------------------------------------------------------------- */

static void settle(softStream_t stream)
{
    struct soft_device *device = stream->device;
    char cores[sizeof(device->cores)] = "";
    if (!topology_bind_thread(device->map.physical * device->map.cores, device->map.cores))
        topology_read_binding(cores, sizeof(cores));
    soft_lock(&device->error_lock, "device");
    hidden_copy_text(device->cores, sizeof(device->cores), cores);
    soft_unlock(&device->error_lock);
    soft_crowd_join(&device->crowd);
    soft_signal_set(&stream->ready, 1);
}

/* ---- waiting for a task ---------------------------------------------------------------------- */

/* A host that waits for the last of many tasks is not woken by each: those that wait leave the earliest number that one
 * of them wants, the stream rings when it gets there, and who wants a later one leaves his again. The store of `done`
 * and the look at `milestone` are sequentially consistent, as are a waiter's store and look: one of the two sees the
 * other. */
static void tell_waiting(softStream_t stream, uint32_t done)
{
    if ((int32_t)(done - __atomic_load_n(&stream->milestone, __ATOMIC_SEQ_CST)) < 0)
        return;
    soft_lock(&stream->waiting, "stream waiters");
    __atomic_store_n(&stream->milestone, done + (1u << 30), __ATOMIC_SEQ_CST); /* nobody's */
    soft_signal_add(&stream->reached, 1);
    soft_unlock(&stream->waiting);
}

static bool is_done(softStream_t stream, uint32_t target)
{
    return (int32_t)(__atomic_load_n(&stream->done.value, __ATOMIC_SEQ_CST) - target) >= 0;
}

/* False: the devices are lost (soft_watch_wait). */
static bool wait_done(softStream_t stream, uint32_t target)
{
    while (!is_done(stream, target)) {
        soft_lock(&stream->waiting, "stream waiters");
        uint32_t seen = soft_signal_read(&stream->reached);
        if ((int32_t)(target - stream->milestone) < 0)
            __atomic_store_n(&stream->milestone, target, __ATOMIC_SEQ_CST);
        soft_unlock(&stream->waiting);
        if (!is_done(stream, target) && !soft_watch_wait(&stream->reached, seen))
            return false;
    }
    return true;
}

bool soft_stream_broken(softStream_t stream)
{
    if (stream->broken && (int32_t)(soft_signal_read(&stream->done) - stream->executed_from) >= 0)
        stream->broken = false;
    return stream->broken;
}

void soft_stream_follow(softStream_t stream)
{
    stream->broken = true;
    stream->executed_from = __atomic_load_n(&stream->at_break, __ATOMIC_RELAXED);
}

void soft_stream_break(softStream_t stream)
{
    soft_watch_mark_break();
    soft_stream_follow(stream);
}

static bool is_executed(softStream_t stream, enum soft_task_kind kind)
{
    return kind == SOFT_TASK_EVENT_RECORD || kind == SOFT_TASK_EVENT_WAIT || kind == SOFT_TASK_COLLECTIVE ||
           !soft_stream_broken(stream);
}

static void *run_stream(void *argument)
{
    softStream_t stream = argument;
    settle(stream);
    for (uint32_t number = 0;; number++) {
        while (soft_signal_read(&stream->enqueued) == number)
            soft_signal_wait(&stream->enqueued, number, soft_spin_ns(), SOFT_NO_DEADLINE);
        struct soft_slot *slot = &stream->ring[number % SOFT_RING_SLOTS];
        if (!slot->task)
            break;
        soft_acquire(slot->arguments);
        uint64_t start = soft_recording() ? clock_nanoseconds() : 0;
        if (is_executed(stream, slot->what.kind))
            slot->task(stream, &slot->what, slot->arguments);
        if (start)
            soft_record_task(stream, number, slot, start);
        soft_release(&slot->what);
        soft_signal_set(&stream->done, number + 1);
        tell_waiting(stream, number + 1);
    }
    soft_crowd_leave();
    return NULL;
}

/* ---- enqueueing ------------------------------------------------------------------------------ */

struct soft_device *soft_stream_device(softStream_t stream)
{
    if (!stream) {
        soft_fail(softErrorInvalidResourceHandle,
                  "the default stream (NULL) is refused: it would order all streams of the device; "
                  "create one with cudaStreamCreateWithFlags");
        return NULL;
    }
    if (stream->magic != SOFT_STREAM_MAGIC) {
        soft_fail(softErrorInvalidResourceHandle, "%p is not a live stream", (void *)stream);
        return NULL;
    }
    return stream->device;
}

/* The next free slot; while the ring is full, waits until half of it is free. NULL: the devices are lost. Under
 * `producers`. */
static struct soft_slot *next_slot(softStream_t stream, uint32_t number)
{
    if (number - soft_signal_read(&stream->done) >= SOFT_RING_SLOTS &&
        !wait_done(stream, number - SOFT_RING_SLOTS / 2))
        return NULL;
    return &stream->ring[number % SOFT_RING_SLOTS];
}

/* False: the devices are lost. */
static bool push(softStream_t stream, const struct soft_what *what, soft_task *task, const void *first,
                 size_t first_bytes, const void *second, size_t second_bytes)
{
    soft_lock(&stream->producers, "stream");
    uint32_t number = stream->enqueued.value; /* written under this lock only */
    struct soft_slot *slot = next_slot(stream, number);
    if (!slot) {
        soft_unlock(&stream->producers);
        return false;
    }
    slot->what = *what;
    slot->what.range = soft_range_current();
    slot->task = task;
    hidden_copy(slot->arguments, first, first_bytes);
    hidden_copy(slot->arguments + first_bytes, second, second_bytes);
    if (soft_recording())
        soft_record_enqueued(stream, number, slot);
    soft_release(slot->arguments);
    soft_signal_set(&stream->enqueued, number + 1);
    soft_unlock(&stream->producers);
    return true;
}

softError_t soft_enqueue_parts(softStream_t stream, const struct soft_what *what, soft_task *task, const void *first,
                               size_t first_bytes, const void *second, size_t second_bytes)
{
    if (!soft_stream_device(stream))
        return softPeekAtLastError();
    if (first_bytes + second_bytes > SOFT_SLOT_BYTES)
        return soft_fail(softErrorInvalidValue, "%s: %zu bytes of arguments, at most %d are possible", what->name,
                         first_bytes + second_bytes, SOFT_LAUNCH_ARGUMENT_BYTES);
    if (push(stream, what, task, first, first_bytes, second, second_bytes))
        return softSuccess;
    return soft_device_error(stream->device);
}

softError_t soft_enqueue(softStream_t stream, const struct soft_what *what, soft_task *task, const void *arguments,
                         size_t argument_bytes)
{
    return soft_enqueue_parts(stream, what, task, arguments, argument_bytes, NULL, 0);
}

/* ---- waiting for a stream -------------------------------------------------------------------- */

void soft_stream_drain(softStream_t stream)
{
    uint64_t start = soft_recording() ? soft_record_clock() : 0;
    uint32_t target = soft_signal_read(&stream->enqueued);
    wait_done(stream, target);
    soft_acquire(&stream->ring[(target - 1) % SOFT_RING_SLOTS].what);
    if (start)
        soft_record_waited(stream, target, 0, start);
}

void soft_device_drain(struct soft_device *device)
{
    soft_lock(&device->streams_lock, "device streams");
    for (softStream_t stream = device->streams; stream; stream = stream->next)
        soft_stream_drain(stream);
    soft_unlock(&device->streams_lock);
}

softError_t softStreamSynchronize(softStream_t stream)
{
    SOFT_HOST_CALL("cudaStreamSynchronize");
    struct soft_device *device = soft_stream_device(stream);
    if (!device)
        return softPeekAtLastError();
    soft_stream_drain(stream);
    return soft_device_error(device);
}

softError_t softStreamQuery(softStream_t stream)
{
    SOFT_HOST_CALL("cudaStreamQuery");
    struct soft_device *device = soft_stream_device(stream);
    if (!device)
        return softPeekAtLastError();
    uint32_t target = soft_signal_read(&stream->enqueued);
    if ((int32_t)(soft_signal_read(&stream->done) - target) < 0)
        return soft_fail(softErrorNotReady, "the stream has work to do");
    soft_acquire(&stream->ring[(target - 1) % SOFT_RING_SLOTS].what);
    return soft_device_error(device);
}

/* ---- life of a stream ------------------------------------------------------------------------ */

/* Signals are the program's: none may land on a stream's thread. */
static int start_thread(softStream_t stream)
{
    sigset_t all, kept;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &kept);
    int failed = pthread_create(&stream->thread, NULL, run_stream, stream);
    pthread_sigmask(SIG_SETMASK, &kept, NULL);
    return failed;
}

softError_t softStreamCreateWithFlags(softStream_t *created, unsigned flags)
{
    SOFT_HOST_CALL("cudaStreamCreateWithFlags");
    if (!created || flags != softStreamNonBlocking)
        return soft_fail(softErrorInvalidValue,
                         "cudaStreamCreateWithFlags: flags are %u, cudaStreamNonBlocking (%u) was expected: "
                         "there is no default stream to block on",
                         flags, softStreamNonBlocking);
    *created = NULL;
    struct soft_device *device = soft_device_current();
    if (!device || soft_device_error(device))
        return softPeekAtLastError();
    softStream_t stream = hidden_alloc(sizeof(*stream));
    struct soft_slot *ring = hidden_alloc(SOFT_RING_SLOTS * sizeof(*ring));
    int failed = ENOMEM;
    if (stream && ring) {
        stream->magic = SOFT_STREAM_MAGIC;
        stream->device = device;
        stream->ring = ring;
        stream->number = __atomic_add_fetch(&device->streams_made, 1, __ATOMIC_RELAXED);
        failed = start_thread(stream);
    }
    if (failed) {
        hidden_free(stream);
        hidden_free(ring);
        return soft_fail(softErrorMemoryAllocation, "soft GPU %d: can't start a stream's thread: %s",
                         device->map.ordinal, strerror(failed));
    }
    while (soft_signal_read(&stream->ready) == 0)
        soft_signal_wait(&stream->ready, 0, 0, SOFT_NO_DEADLINE);
    soft_lock(&device->streams_lock, "device streams");
    stream->next = device->streams;
    device->streams = stream;
    soft_unlock(&device->streams_lock);
    soft_watch_add(stream);
    *created = stream;
    return softSuccess;
}

uint64_t soft_thread_cpu_ns(pthread_t thread)
{
    clockid_t clock;
    struct timespec used;
    if (pthread_getcpuclockid(thread, &clock) || clock_gettime(clock, &used))
        return 0;
    return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

static uint64_t stream_cpu_ns(softStream_t stream)
{
    return soft_thread_cpu_ns(stream->thread) + soft_team_cpu_ns(stream->team);
}

/* Finishes what was enqueued, then ends the thread. */
softError_t softStreamDestroy(softStream_t stream)
{
    SOFT_HOST_CALL("cudaStreamDestroy");
    struct soft_device *device = soft_stream_device(stream);
    if (!device)
        return softPeekAtLastError();
    soft_stream_drain(stream);
    if (softDevicesLost()) /* its thread may never come back */
        return soft_device_error(device);
    soft_watch_remove(stream);
    soft_lock(&device->streams_lock, "device streams");
    softStream_t *link = &device->streams;
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    device->retired_busy_ns += stream_cpu_ns(stream);
    soft_unlock(&device->streams_lock);
    (void)push(stream, &(struct soft_what){.name = "end"}, NULL, NULL, 0, NULL, 0);
    stream->magic = 0;
    pthread_join(stream->thread, NULL);
    soft_team_destroy(stream->team);
    hidden_free(stream->ring);
    hidden_free(stream);
    return softSuccess;
}

/* ---- readings -------------------------------------------------------------------------------- */

int softStreamCores(softStream_t stream)
{
    struct soft_device *device = soft_stream_device(stream);
    return device ? device->map.cores : 1;
}

double softBusySeconds(int ordinal)
{
    struct soft_device *device = soft_device_get(ordinal);
    if (!device)
        return 0;
    soft_lock(&device->streams_lock, "device streams");
    uint64_t busy = device->retired_busy_ns;
    for (softStream_t stream = device->streams; stream; stream = stream->next)
        busy += stream_cpu_ns(stream);
    soft_unlock(&device->streams_lock);
    uint64_t spun = __atomic_load_n(&device->crowd.spun_ns, __ATOMIC_RELAXED);
    return spun < busy ? (double)(busy - spun) * 1e-9 : 0;
}

softError_t softDeviceCores(int ordinal, char *list, size_t size)
{
    struct soft_device *device = soft_device_get(ordinal);
    if (!device)
        return softPeekAtLastError();
    soft_lock(&device->error_lock, "device");
    hidden_copy_text(list, size, device->cores);
    soft_unlock(&device->error_lock);
    return softSuccess;
}
