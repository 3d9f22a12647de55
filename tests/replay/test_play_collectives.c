/* SPDX-License-Identifier: MIT
 *
 * Collectives beside kernels, against times worked out on paper: who waits for whom, and what the kernels lose.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "paper.h"
#include "sys/log.h"

static int set_up(void **state)
{
    (void)state;
    return paper_set_up(4);
}

/* The all-reduce starts when the last rank is there and takes the table's time: 1100 bytes, 2 us. A kernel beside it is
 * slowed by 2: of 1000 ns from 10, 490 are done when the all-reduce starts at 510 (the kernel of rank 1 before it is of
 * 500 ns), the rest, 500, takes 1000. */
static void collectives_wait_for_all_and_slow_kernels(void **state)
{
    struct program program;
    (void)state;
    machine.slowdown = (struct curve){1, {2}, {2}};
    graph_open(&program, 2, 3, (int[]){0, 0, 1});
    graph_kernel(&program, 0, 1000);              /* 10 */
    graph_all_reduce(&program, 1, 0, 2, 0, 1100); /* 10 */
    graph_kernel(&program, 2, 490);               /* 20 .. 510 */
    graph_all_reduce(&program, 2, 1, 2, 0, 1100); /* 510 .. 2510 */
    graph_kernel(&program, 2, 10);                /* .. 2520 */
    play_one(&program);
    assert_int_equal(result.makespan_ps, 2520 * NS);
    assert_int_equal(result.device[0].engine.busy_ps, (500 + 1000) * NS);
    assert_int_equal(result.device[0].collective_ps, 2000 * NS);
    assert_int_equal(result.collective_ps, 2000 * NS);
    assert_true(result.device[0].sent == 1100); /* 2 (n-1)/n of it, to each other */
    play_close(&result);
    graph_close(&program);
}

/* With 2 ranks kernels lose nothing: 1000 ns from 10. With 4 they take 3 times as long from 20 on, when the all-reduce
 * begins: 2 ranks' 1 us + 1 us, times 1.5 for 2(n-1)/n of the bytes, ends at 2520; 2500 / 3 of the 990 that were left
 * are done by then, the kernel ends at 2676.667. */
static void the_slowdown_is_that_of_the_ranks(void **state)
{
    struct program program;
    (void)state;
    machine.slowdown = (struct curve){2, {2, 4}, {1, 3}};
    graph_open(&program, 1, 2, (int[]){0, 0});
    graph_kernel(&program, 0, 1000);              /* 10 */
    graph_all_reduce(&program, 1, 0, 2, 0, 1100); /* 20 */
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        options.replicate = ranks;
        play_one(&program);
        assert_int_equal(result.device[0].engine.busy_ps, ranks == 2 ? 1000 * NS : 2666667);
        play_close(&result);
    }
    graph_close(&program);
}

/* An all-reduce on the first `ranks` devices; streams[d] is device d's. */
static void all_reduce_on(struct program *program, const int *streams, int ranks, uint64_t sequence, double bytes)
{
    for (int rank = 0; rank < ranks; rank++)
        graph_all_reduce(program, streams[rank], rank, ranks, sequence, bytes);
}

/* Two of four devices reduce: their kernels lose nothing. Then all four do: kernels take 3 times as long.
 *   kernel of 1000 ns, 10 .. 1010; two ranks' calls at 20 and 30: 30 .. 2030
 *   kernel of 500 ns from 2040; four ranks' calls at 2050 .. 2080, 2.5 us as above: 2080 .. 4580; 40 ns of the kernel
 *   are done, the other 460 take 1380: it ends at 3460 */
static void each_collective_slows_by_its_own_ranks(void **state)
{
    struct program program;
    (void)state;
    machine.collective_call_s = 10e-9;
    machine.slowdown = (struct curve){2, {2, 4}, {1, 3}};
    graph_open(&program, 4, 5, (int[]){0, 0, 1, 2, 3});
    graph_kernel(&program, 0, 1000);
    all_reduce_on(&program, (int[]){1, 2}, 2, 0, 1100);
    graph_sync(&program, 1);
    graph_kernel(&program, 0, 500);
    all_reduce_on(&program, (int[]){1, 2, 3, 4}, 4, 1, 1100);
    play_one(&program);
    assert_int_equal(result.device[0].engine.busy_ps, (1000 + 1420) * NS);
    assert_int_equal(result.makespan_ps, 4580 * NS);
    play_close(&result);
    graph_close(&program);
}

