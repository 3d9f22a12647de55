/* SPDX-License-Identifier: MIT
 *
 * What holds for every replay, tried on random programs of three threads, two devices, copies of every kind, events and
 * all-reduces, on machines of every kind: conservation of time, of work and of bytes, the same answer twice; and, where
 * nothing is shared, that what costs more never makes anything earlier.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph.h"
#include "play_state.h"
#include "sys/random.h"

enum { SEEDS = 300, TASKS = 200, THREADS = 3, STREAMS = 4, MOST_ALL_REDUCES = 30 };

static struct machine machine;
static struct play_options options;
static struct play_result result;

static uint32_t draw(uint64_t seed, uint64_t i)
{
    return random_u32(seed, 4, i);
}

/* On one of each device's streams. */
static void add_all_reduce(struct program *program, uint32_t value, uint64_t sequence)
{
    for (int rank = 0; rank < 2; rank++) {
        int stream = 2 * rank + (int)(value >> rank & 1);
        graph_thread(program, stream % THREADS);
        graph_all_reduce(program, stream, rank, 2, sequence, 8 * (value % 500));
    }
}

/* Devices 0, 0, 1, 1 by stream, threads 0, 1, 2, 0. An event is recorded before it is waited for, and both ranks of an
 * all-reduce are enqueued behind each other: no program waits for itself. */
static void random_program(struct program *program, uint64_t seed)
{
    uint32_t events[TASKS];
    int count = 0, all_reduces = 0;
    graph_open(program, 2, STREAMS, (int[]){0, 0, 1, 1});
    for (uint64_t i = 0; i < TASKS; i++) {
        uint32_t kind = draw(seed, 3 * i) % 10, value = draw(seed, 3 * i + 1), where = draw(seed, 3 * i + 2);
        int stream = (int)(where % STREAMS), device = stream / 2;
        graph_thread(program, stream % THREADS);
        if (kind == 0)
            events[count++] = graph_event(program, stream, MARK_NONE);
        else if (kind == 1 && count)
            graph_wait(program, stream, events[value % (uint32_t)count]);
        else if (kind == 2 || kind == 3)
            graph_copy(program, stream, device, 1 - device, value % 1000);
        else if (kind == 4)
            graph_copy(program, stream, device, HOST_SIDE, value % 1000);
        else if (kind == 5)
            graph_copy(program, stream, HOST_SIDE, device, value % 1000);
        else if (kind == 6 && all_reduces < MOST_ALL_REDUCES)
            add_all_reduce(program, value, (uint64_t)all_reduces++);
        else
            graph_kernel(program, stream, value % 1000);
    }
}

static void random_machine(uint64_t seed)
{
    uint32_t bits = draw(seed, 1000000);
    graph_machine(&machine, 2);
    play_options_init(&options);
    machine.ports = bits & 1;
    machine.host_shared = bits >> 1 & 1;
    machine.copy_engines = 1 + (int)(bits >> 2 & 3);
    machine.slowdown = (struct curve){bits >> 4 & 1, {2}, {1.5}};
    machine.copy_call_s = (bits >> 5 & 7) * 1e-9;
    machine.event_s = (bits >> 8 & 7) * 1e-9;
    options.what_if.no_p2p = bits >> 11 & 1;
    options.launch_lock_s = (bits >> 12 & 3) * 50e-9;
}

/* The sum over all tasks of what the test asks for. */
struct totals {
    double between, up, down, reduced; /* bytes */
    int64_t work_ps[2];                /* of kernels, by device */
    int64_t calls_ps;                  /* of all host threads */
    int launches;
};

static double call_seconds(int kind)
{
    if (kind == TASK_EVENT || kind == TASK_EVENT_WAIT)
        return machine.event_s;
    if (kind == TASK_COLLECTIVE)
        return machine.collective_call_s;
    return kind == TASK_COPY ? machine.copy_call_s : machine.launch_s;
}

