/* SPDX-License-Identifier: MIT
 *
 * What is said of a replay: which step, which device, which bottleneck.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "summary.h"

#define MS INT64_C(1000000000) /* in picoseconds */

enum { DEVICES = 2, MOST_STEPS = 4 };

/* A result of two devices, all of one step, to be changed. */
static struct {
    struct play_result result;
    int64_t step_ps[MOST_STEPS], rank_step_ps[MOST_STEPS * DEVICES], rank_begin_ps[MOST_STEPS * DEVICES];
    struct play_step marks[MOST_STEPS * DEVICES];
    struct play_device device[DEVICES];
} made;

static int set_up(void **state)
{
    (void)state;
    memset(&made, 0, sizeof(made));
    made.result = (struct play_result){.makespan_ps = 100 * MS,
                                       .instances = 1,
                                       .devices = DEVICES,
                                       .steps = 1,
                                       .step_ps = made.step_ps,
                                       .rank_step_ps = made.rank_step_ps,
                                       .rank_begin_ps = made.rank_begin_ps,
                                       .marks = made.marks,
                                       .device = made.device};
    made.step_ps[0] = made.rank_step_ps[0] = 100 * MS;
    return 0;
}

static void the_step_is_the_lower_median(void **state)
{
    static const int64_t steps_ms[] = {40, 10, 30, 20};
    struct summary summary;
    (void)state;
    for (int i = 0; i < 4; i++)
        made.step_ps[i] = steps_ms[i] * MS;
    made.result.steps = 4;
    summarize(&summary, &made.result);
    assert_true(summary.step_ms == 20 && summary.steps == 4);
    made.result.steps = 3;
    summarize(&summary, &made.result);
    assert_true(summary.step_ms == 30);
    made.result.steps = 2;
    summarize(&summary, &made.result);
    assert_true(summary.step_ms == 10);
}

static void mark(int device, int64_t first_ms, int64_t last_ms)
{
    made.marks[device] = (struct play_step){.first_ps = first_ms * MS, .last_ps = last_ms * MS, .marked = true};
    made.marks[device].phase_ps[PLAY_GATHER] = (last_ms - first_ms) * MS;
}

/* Of one process the device whose last mark is the last (of equal ones the first); of several only devices of the rank
 * that took longest. Host is what lies outside the marks. */
static void the_slowest_device_is_the_one_waited_for(void **state)
{
    struct summary summary;
    (void)state;
    summarize(&summary, &made.result);
    assert_int_equal(summary.slowest_device, NOBODY_SLOWEST);
    mark(0, 10, 60);
    mark(1, 20, 90);
    summarize(&summary, &made.result);
    assert_int_equal(summary.slowest_device, 1);
    assert_true(summary.phase_ms[PLAY_GATHER] == 70 && summary.phase_ms[PLAY_HOST] == 30);
    assert_true(summary.exposed_ms == 70);
    mark(1, 20, 60);
    summarize(&summary, &made.result);
    assert_int_equal(summary.slowest_device, 0);
    mark(1, 20, 90);
    made.result.instances = 2;
    made.device[1].instance = 1;
    made.rank_step_ps[1] = 95 * MS;
    summarize(&summary, &made.result);
    assert_int_equal(summary.slowest_device, 0);
}

/* Shares of the makespan: 20 and 60 of 100 ms. Links between devices by bytes a step, the host's (number 2) apart. */
static void devices_and_links_by_their_use(void **state)
{
    struct summary summary;
    double pair_bytes[3 * 3] = {[0 * 3 + 1] = 3 << 20, [1 * 3 + 0] = 6 << 20, [2 * 3 + 0] = 9 << 20};
    (void)state;
    made.result.pair_bytes = pair_bytes;
    made.device[0] = (struct play_device){.engine = {.busy_ps = 20 * MS}, .sent = 3 << 20};
    made.device[1] = (struct play_device){.engine = {.busy_ps = 60 * MS}, .sent = 6 << 20};
    made.result.steps = 2;
    summarize(&summary, &made.result);
    assert_true(summary.util_mean > 0.399999 && summary.util_mean < 0.400001);
    assert_true(summary.util_device0 == 0.2 && summary.util_most == 0.6 && summary.busiest_device == 1);
    assert_true(summary.busiest_from == 1 && summary.busiest_to == 0 && summary.busiest_link_mib == 3);
    assert_true(summary.comm_mib == 4.5);
    made.result.pair_bytes = NULL; /* too many devices: what each sent */
    summarize(&summary, &made.result);
    assert_true(summary.busiest_from == -1 && summary.busiest_link_mib == 3);
}

static void check_bottleneck(const char *expected)
{
    struct summary summary;
    summarize(&summary, &made.result);
    assert_string_equal(summary.bottleneck, expected);
}

/* The largest share of the time; the lock before the thread that holds it. */
static void the_bottleneck_is_what_takes_longest(void **state)
{
    (void)state;
    made.device[1].engine.busy_ps = 40 * MS;
    check_bottleneck("computing on device 1 (40 % of the time)");
    mark(0, 0, 50);
    check_bottleneck("moving bytes, with device 0's computing waiting (50 % of the time)");
    made.result.host_busy_ps = 60 * MS;
    check_bottleneck("a host thread: launches and its own work (60 % of the time)");
    made.result.lock_busy_ps = 60 * MS;
    check_bottleneck("the emulated launch lock (60 % of the time)");
    made.device[0].engine.busy_ps = 70 * MS;
    check_bottleneck("computing on device 0 (70 % of the time)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_step_is_the_lower_median, set_up),
        cmocka_unit_test_setup(the_slowest_device_is_the_one_waited_for, set_up),
        cmocka_unit_test_setup(devices_and_links_by_their_use, set_up),
        cmocka_unit_test_setup(the_bottleneck_is_what_takes_longest, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
