/* SPDX-License-Identifier: MIT
 *
 * Devices that never finish: every wait of the host ends, says where the device is, and leaves what it may still use
 * alone. And a device that takes its time is left in peace.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "play.h"
#include "softgpu/core.h"
#include "sys/clock.h"

#define LIMIT_S 0.5
#define NAMED "time limit of 0.5 s: no device has ended a task; device 1 is at stall"

static const struct scene scene = {.settings.collective_limit_s = LIMIT_S};

/* A stream of device 1 that never comes back, and one of device 0 that waits for its event. */
static softStream_t stalled, waiting;
static softEvent_t event;
static void *memory, *pinned;

static void stall(void)
{
    memory = new_memory(1, 4);
    pinned = new_pinned(4);
    stalled = new_stream(1);
    EXPECT_OK(softEventCreateWithFlags(&event, softEventDisableTiming));
    EXPECT_OK(softTestStall(stalled));
    EXPECT_OK(softMemcpyAsync(pinned, memory, 4, softMemcpyDeviceToHost, stalled));
    EXPECT_OK(softEventRecord(event, stalled));
    waiting = new_stream(0);
    EXPECT_OK(softStreamWaitEvent(waiting, event, 0));
}

/* Nothing waits any more, nothing is freed, each call says what has happened. */
static void expect_lost(void)
{
    EXPECT_OK(softSetDevice(1));
    EXPECT_FAILS(softStreamSynchronize(stalled), softErrorLaunchTimeout, NAMED);
    EXPECT_FAILS(softStreamSynchronize(waiting), softErrorLaunchTimeout, NAMED);
    EXPECT_FAILS(softEventSynchronize(event), softErrorLaunchTimeout, NAMED);
    EXPECT_FAILS(softDeviceSynchronize(), softErrorLaunchTimeout, NAMED);
    EXPECT_FAILS(softFree(memory), softErrorLaunchTimeout, NAMED);
    EXPECT_FAILS(softFreeHost(pinned), softErrorLaunchTimeout, "may still use");
    EXPECT_FAILS(softStreamDestroy(stalled), softErrorLaunchTimeout, NAMED);
    EXPECT_FAILS(softStreamDestroy(waiting), softErrorLaunchTimeout, NAMED);
    EXPECT_OK(softEventDestroy(event));
}

static void wait_for_the_stream(void)
{
    stall();
    double start = clock_seconds();
    EXPECT_FAILS(softStreamSynchronize(stalled), softErrorLaunchTimeout, NAMED);
    EXPECT(clock_seconds() - start >= LIMIT_S);
    expect_lost();
}

static void wait_for_another_one(void)
{
    stall();
    EXPECT_FAILS(softStreamSynchronize(waiting), softErrorLaunchTimeout, NAMED);
    expect_lost();
}

static void wait_for_the_event(void)
{
    stall();
    EXPECT_FAILS(softEventSynchronize(event), softErrorLaunchTimeout, NAMED);
    expect_lost();
}

static void wait_to_free(void)
{
    stall();
    EXPECT_OK(softSetDevice(1));
    EXPECT_FAILS(softFree(memory), softErrorLaunchTimeout, NAMED);
    expect_lost();
}

/* More tasks than there is room for: the call that enqueues is the one that waits. */
static void wait_for_room(void)
{
    stall();
    EXPECT_OK(softSetDevice(1));
    softError_t error = softSuccess;
    int enqueued = 0;
    for (; !error && enqueued < 100000; enqueued++)
        error = softMemsetAsync(memory, 0, 4, stalled);
    EXPECT(enqueued >= 1000);
    EXPECT_FAILS(error, softErrorLaunchTimeout, NAMED);
    expect_lost();
}

static void every_wait_ends(void **state)
{
    static void (*const scenes[])(void) = {wait_for_the_stream, wait_for_another_one, wait_for_the_event, wait_to_free,
                                           wait_for_room};
    (void)state;
    for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
        play(scenes[i], &scene);
}

static void take_time(softStream_t stream, const struct soft_what *what, void *arguments)
{
    (void)stream;
    (void)what;
    (void)arguments;
    clock_sleep(0.1);
}

/* Two and a half seconds of work at a limit of two: each task is short, and the stream that is waited for does nothing
 * in the meantime. */
static void work_on(void)
{
    struct soft_what what = {.kind = SOFT_TASK_LAUNCH, .name = "take_time"};
    softStream_t busy = new_stream(1), last = new_stream(0);
    softEvent_t done;
    EXPECT_OK(softSetDevice(1));
    EXPECT_OK(softEventCreateWithFlags(&done, softEventDisableTiming));
    for (int i = 0; i < 25; i++)
        EXPECT_OK(soft_enqueue(busy, &what, take_time, NULL, 0));
    EXPECT_OK(softEventRecord(done, busy));
    EXPECT_OK(softStreamWaitEvent(last, done, 0));
    EXPECT_OK(softStreamSynchronize(last));
    EXPECT(!softDevicesLost());
    EXPECT_OK(softStreamDestroy(busy));
    EXPECT_OK(softStreamDestroy(last));
}

static void a_long_step_is_left_in_peace(void **state)
{
    (void)state;
    play(work_on, &(struct scene){.settings.collective_limit_s = 2});
}

static void take_time_for_a_block(const void *arguments, unsigned block, unsigned blocks)
{
    (void)arguments;
    (void)block;
    (void)blocks;
    clock_sleep(0.1);
}

/* One launch that takes two and a half times the limit: its blocks are done one by one. */
static void work_on_one_launch(void)
{
    softStream_t stream = new_stream(1);
    void *some = new_memory(1, 4);
    EXPECT_OK(softSetDevice(1));
    EXPECT_OK(launch_on(stream, take_time_for_a_block, some, 4, 25));
    EXPECT_OK(softStreamSynchronize(stream));
    EXPECT(!softDevicesLost());
    EXPECT_OK(softFree(some));
    EXPECT_OK(softStreamDestroy(stream));
}

static void a_long_launch_is_left_in_peace(void **state)
{
    (void)state;
    play(work_on_one_launch, &(struct scene){.settings.collective_limit_s = 1});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_wait_ends),
        cmocka_unit_test(a_long_step_is_left_in_peace),
        cmocka_unit_test(a_long_launch_is_left_in_peace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