static struct totals add_up(const struct program *program)
{
    struct totals totals = {0};
    for (int s = 0; s < program->stream_count; s++)
        for (uint32_t i = 0; i < program->streams[s].count; i++) {
            const struct task *task = &program->streams[s].tasks[i];
            totals.launches++;
            totals.calls_ps += (int64_t)(1e12 * call_seconds(task->kind) + 0.5);
            if (task->kind == TASK_KERNEL)
                totals.work_ps[program->streams[s].device] += (int64_t)task->bytes * NS;
            if (task->kind == TASK_COPY)
                *(task->to == HOST_SIDE     ? &totals.up
                  : task->from == HOST_SIDE ? &totals.down
                                            : &totals.between) += task->bytes;
            if (task->kind == TASK_COLLECTIVE)
                totals.reduced += program->collectives[task->number].bytes; /* 2 (n-1)/n = 1 of it leaves each rank */
        }
    return totals;
}

static void check_time(const struct totals *totals)
{
    for (int d = 0; d < result.devices; d++) {
        const struct play_device *device = &result.device[d];
        assert_int_equal(device->engine.busy_ps + device->engine.idle_ps, result.makespan_ps);
        assert_true(device->collective_ps <= result.makespan_ps);
        if (machine.slowdown.count == 0)
            assert_int_equal(device->engine.busy_ps, totals->work_ps[d]);
        else
            assert_true(device->engine.busy_ps >= totals->work_ps[d] - TASKS &&
                        2 * device->engine.busy_ps <= 3 * totals->work_ps[d] + TASKS);
    }
    for (size_t i = 0; i < result.link_count; i++)
        assert_int_equal(result.link[i].busy_ps + result.link[i].idle_ps, result.makespan_ps);
}

static void check_bytes(const struct totals *totals)
{
    const double *pair = result.pair_bytes;
    assert_true(result.device[0].sent + result.device[1].sent == totals->between + totals->reduced);
    assert_true(result.device[0].received + result.device[1].received == totals->between + totals->reduced);
    assert_true(pair[0 * 3 + 1] + pair[1 * 3 + 0] == totals->between + totals->reduced);
    assert_true(pair[0 * 3 + 2] + pair[1 * 3 + 2] == totals->up);
    assert_true(pair[2 * 3 + 0] + pair[2 * 3 + 1] == totals->down);
}

/* A lock is held for each call's time and its own; threads do nothing else here. */
static void check_host(const struct totals *totals)
{
    int64_t lock_ps = (int64_t)(options.launch_lock_s * 1e12 + 0.5);
    int64_t all_ps = totals->calls_ps + totals->launches * lock_ps;
    assert_int_equal(result.lock_busy_ps, lock_ps ? all_ps : 0);
    assert_true(result.lock_busy_ps <= result.makespan_ps);
    assert_true(result.host_busy_ps <= result.makespan_ps);
    assert_true(THREADS * result.host_busy_ps >= all_ps && result.host_busy_ps <= all_ps);
}

static void time_work_and_bytes_are_conserved(void **state)
{
    int locked = 0, all_reduced = 0;
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct program program;
        const struct program *one = &program;
        random_machine(seed);
        random_program(&program, seed);
        struct totals totals = add_up(&program);
        int64_t makespans[2] = {0};
        for (int again = 0; again < 2; again++) {
            assert_int_equal(play(&result, &one, 1, &machine, &options), 0);
            check_time(&totals);
            check_bytes(&totals);
            check_host(&totals);
            makespans[again] = result.makespan_ps;
            locked += result.lock_busy_ps > 0;
            all_reduced += result.collective_ps > 0;
            play_close(&result);
        }
        assert_int_equal(makespans[0], makespans[1]);
        graph_close(&program);
    }
    assert_true(locked > SEEDS / 2 && all_reduced > SEEDS); /* the laws were tried on them */
}

/* ---- the queue -----------------------------------------------------------------------------------------------------
 */

/* Actors put in, moved to earlier and later times and taken out at random: always the earliest one is next, at one time
 * the smallest number. */
