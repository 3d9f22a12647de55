/* SPDX-License-Identifier: MIT
 *
 * The replay against times worked out on paper, and what must hold for every replay: conservation, monotony, the same
 * answer twice.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "paper.h"
#include "play_state.h"
#include "sys/random.h"

static int set_up(void **state)
{
    (void)state;
    return paper_set_up(2);
}

/* Two devices, three kernels, one link:
 *   0: kernel of 500 ns from 10 (its launch) to 510; event; copy of 200 bytes to device 1 from 510 to 810 (100 + 200)
 *   1: kernel of 300 ns, launched at 40, to 340; waits for the copy's event: 810; kernel of 50 ns to 860 */
static void three_kernels_and_a_link(void **state)
{
    struct program program;
    (void)state;
    graph_open(&program, 2, 2, (int[]){0, 1});
    graph_step(&program, true);
    graph_kernel(&program, 0, 500);      /* enqueued at 10 */
    graph_event(&program, 0, MARK_NONE); /* 10: events cost the host nothing */
    graph_copy(&program, 0, 0, 1, 200);  /* 10 */
    uint32_t copied = graph_event(&program, 0, MARK_NONE);
    graph_kernel(&program, 1, 300); /* 20 */
    graph_wait(&program, 1, copied);
    graph_kernel(&program, 1, 50); /* 30 */
    graph_sync(&program, 1);
    graph_step(&program, false);
    play_one(&program);
    assert_int_equal(result.makespan_ps, 860 * NS);
    assert_int_equal(result.step_ps[0], 860 * NS);
    assert_int_equal(result.device[0].engine.busy_ps, 500 * NS);
    assert_int_equal(result.device[1].engine.busy_ps, 350 * NS);
    assert_true(result.device[0].sent == 200 && result.device[1].received == 200);
    assert_true(result.pair_bytes[0 * 3 + 1] == 200);
    play_close(&result);
    graph_close(&program);
}

/* Two streams of a device share its engine: the one that is ready first, then the other. */
static void streams_share_the_engine(void **state)
{
    struct program program;
    (void)state;
    graph_open(&program, 1, 2, (int[]){0, 0});
    graph_kernel(&program, 1, 100); /* 10 .. 110 */
    graph_kernel(&program, 0, 100); /* 20, waits, 110 .. 210 */
    graph_kernel(&program, 1, 100); /* 30, behind: 210 .. 310 */
    play_one(&program);
    assert_int_equal(result.makespan_ps, 310 * NS);
    play_close(&result);
    graph_close(&program);
}

/* Both directions of a link are two; copies of one direction follow each other. */
static void a_link_serves_one_at_a_time_each_way(void **state)
{
    struct program program;
    (void)state;
    graph_open(&program, 2, 3, (int[]){0, 0, 1});
    graph_copy(&program, 0, 0, 1, 400); /* 0 .. 500 */
    graph_copy(&program, 1, 0, 1, 400); /* 500 .. 1000 */
    graph_copy(&program, 2, 1, 0, 900); /* 0 .. 1000 */
    play_one(&program);
    assert_int_equal(result.makespan_ps, 1000 * NS);
    play_close(&result);
    options.what_if.no_p2p = true; /* up and down: 100 + 100 + bytes */
    play_one(&program);
    assert_int_equal(result.makespan_ps, 1200 * NS);
    play_close(&result);
    graph_close(&program);
}

/* Kernels take 1.5 times as long while two devices of a node compute. Device 0: 1000 ns from 10; device 2: 300 ns
 * from 20. Both compute from 20 to 470 (300 x 1.5): 10 + 300 of device 0's are done by then, the other 690 end at 1160.
 * Alone on two nodes they end at 1010 and 320. */
static void devices_of_a_node_share_memory(void **state)
{
    struct program program;
    (void)state;
    machine.devices = 4;
    machine.crowd_memory = (struct curve){1, {2}, {1.5}};
    graph_open(&program, 4, 2, (int[]){0, 2});
    graph_kernel(&program, 0, 1000);
    graph_kernel(&program, 1, 300);
    play_one(&program);
    assert_int_equal(result.device[0].engine.busy_ps, 1150 * NS);
    assert_int_equal(result.device[2].engine.busy_ps, 450 * NS);
    assert_int_equal(result.makespan_ps, 1160 * NS);
    play_close(&result);
    machine.devices = 2;
    machine.nodes = 2;
    play_one(&program);
    assert_int_equal(result.makespan_ps, 1010 * NS);
    play_close(&result);
    machine.devices = 4;
    machine.crowd_memory.count = 0;
    machine.crowd_products = (struct curve){1, {2}, {1.5}}; /* the kernels are no products */
    play_one(&program);
    assert_int_equal(result.makespan_ps, 1010 * NS);
    play_close(&result);
    graph_close(&program);
}

/* Two devices of the first node compute; the second node's only one keeps its speed. */
static void nodes_share_no_memory(void **state)
{
    struct program program;
    (void)state;
    machine.devices = 2;
    machine.nodes = 2;
    machine.crowd_memory = (struct curve){1, {2}, {1.5}};
    graph_open(&program, 3, 3, (int[]){0, 1, 2});
    for (int stream = 0; stream < 3; stream++)
        graph_kernel(&program, stream, 1000);
    play_one(&program);
    assert_true(result.device[0].engine.busy_ps > 1400 * NS);
    assert_int_equal(result.device[2].engine.busy_ps, 1000 * NS);
    play_close(&result);
    graph_close(&program);
}

