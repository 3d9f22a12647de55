/* SPDX-License-Identifier: MIT
 *
 * The parts of a machine and of a process, each against times worked out on paper: the launch lock over threads, jobs,
 * copy engines, ports, the host's links, collectives through the host and over several nodes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "paper.h"
#include "play_state.h"

static int set_up(void **state)
{
    (void)state;
    return paper_set_up(3);
}

/* The makespan, in ns; the result is left for a look. */
static int64_t play_ns(const struct program *program)
{
    play_close(&result);
    play_one(program);
    assert_int_equal(result.makespan_ps % NS, 0);
    return result.makespan_ps / NS;
}

/* ---- host ----------------------------------------------------------------------------------------------------------
 */

/* Two threads, two kernels each of 50 ns; a launch takes 10, and 90 inside the lock. In turn:
 *   thread 0: 0 .. 100, 200 .. 300 (comes at 100, thread 1 is in); its kernels 100 .. 150, 300 .. 350
 *   thread 1: 100 .. 200, 300 .. 400; its kernels 200 .. 250, 400 .. 450
 * Without the lock both launch at the same time: 10 .. 60, 60 .. 110. */
static void the_launch_lock_goes_round(void **state)
{
    struct program program;
    (void)state;
    graph_open(&program, 2, 2, (int[]){0, 1});
    for (int i = 0; i < 4; i++) {
        graph_thread(&program, i % 2);
        graph_kernel(&program, i % 2, 50);
    }
    assert_int_equal(play_ns(&program), 110);
    assert_int_equal(result.lock_busy_ps, 0);
    assert_int_equal(result.host_busy_ps, 20 * NS);
    options.launch_lock_s = 90e-9;
    options.spans = true;
    assert_int_equal(play_ns(&program), 450);
    assert_int_equal(result.lock_busy_ps, 400 * NS);
    int64_t shown = 0; /* on the timeline a launch begins when its thread has the lock */
    for (size_t i = 0; i < result.span_count; i++)
        shown += result.spans[i].device < 0 ? result.spans[i].end_ps - result.spans[i].start_ps : 0;
    assert_int_equal(shown, 400 * NS);
    assert_int_equal(result.host_busy_ps, 200 * NS);
    assert_int_equal(result.device[0].engine.busy_ps, 100 * NS);
    play_close(&result);
    graph_close(&program);
}

/* The host's own 300 ns come before its launch (10) only if the machine counts them, and times `own_work`; the launch
 * lock is not held meanwhile. A second thread works for 100 ns and launches nothing. */
static void the_hosts_own_work_counts_times_own_work(void **state)
{
    static const double factors[] = {0, 0.5, 1, 2};
    struct program program;
    (void)state;
    graph_open(&program, 1, 1, (int[]){0});
    graph_work(&program, 300);
    graph_kernel(&program, 0, 50);
    graph_thread(&program, 1);
    graph_work(&program, 100);
    for (int i = 0; i < 4; i++) {
        machine.own_work = factors[i];
        options.launch_lock_s = 90e-9;
        assert_int_equal(play_ns(&program), (int64_t)(factors[i] * 300) + 100 + 50);
        assert_int_equal(result.host_work_ps, (int64_t)(factors[i] * 300) * NS);
        assert_int_equal(result.host_busy_ps, result.host_work_ps + 100 * NS);
        assert_int_equal(result.lock_busy_ps, 100 * NS);
    }
    play_close(&result);
    graph_close(&program);
}

/* Each process has a lock of its own: two ranks of one thread are not in each other's way. */
static void each_process_has_its_lock(void **state)
{
    struct program program;
    (void)state;
    graph_open(&program, 1, 1, (int[]){0});
    graph_kernel(&program, 0, 50);
    graph_kernel(&program, 0, 50);
    options.launch_lock_s = 90e-9;
    options.replicate = 2;
    assert_int_equal(play_ns(&program), 250);
    assert_int_equal(result.lock_busy_ps, 200 * NS);
    play_close(&result);
    graph_close(&program);
}

/* Main launches (10), gives the job; its threads launch (20; the second one again: 30); main goes on behind the later
 * one and launches (40).
 *   device 0: main's kernel 10 .. 110, the thread's 110 .. 210, main's second 210 .. 310
 *   device 1: 20 .. 120 .. 220 */