/* Of two at a time the one that slows more counts, whichever began first: two ranks' (2 us) makes kernels take twice as
 * long, four ranks' (1 us, 100 bytes) four times. A kernel of 2000 ns from 10.
 *   two ranks' first: 30 .. 2030, four ranks' 70 .. 1070: at 30 20 are done, at 70 40, at 1070 290, at 2030 770; the
 *   rest at full speed until 3260
 *   four ranks' first: 50 .. 1050, two ranks' 70 .. 2070: at 50 40 are done, at 1050 290, at 2070 800; the rest until
 *   3270 */
static void of_two_collectives_the_one_that_slows_more_counts(void **state)
{
    (void)state;
    machine.collective_call_s = 10e-9;
    machine.slowdown = (struct curve){2, {2, 4}, {2, 4}};
    for (int first = 2; first <= 4; first += 2) {
        struct program program;
        graph_open(&program, 4, 7, (int[]){0, 0, 0, 1, 1, 2, 3});
        graph_kernel(&program, 0, 2000);
        for (int ranks = first, i = 0; i < 2; ranks = 6 - ranks, i++)
            if (ranks == 2)
                all_reduce_on(&program, (int[]){1, 3}, 2, 0, 1100);
            else
                all_reduce_on(&program, (int[]){2, 4, 5, 6}, 4, 1, 100);
        play_one(&program);
        assert_int_equal(result.makespan_ps, (first == 2 ? 3260 : 3270) * NS);
        assert_int_equal(result.device[0].collective_ps, (first == 2 ? 2000 : 2020) * NS);
        assert_int_equal(result.device[2].collective_ps, 1000 * NS);
        play_close(&result);
        graph_close(&program);
    }
}

/* ---- who moves what ------------------------------------------------------------------------------------------------
 */

/* On three devices, from or to device 1: bytes by pair, 3 is the host. */
static void check_rooted(const char *operation, const double expected[4][4])
{
    struct program program;
    graph_open(&program, 3, 3, (int[]){0, 1, 2});
    all_reduce_on(&program, (int[]){0, 1, 2}, 3, 0, 100);
    for (uint32_t i = 0; i < program.collective_count; i++) {
        program.collectives[i].operation = operation;
        program.collectives[i].root = 1;
    }
    play_one(&program);
    for (int from = 0; from < 4; from++)
        for (int to = 0; to < 4; to++)
            assert_true(result.pair_bytes[from * 4 + to] == expected[from][to]);
    play_close(&result);
    graph_close(&program);
}

/* Along the ring from the root, which gets nothing; a reduce the other way. Without a root all links carry the same:
 * 2/3 of what they gather, twice that to reduce all. */
static void bytes_go_round_the_ring(void **state)
{
    const double part = 100 * (2.0 / 3), all = 100 * (4.0 / 3);
    (void)state;
    check_rooted("broadcast", (const double[4][4]){{0}, {[2] = 100}, {[0] = 100}});
    check_rooted("reduce", (const double[4][4]){{[2] = 100}, {0}, {[1] = 100}});
    check_rooted("all_gather", (const double[4][4]){{[1] = part}, {[2] = part}, {[0] = part}});
    check_rooted("reduce_scatter", (const double[4][4]){{[1] = part}, {[2] = part}, {[0] = part}});
    check_rooted("all_reduce", (const double[4][4]){{[1] = all}, {[2] = all}, {[0] = all}});
}