/* With the lock each launch takes 10 + 90 ns, one at a time over the process's threads. */
static void the_launch_lock_holds_launches_apart(void **state)
{
    struct program program;
    (void)state;
    graph_open(&program, 1, 1, (int[]){0});
    for (int i = 0; i < 5; i++)
        graph_kernel(&program, 0, 10);
    options.launch_lock_s = 90e-9;
    play_one(&program);
    assert_int_equal(result.makespan_ps, (5 * 100 + 10) * NS);
    assert_int_equal(result.lock_busy_ps, 500 * NS);
    play_close(&result);
    graph_close(&program);
}

/* ---- laws ----------------------------------------------------------------------------------------------------------
 */

/* A random program of two devices without a cycle: an event is recorded before it is waited for. */
static void random_program(struct program *program, uint64_t seed)
{
    uint32_t events[200];
    int count = 0;
    graph_open(program, 2, 4, (int[]){0, 0, 1, 1});
    for (uint64_t i = 0; i < 150; i++) {
        uint32_t draw = random_u32(seed, 1, 2 * i), value = random_u32(seed, 1, 2 * i + 1);
        int stream = (int)(draw >> 8 & 3), device = program->streams[stream].device;
        switch (draw & 7) {
        case 0:
            events[count++] = graph_event(program, stream, MARK_NONE);
            break;
        case 1:
            if (count)
                graph_wait(program, stream, events[value % (uint32_t)count]);
            break;
        case 2:
        case 3:
            graph_copy(program, stream, device, 1 - device, value % 1000);
            break;
        case 4:
            graph_copy(program, stream, device, HOST_SIDE, value % 1000);
            break;
        default:
            graph_kernel(program, stream, value % 1000);
        }
    }
}

static void random_programs_keep_the_laws(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct program program;
        play_options_init(&options);
        random_program(&program, seed);
        play_one(&program);
        int64_t makespan = result.makespan_ps;
        double sent = result.device[0].sent + result.device[1].sent, copied = 0;
            play_close(&result);
        for (int s = 0; s < program.stream_count; s++)
            for (uint32_t i = 0; i < program.streams[s].count; i++)
                if (program.streams[s].tasks[i].kind == TASK_COPY && program.streams[s].tasks[i].to != HOST_SIDE)
                    copied += program.streams[s].tasks[i].bytes;
        assert_true(sent == copied);
        play_one(&program);
        assert_int_equal(result.makespan_ps, makespan);
        play_close(&result);
        graph_close(&program);
    }
}

/* One stream a device and nothing shared: a faster link can never make it later. (Where streams share an engine or a
 * link, first come, first served has Graham's anomalies: docs/replay.md.) */
static void a_faster_link_is_never_later(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct program program;
        int64_t before = INT64_MAX;
        graph_open(&program, 2, 2, (int[]){0, 1});
        for (uint64_t i = 0; i < 60; i++) {
            uint32_t draw = random_u32(seed, 2, i);
            int stream = (int)(draw >> 8 & 1);
            if (draw & 1) {
                graph_copy(&program, stream, stream, 1 - stream, draw >> 16);
                graph_wait(&program, 1 - stream, graph_event(&program, stream, MARK_NONE));
            } else {
                graph_kernel(&program, stream, draw >> 16);
            }
        }
        for (double factor = 0.25; factor <= 8; factor *= 2) {
            options.what_if.bandwidth = factor;
            play_one(&program);
            assert_true(result.makespan_ps <= before);
            before = result.makespan_ps;
            play_close(&result);
        }
        graph_close(&program);
    }
}

/* A rank is missing: said, not waited for. */
static void a_missing_rank_is_an_error(void **state)
{
    struct program program;
    const struct program *one = &program;
    (void)state;
    graph_open(&program, 1, 1, (int[]){0});
    graph_all_reduce(&program, 0, 0, 2, 0, 1100);
    assert_int_equal(play(&result, &one, 1, &machine, &options), 4);
    play_close(&result);
    graph_close(&program);
}

/* An event that nobody records. */
static void what_never_happens_is_an_error(void **state)
{
    struct program program;
    const struct program *one = &program;
    (void)state;
    graph_open(&program, 1, 1, (int[]){0});
    graph_wait(&program, 0, program.event_count++);
    assert_int_equal(play(&result, &one, 1, &machine, &options), 4);
    play_close(&result);
    graph_close(&program);
}

/* Times of hours end the replay before they overflow: on the engine, on a link, on the host. */
static void times_out_of_range_are_an_error(void **state)
{
    (void)state;
    for (int what = 0; what < 3; what++) {
        struct program program;
        const struct program *one = &program;
        graph_open(&program, 2, 2, (int[]){0, 0});
        options.launch_lock_s = what == 2 ? 1e5 : 0;
        for (int i = 0; i < 300; i++)
            if (what == 0)
                graph_kernel(&program, 0, 1e18);
            else
                graph_copy(&program, i % 2, 0, 1, 1e18);
        assert_int_equal(play(&result, &one, 1, &machine, &options), 4);
        play_close(&result);
        graph_close(&program);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(three_kernels_and_a_link, set_up),
        cmocka_unit_test_setup(streams_share_the_engine, set_up),
        cmocka_unit_test_setup(a_link_serves_one_at_a_time_each_way, set_up),
        cmocka_unit_test_setup(devices_of_a_node_share_memory, set_up),
        cmocka_unit_test_setup(nodes_share_no_memory, set_up),
        cmocka_unit_test_setup(the_launch_lock_holds_launches_apart, set_up),
        cmocka_unit_test_setup(random_programs_keep_the_laws, set_up),
        cmocka_unit_test_setup(a_faster_link_is_never_later, set_up),
        cmocka_unit_test_setup(a_missing_rank_is_an_error, set_up),
        cmocka_unit_test_setup(what_never_happens_is_an_error, set_up),
        cmocka_unit_test_setup(times_out_of_range_are_an_error, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