static void jobs_begin_when_given_and_end_when_joined(void **state)
{
    struct program program;
    (void)state;
    graph_open(&program, 2, 2, (int[]){0, 1});
    graph_kernel(&program, 0, 100);
    graph_job(&program, OP_GIVE);
    for (int thread = 1; thread <= 2; thread++) {
        graph_thread(&program, thread);
        graph_job(&program, OP_BEGIN);
        for (int i = 0; i < thread; i++)
            graph_kernel(&program, thread - 1, 100);
        graph_job(&program, OP_END);
    }
    graph_thread(&program, 0);
    graph_job(&program, OP_JOIN);
    graph_kernel(&program, 0, 100);
    assert_int_equal(play_ns(&program), 310);
    assert_int_equal(result.device[1].engine.busy_ps, 200 * NS);
    machine.launch_s = 100e-9; /* the threads launch at 200 and 300, main at 400: 400 .. 500 */
    assert_int_equal(play_ns(&program), 500);
    play_close(&result);
    graph_close(&program);
}

/* A task starts no sooner than 50 ns after its launch's end; a wait for a stream or for an event costs 30, also where
 * it is over.
 *   kernels of 100 and 7, launched at 10 and 20: 60 .. 160, 160 .. 167; of 5 and 7: 60 .. 65, 70 .. 77
 *   the host waits for the event (77) until 107, for the stream, which has ended, until 137; its launch ends at 147:
 *   197 .. 247 */
static void starting_and_waiting_cost_time(void **state)
{
    struct program program;
    (void)state;
    machine.start_s = 50e-9;
    machine.sync_s = 30e-9;
    for (int first = 100; first >= 5; first -= 95) {
        graph_open(&program, 1, 1, (int[]){0});
        graph_kernel(&program, 0, first);
        graph_kernel(&program, 0, 7);
        assert_int_equal(play_ns(&program), first == 100 ? 167 : 77);
        if (first == 100)
            graph_close(&program);
    }
    uint32_t done = graph_event(&program, 0, MARK_NONE);
    graph_sync_event(&program, done);
    graph_sync(&program, 0);
    graph_kernel(&program, 0, 50);
    assert_int_equal(play_ns(&program), 247);
    assert_int_equal(result.host_busy_ps, (3 * 10 + 2 * 30) * NS);
    play_close(&result);
    graph_close(&program);
}

/* At one time the stream with the smaller number is first. Stream 1: a kernel 10 .. 110, an event, a kernel of 50, a
 * copy of 1000; stream 0 waits for the event and has a kernel of 300. Both ask for the engine at 110: stream 0's
 * 110 .. 410, stream 1's .. 460, the copy .. 1560. (The other way round the copy would end at 1260.) */
static void at_one_time_the_smaller_number_is_first(void **state)
{
    struct program program;
    (void)state;
    graph_open(&program, 2, 2, (int[]){0, 0});
    graph_kernel(&program, 1, 100);
    graph_wait(&program, 0, graph_event(&program, 1, MARK_NONE));
    graph_kernel(&program, 0, 300);
    graph_kernel(&program, 1, 50);
    graph_copy(&program, 1, 0, 1, 1000);
    assert_int_equal(play_ns(&program), 1560);
    play_close(&result);
    graph_close(&program);
}

/* Host threads come behind streams. Stream 1: a kernel 10 .. 30, one of 300, enqueued at 20; at 30 the thread enqueues
 * stream 0's kernel of 50, with a copy of 1000 behind it. Stream 1 goes on at 30: .. 330, .. 380, the copy .. 1480. */
static void at_one_time_streams_are_before_threads(void **state)
{
    struct program program;
    (void)state;
    graph_open(&program, 2, 2, (int[]){0, 0});
    graph_kernel(&program, 1, 20);
    graph_kernel(&program, 1, 300);
    graph_kernel(&program, 0, 50);
    graph_copy(&program, 0, 0, 1, 1000);
    assert_int_equal(play_ns(&program), 1480);
    play_close(&result);
    graph_close(&program);
}

/* A kernel (device 0) and two products (devices 1 and 2), all of 600 ns, launched at 10, 20 and 30. Kernels take twice
 * and three times as long beside one and two other devices, products 1.5 and four times.
 *   10 .. 20 the kernel alone: 10 done
 *   20 .. 30 two compute: 5 of the kernel, 6 + 2/3 of the first product
 *   then three: 1/3 of a ns of the kernel in each, 1/4 of the products'. The kernel has 585 left: until 1785; the
 *   products have 154 + 7/12 and 161 + 1/4 left then, and compute at two devices' pace: the first one until 2016.875,
 *   the second, then alone with 161.25 - 231.875 / 1.5 = 6 + 2/3 left, until 2023.542 */