/* What the ranks call is one collective, or the records are not of one run. */
static void ranks_that_disagree_are_an_error(void **state)
{
    static const char *const said[] = {"rank 0 of 2 calls all_reduce of 1100 bytes, expected rank 1 of 2",
                                       "rank 1 of 3 calls all_reduce of 1100 bytes, expected rank 1 of 2",
                                       "rank 1 of 2 calls all_reduce of 1108 bytes, expected rank 1 of 2, all_reduce",
                                       "rank 1 of 2 calls reduce of 1100 bytes, expected rank 1 of 2, all_reduce",
                                       "collective send, expected all_reduce, broadcast"};
    (void)state;
    for (int what = 0; what < 5; what++) {
        struct program program;
        const struct program *one = &program;
        graph_open(&program, 2, 2, (int[]){0, 1});
        all_reduce_on(&program, (int[]){0, 1}, 2, 0, 1100);
        struct collective *second = &program.collectives[1];
        second->rank = what == 0 ? 0 : 1;
        second->ranks = what == 1 ? 3 : 2;
        second->bytes = what == 2 ? 1108 : 1100;
        second->operation = what == 3 ? "reduce" : second->operation;
        if (what == 4)
            program.collectives[0].operation = second->operation = "send";
        assert_int_equal(play(&result, &one, 1, &machine, &options), 4);
        if (!strstr(log_last_error(), said[what]))
            fail_msg("\"%s\" is not in: %s", said[what], log_last_error());
        play_close(&result);
        graph_close(&program);
    }
}

/* ---- what is hidden ------------------------------------------------------------------------------------------------
 */

/* Hidden is what a collective on another stream runs beside forward, loss and backward, each phase's own part:
 *   stream 0 (marks)          stream 1                              hidden
 *   kernel 10 .. 510          all-reduce 10 .. 2010   forward  500
 *   kernel 510 .. 2510                                backward 2000   500 + 1500
 *   all-reduce 2510 .. 4510                           exposed  2000
 *   kernel 4510 .. 5010       all-reduce 4510 .. 6510 update   500   (no computing of the model's)
 *   kernel 5010 .. 7010                               loss     3000   1500 (until 6510)
 *   all-reduce 7010 .. 8010                                           (on the marks' own stream: not beside it) */
static void hidden_is_what_runs_beside_computing(void **state)
{
    struct program program;
    (void)state;
    graph_open(&program, 1, 2, (int[]){0, 0});
    graph_step(&program, true);
    graph_event(&program, 0, MARK_BEGIN);
    graph_kernel(&program, 0, 500);
    graph_all_reduce(&program, 1, 0, 2, 0, 1100);
    graph_event(&program, 0, MARK_PHASE + PLAY_FORWARD);
    graph_kernel(&program, 0, 2000);
    graph_event(&program, 0, MARK_PHASE + PLAY_BACKWARD);
    graph_all_reduce(&program, 0, 0, 2, 1, 1100);
    graph_wait(&program, 1, graph_event(&program, 0, MARK_PHASE + PLAY_ALLREDUCE_EXPOSED));
    graph_all_reduce(&program, 1, 0, 2, 2, 1100);
    graph_kernel(&program, 0, 500);
    graph_event(&program, 0, MARK_PHASE + PLAY_UPDATE);
    graph_kernel(&program, 0, 2000);
    graph_all_reduce(&program, 0, 0, 2, 3, 100);
    graph_event(&program, 0, MARK_PHASE + PLAY_LOSS);
    graph_sync(&program, 0);
    graph_step(&program, false);
    options.replicate = 2;
    play_one(&program);
    const struct play_step *marks = &result.marks[0];
    assert_int_equal(marks->phase_ps[PLAY_FORWARD], 510 * NS);
    assert_int_equal(marks->phase_ps[PLAY_BACKWARD], 2000 * NS);
    assert_int_equal(marks->phase_ps[PLAY_ALLREDUCE_EXPOSED], 2000 * NS);
    assert_int_equal(marks->phase_ps[PLAY_UPDATE], 500 * NS);
    assert_int_equal(marks->phase_ps[PLAY_LOSS], 3000 * NS);
    assert_int_equal(marks->hidden_ps, (500 + 1500 + 1500) * NS);
    assert_int_equal(result.device[0].collective_ps, 7000 * NS);
    play_close(&result);
    graph_close(&program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(collectives_wait_for_all_and_slow_kernels, set_up),
        cmocka_unit_test_setup(the_slowdown_is_that_of_the_ranks, set_up),
        cmocka_unit_test_setup(each_collective_slows_by_its_own_ranks, set_up),
        cmocka_unit_test_setup(of_two_collectives_the_one_that_slows_more_counts, set_up),
        cmocka_unit_test_setup(bytes_go_round_the_ring, set_up),
        cmocka_unit_test_setup(ranks_that_disagree_are_an_error, set_up),
        cmocka_unit_test_setup(hidden_is_what_runs_beside_computing, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