static void the_queue_gives_the_earliest(void **state)
{
    enum { ACTORS = 40 };
    struct play_queue queue;
    int64_t at[ACTORS];
    (void)state;
    assert_int_equal(play_queue_open(&queue, ACTORS), 0);
    for (int i = 0; i < ACTORS; i++)
        at[i] = INT64_MAX;
    for (uint64_t i = 0; i < 20000; i++) {
        int actor = (int)(draw(7, 2 * i) % ACTORS), next = NOBODY;
        if (draw(7, 2 * i + 1) % 4) {
            at[actor] = draw(7, 2 * i + 1) % 50;
            play_queue_set(&queue, actor, at[actor]);
            continue;
        }
        for (int k = ACTORS - 1; k >= 0; k--)
            next = at[k] != INT64_MAX && (next == NOBODY || at[k] <= at[next]) ? k : next;
        assert_int_equal(play_queue_take(&queue), next);
        if (next != NOBODY)
            at[next] = INT64_MAX;
    }
    play_queue_close(&queue);
}

/* ---- monotony ------------------------------------------------------------------------------------------------------
 */

/* One thread, one stream a device, a link each way that only that stream uses: no queue can change its order. */
static void unshared_program(struct program *program, uint64_t seed)
{
    graph_open(program, 2, 2, (int[]){0, 1});
    for (uint64_t i = 0; i < 60; i++) {
        uint32_t value = draw(seed, i);
        int stream = (int)(value >> 8 & 1);
        if (value % 3 == 0) {
            graph_copy(program, stream, stream, 1 - stream, value >> 23);
            graph_wait(program, 1 - stream, graph_event(program, stream, MARK_NONE));
        } else if (value % 3 == 1 && program->collective_count < 60) {
            uint64_t sequence = program->collective_count;
            for (int rank = 0; rank < 2; rank++)
                graph_all_reduce(program, rank, rank, 2, sequence, value >> 23);
        } else {
            graph_kernel(program, stream, value >> 23);
        }
    }
}

enum { BANDWIDTH, LATENCY, COMPUTE, LOCK, LAUNCH, KERNEL, SLOWDOWN, KNOBS };

/* Step 0 is the cheapest; each further one costs more. */
static void turn(int knob, int step)
{
    graph_machine(&machine, 2);
    play_options_init(&options);
    if (knob == BANDWIDTH)
        options.what_if.bandwidth = 8.0 / (1 << step);
    if (knob == LATENCY)
        options.what_if.latency = step * 0.7;
    if (knob == COMPUTE)
        options.what_if.compute = 8.0 / (1 << step);
    if (knob == LOCK)
        options.launch_lock_s = step * 33e-9;
    if (knob == LAUNCH)
        machine.launch_s = step * 33e-9;
    if (knob == KERNEL)
        machine.kernel_s = step * 33e-9;
    if (knob == SLOWDOWN)
        machine.slowdown = (struct curve){1, {2}, {1 + 0.25 * step}};
}

static void what_costs_more_is_never_earlier(void **state)
{
    (void)state;
    for (int knob = 0; knob < KNOBS; knob++) {
        int later = 0;
        for (uint64_t seed = 0; seed < 100; seed++) {
            struct program program;
            const struct program *one = &program;
            int64_t before = 0;
            unshared_program(&program, seed);
            for (int step = 0; step < 6; step++) {
                turn(knob, step);
                assert_int_equal(play(&result, &one, 1, &machine, &options), 0);
                if (result.makespan_ps < before)
                    fail_msg("knob %d, seed %d, step %d: earlier", knob, (int)seed, step);
                later += step > 0 && result.makespan_ps > before;
                before = result.makespan_ps;
                play_close(&result);
            }
            graph_close(&program);
        }
        /* It matters at all; but slowdown is of kernels beside collectives, and here a device has one stream. */
        assert_in_range(later, knob == SLOWDOWN ? 0 : 100, knob == SLOWDOWN ? 0 : 500);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_work_and_bytes_are_conserved),
        cmocka_unit_test(the_queue_gives_the_earliest),
        cmocka_unit_test(what_costs_more_is_never_earlier),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