static void the_crowd_counts_devices_and_kinds(void **state)
{
    struct program program;
    const struct program *one = &program;
    (void)state;
    machine.crowd_memory = (struct curve){2, {2, 3}, {2, 3}};
    machine.crowd_products = (struct curve){2, {2, 3}, {1.5, 4}};
    graph_open(&program, 3, 3, (int[]){0, 1, 2});
    for (int stream = 0; stream < 3; stream++)
        graph_kernel(&program, stream, 600);
    for (int stream = 1; stream < 3; stream++)
        program.streams[stream].tasks[0].kind = TASK_PRODUCT;
    assert_int_equal(play(&result, &one, 1, &machine, &options), 0);
    assert_in_range(result.device[0].engine.busy_ps, 1775 * NS - 3, 1775 * NS + 3);
    assert_in_range(result.device[1].engine.busy_ps, 1996875 - 3, 1996875 + 3);
    assert_in_range(result.makespan_ps, 2023542 - 3, 2023542 + 3);
    play_close(&result);
    graph_close(&program);
}

/* ---- copies --------------------------------------------------------------------------------------------------------
 */

/* Copies of 400 bytes: 500 ns each. */
static int64_t copies_ns(const int (*from_to)[2], int count)
{
    struct program program;
    int devices[8];
    for (int i = 0; i < count; i++)
        devices[i] = from_to[i][0] == HOST_SIDE ? from_to[i][1] : from_to[i][0];
    graph_open(&program, 3, count, devices);
    for (int i = 0; i < count; i++)
        graph_copy(&program, i, from_to[i][0], from_to[i][1], 400);
    int64_t ns = play_ns(&program);
    graph_close(&program);
    return ns;
}

static void a_copy_engine_does_one_at_a_time(void **state)
{
    static const int out[][2] = {{0, 1}, {0, 2}, {0, 1}};
    (void)state;
    assert_int_equal(copies_ns(out, 2), 500);  /* two engines, two links */
    assert_int_equal(copies_ns(out, 3), 1000); /* the third one's link and both engines are taken */
    machine.copy_engines = 3;
    assert_int_equal(copies_ns(out, 3), 1000); /* its link still is */
    machine.copy_engines = 1;
    assert_int_equal(copies_ns(out, 2), 1000);
    assert_int_equal(copies_ns(out, 3), 1500);
    play_close(&result);
}

static void a_port_does_one_at_a_time(void **state)
{
    static const int in[][2] = {{0, 1}, {2, 1}}, out[][2] = {{0, 1}, {0, 2}}, across[][2] = {{0, 1}, {1, 0}};
    (void)state;
    assert_int_equal(copies_ns(in, 2), 500);
    machine.ports = true;
    assert_int_equal(copies_ns(in, 2), 1000);
    assert_int_equal(copies_ns(out, 2), 1000);
    assert_int_equal(copies_ns(across, 2), 500); /* one port each way */
    play_close(&result);
}

static void the_hosts_links_may_be_shared(void **state)
{
    static const int up[][2] = {{0, HOST_SIDE}, {1, HOST_SIDE}}, down[][2] = {{HOST_SIDE, 0}, {HOST_SIDE, 1}};
    static const int same[][2] = {{0, HOST_SIDE}, {0, HOST_SIDE}}, both[][2] = {{0, HOST_SIDE}, {HOST_SIDE, 1}};
    (void)state;
    assert_int_equal(copies_ns(up, 2), 500);
    assert_int_equal(copies_ns(down, 2), 500);
    assert_int_equal(copies_ns(same, 2), 1000);
    machine.host_shared = true;
    assert_int_equal(copies_ns(up, 2), 1000);
    assert_int_equal(copies_ns(down, 2), 1000);
    assert_int_equal(copies_ns(both, 2), 500); /* one path each way */
    play_close(&result);
}

/* Without peer access a copy takes both host links, both latencies, and the slower one's rate: 200 + 400 at 0.5. */
static void a_copy_through_the_host_takes_both_links(void **state)
{
    static const int one[][2] = {{0, 1}}, with_up[][2] = {{0, 1}, {0, HOST_SIDE}},
                     with_down[][2] = {{0, 1}, {HOST_SIDE, 1}};
    static const int across[][2] = {{0, 1}, {1, 0}};
    (void)state;
    options.what_if.no_p2p = true;
    machine.host_down.bytes_per_s = 0.5e9;
    assert_int_equal(copies_ns(one, 1), 1000);
    assert_int_equal(copies_ns(with_up, 2), 1500);   /* up: 100 + 400 more */
    assert_int_equal(copies_ns(with_down, 2), 1900); /* down: 100 + 800 more */
    assert_int_equal(copies_ns(across, 2), 1000);    /* up of one and down of the other, each way */
    assert_true(result.pair_bytes[0 * 4 + 1] == 400 && result.pair_bytes[1 * 4 + 0] == 400);
    play_close(&result);
}

