/* SPDX-License-Identifier: MIT
 *
 * The host's waits for devices, none of which is for ever. A device may take its time (a step of a large model takes
 * minutes on a CPU, one large product in it half a minute), so what is limited is the time in which no stream of the
 * process ends a task or a block of a launch: then a task never ends, or one waits for what never comes. A GPU's driver
 * has such a watch for kernels (cudaErrorLaunchTimeout). As there, the devices are lost with it: each later call says
 * so, nothing that a task may still use is freed, and nothing is waited for.
 *
 * A waiter that sleeps is woken a few times within the limit and looks at the numbers of tasks and blocks done; a
 * process that was stopped loses one such look, not the whole limit.
 */
#include <stdio.h>
#include <unistd.h>

#include "core.h"
#include "sys/clock.h"

#define LOOK_NS 250000000u
#define LOOKS_LEAST 8u /* within the limit */

static struct soft_lock lock; /* of the list */
static softStream_t all;      /* linked by `next_of_all` */
static uint32_t lost;

void soft_watch_add(softStream_t stream)
{
    soft_lock(&lock, "all streams");
    stream->next_of_all = all;
    all = stream;
    soft_unlock(&lock);
}

void soft_watch_remove(softStream_t stream)
{
    soft_lock(&lock, "all streams");
    softStream_t *link = &all;
    while (*link != stream)
        link = &(*link)->next_of_all;
    *link = stream->next_of_all;
    soft_unlock(&lock);
}

void soft_watch_mark_break(void)
{
    soft_lock(&lock, "all streams");
    for (softStream_t stream = all; stream; stream = stream->next_of_all)
        __atomic_store_n(&stream->at_break, soft_signal_read(&stream->enqueued), __ATOMIC_RELAXED);
    soft_unlock(&lock);
}

bool softDevicesLost(void)
{
    return __atomic_load_n(&lost, __ATOMIC_ACQUIRE) != 0;
}

static uint64_t work_done(void)
{
    uint64_t sum = 0;
    soft_lock(&lock, "all streams");
    for (softStream_t stream = all; stream; stream = stream->next_of_all)
        sum += (uint64_t)soft_signal_read(&stream->done) + __atomic_load_n(&stream->blocks, __ATOMIC_RELAXED);
    soft_unlock(&lock);
    return sum;
}

/* ---- when the limit has passed --------------------------------------------------------------- */

/* The task that the stream is at, or NULL: it has none. It stays in its slot until it is done. */
static const struct soft_what *present_task(softStream_t stream)
{
    uint32_t done = soft_signal_read(&stream->done);
    bool idle = done == soft_signal_read(&stream->enqueued);
    return idle ? NULL : &stream->ring[done % SOFT_RING_SLOTS].what;
}

/* A stream that does not merely wait for another one's event; else any that has a task. Under the lock. */
static softStream_t find_culprit(void)
{
    softStream_t waiting = NULL;
    for (softStream_t stream = all; stream; stream = stream->next_of_all) {
        const struct soft_what *task = present_task(stream);
        if (task && task->kind != SOFT_TASK_EVENT_WAIT)
            return stream;
        waiting = task ? stream : waiting;
    }
    return waiting;
}

static void fail_device(struct soft_device *device, void *context)
{
    soft_device_fail(device, softErrorLaunchTimeout, "%s", (const char *)context);
}

static void lose_devices(double limit_s)
{
    char text[256];
    int at = snprintf(text, sizeof(text), "time limit of %.1f s: no device has ended a task", limit_s);
    soft_lock(&lock, "all streams");
    softStream_t stream = find_culprit();
    const struct soft_what *task = stream ? present_task(stream) : NULL;
    if (task)
        snprintf(text + at, sizeof(text) - (size_t)at, "; device %d is at %s%s%s%s", stream->device->map.ordinal,
                 task->name, task->range ? " (" : "", task->range ? soft_range_name(task->range) : "",
                 task->range ? ")" : "");
    soft_unlock(&lock);
    soft_devices_visit(fail_device, text);
    __atomic_store_n(&lost, 1, __ATOMIC_RELEASE);
}

static void stall(softStream_t stream, const struct soft_what *what, void *arguments)
{
    (void)stream;
    (void)what;
    (void)arguments;
    for (;;)
        pause();
}

softError_t softTestStall(softStream_t stream)
{
    return soft_enqueue(stream, &(struct soft_what){.kind = SOFT_TASK_LAUNCH, .name = "stall"}, stall, NULL, 0);
}

/* ---- waiting --------------------------------------------------------------------------------- */

bool soft_watch_wait(struct soft_signal *signal, uint32_t seen)
{
    const double limit_s = soft_settings()->collective_limit_s;
    const uint64_t limit = (uint64_t)(limit_s * 1e9), part = limit / LOOKS_LEAST + 1;
    const uint64_t look = part < LOOK_NS ? part : LOOK_NS;
    uint64_t spin = soft_spin_ns(), quiet = 0, before = UINT64_MAX; /* quiet: time of looks that saw nothing done */
    while (!softDevicesLost()) {
        if (soft_signal_wait(signal, seen, spin, clock_nanoseconds() + look))
            return true;
        uint64_t now = work_done();
        quiet = now == before ? quiet + look : 0;
        before = now;
        spin = 0;
        if (quiet >= limit)
            lose_devices(limit_s);
    }
    return soft_signal_read(signal) != seen;
}