/* ---- collectives ---------------------------------------------------------------------------------------------------
 */

/* An all-reduce of 1100 bytes on so many ranks of a device each. */
static int64_t all_reduce_ns(int ranks)
{
    struct program program;
    graph_open(&program, 1, 1, (int[]){0});
    graph_all_reduce(&program, 0, 0, ranks, 0, 1100);
    options.replicate = ranks;
    int64_t ns = play_ns(&program);
    graph_close(&program);
    return ns;
}

/* The table says 2 us: 1 us as for the smallest message, 1 us for the bytes. Through the host 1100 bytes take at least
 * 1.1 us at the host links' 1 byte a ns; a table measured through the host says it itself. */
static void a_collective_through_the_host(void **state)
{
    (void)state;
    assert_int_equal(all_reduce_ns(2), 2000);
    options.what_if.no_p2p = true;
    assert_int_equal(all_reduce_ns(2), 2100);
    machine.host_up.bytes_per_s = 0.25e9;
    assert_int_equal(all_reduce_ns(2), 1000 + 4400);
    machine.tables[machine.table_count++] = (struct collective_table){
        .operation = ALL_REDUCE, .ranks = 2, .host = true, .seconds = {2, {100, 1100}, {3e-6, 5e-6}}};
    assert_int_equal(all_reduce_ns(2), 5000);
    options.what_if.no_p2p = false;
    assert_int_equal(all_reduce_ns(2), 2000);
    play_close(&result);
}

/* Nodes of two devices. Inside: 1 us + 1 us. Between: each device's share, 550 bytes, 2 (n-1)/n times over n nodes at
 * 0.25 bytes a ns, and 2 ceil(log2 n) hops of 0.3 us. The slower transfer counts, latencies add:
 *   2 nodes: 1 + 2 x 0.3 + max(1, 550 x 1 x 4 = 2200) = 3.8 us
 *   4 nodes: 1 + 4 x 0.3 + max(1, 550 x 1.5 x 4 = 3300) = 5.5 us */
static void a_collective_over_several_nodes(void **state)
{
    (void)state;
    machine.devices = 2;
    machine.nodes = 4;
    machine.network_bytes_per_s = 0.25e9;
    machine.network_latency_s = 300e-9;
    assert_int_equal(all_reduce_ns(2), 2000);
    assert_int_equal(all_reduce_ns(4), 3800);
    for (int d = 0; d < 4; d++)
        assert_true(result.device[d].sent == 1650 && result.device[d].received == 1650); /* 2 x 3/4 of 1100 */
    assert_int_equal(all_reduce_ns(8), 5500);
    options.what_if.bandwidth = 2;
    options.what_if.latency = 2;
    assert_int_equal(all_reduce_ns(4), 2 * 1600 + 1100);
    options.what_if.bandwidth = options.what_if.latency = 1;
    machine.network_bytes_per_s = 1e9; /* 550 ns: inside is slower */
    assert_int_equal(all_reduce_ns(4), 2600);
    play_close(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_launch_lock_goes_round, set_up),
        cmocka_unit_test_setup(the_hosts_own_work_counts_times_own_work, set_up),
        cmocka_unit_test_setup(each_process_has_its_lock, set_up),
        cmocka_unit_test_setup(jobs_begin_when_given_and_end_when_joined, set_up),
        cmocka_unit_test_setup(starting_and_waiting_cost_time, set_up),
        cmocka_unit_test_setup(at_one_time_the_smaller_number_is_first, set_up),
        cmocka_unit_test_setup(at_one_time_streams_are_before_threads, set_up),
        cmocka_unit_test_setup(the_crowd_counts_devices_and_kinds, set_up),
        cmocka_unit_test_setup(a_copy_engine_does_one_at_a_time, set_up),
        cmocka_unit_test_setup(a_port_does_one_at_a_time, set_up),
        cmocka_unit_test_setup(the_hosts_links_may_be_shared, set_up),
        cmocka_unit_test_setup(a_copy_through_the_host_takes_both_links, set_up),
        cmocka_unit_test_setup(a_collective_through_the_host, set_up),
        cmocka_unit_test_setup(a_collective_over_several_nodes, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
