/* SPDX-License-Identifier: MIT
 *
 * Steps against times worked out on paper: their phases, those that all ranks have, and kernels that take longer on one
 * rank or at random.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "paper.h"

static int set_up(void **state)
{
    (void)state;
    return paper_set_up(2);
}

/* Phases are what lies between marks; the slow rank is slow and no other. */
static void phases_and_the_slow_rank(void **state)
{
    struct program program;
    (void)state;
    graph_open(&program, 1, 1, (int[]){0});
    graph_step(&program, true);
    graph_event(&program, 0, MARK_BEGIN);
    graph_kernel(&program, 0, 100);
    graph_event(&program, 0, MARK_PHASE + PLAY_FORWARD);
    graph_kernel(&program, 0, 200);
    graph_event(&program, 0, MARK_PHASE + PLAY_BACKWARD);
    graph_all_reduce(&program, 0, 0, 2, 0, 1100);
    graph_event(&program, 0, MARK_PHASE + PLAY_ALLREDUCE_EXPOSED);
    graph_sync(&program, 0);
    graph_step(&program, false);
    options.replicate = 2;
    options.slow_rank = 1;
    options.slow_factor = 3;
    play_one(&program);
    assert_int_equal(result.marks[0].phase_ps[PLAY_FORWARD], (10 + 100) * NS);
    assert_int_equal(result.marks[1].phase_ps[PLAY_FORWARD], (10 + 300) * NS);
    assert_int_equal(result.marks[1].phase_ps[PLAY_BACKWARD], 600 * NS);
    assert_int_equal(result.marks[1].phase_ps[PLAY_ALLREDUCE_EXPOSED], 2000 * NS);
    assert_int_equal(result.marks[0].phase_ps[PLAY_ALLREDUCE_EXPOSED], (910 - 310 + 2000) * NS);
    assert_int_equal(result.step_ps[0], 2910 * NS);
    play_close(&result);
    graph_close(&program);
}

/* Two ranks, one with a step more: the steps that both have. Each is a kernel of 100 ns and its launch. */
static void steps_are_those_that_all_ranks_have(void **state)
{
    struct program programs[2];
    (void)state;
    for (int longer = 0; longer < 2; longer++) {
        for (int rank = 0; rank < 2; rank++) {
            graph_open(&programs[rank], 1, 1, (int[]){0});
            programs[rank].rank = rank;
            for (int step = 0; step < 1 + (rank == longer); step++) {
                graph_step(&programs[rank], true);
                graph_event(&programs[rank], 0, MARK_BEGIN);
                graph_kernel(&programs[rank], 0, 100);
                graph_event(&programs[rank], 0, MARK_PHASE + PLAY_FORWARD);
                graph_sync(&programs[rank], 0);
                graph_step(&programs[rank], false);
            }
        }
        const struct program *both[] = {&programs[0], &programs[1]};
        assert_int_equal(play(&result, both, 2, &machine, &options), 0);
        assert_int_equal(result.steps, 1);
        assert_int_equal(result.step_ps[0], 110 * NS);
        assert_int_equal(result.marks[longer].phase_ps[PLAY_FORWARD], 110 * NS);
        assert_int_equal(result.makespan_ps, 220 * NS);
        play_close(&result);
        graph_close(&programs[0]);
        graph_close(&programs[1]);
    }
}

static void jitter_is_drawn_from_its_seed(void **state)
{
    struct program program;
    int64_t makespans[3];
    (void)state;
    graph_open(&program, 1, 1, (int[]){0});
    graph_step(&program, true);
    graph_kernel(&program, 0, 100000);
    graph_all_reduce(&program, 0, 0, 2, 0, 1100);
    graph_step(&program, false);
    options.replicate = 2;
    options.jitter_sigma = 0.1;
    for (uint64_t i = 0; i < 3; i++) {
        options.jitter_seed = i / 2;
        play_one(&program);
        makespans[i] = result.makespan_ps;
        play_close(&result);
    }
    assert_int_equal(makespans[0], makespans[1]);
    assert_int_not_equal(makespans[0], makespans[2]);
    graph_close(&program);
}

/* Every rank draws anew in every step, 1 in the mean, at least a tenth, on top of the slow rank's factor. A kernel of
 * 100 000 ns in each of 4 steps on 32 ranks. */
static void jitter_is_each_ranks_and_each_steps_own(void **state)
{
    enum { STEPS = 4, RANKS = 32 };
    struct program program;
    double sum = 0;
    (void)state;
    graph_open(&program, 1, 1, (int[]){0});
    for (int step = 0; step < STEPS; step++) {
        graph_step(&program, true);
        graph_kernel(&program, 0, 100000);
        graph_sync(&program, 0);
        graph_step(&program, false);
    }
    options.replicate = RANKS;
    options.jitter_sigma = 0.05;
    options.slow_rank = 5;
    options.slow_factor = 3;
    play_one(&program);
    for (int i = 0; i < STEPS * RANKS; i++) {
        double factor = (double)(result.rank_step_ps[i] - 10 * NS) / 1e8 / (i % RANKS == 5 ? 3 : 1);
        assert_true(factor > 0.7 && factor < 1.3); /* 6 sigma */
        sum += factor;
        for (int other = 0; other < i; other++)
            assert_int_not_equal(result.rank_step_ps[i], result.rank_step_ps[other]);
    }
    assert_true(sum / (STEPS * RANKS) > 0.98 && sum / (STEPS * RANKS) < 1.02);
    play_close(&result);
    options.jitter_sigma = 1;
    play_one(&program);
    int64_t least = result.rank_step_ps[0];
    for (int i = 1; i < STEPS * RANKS; i++)
        least = result.rank_step_ps[i] < least ? result.rank_step_ps[i] : least;
    assert_int_equal(least, 10010 * NS);
    play_close(&result);
    graph_close(&program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(phases_and_the_slow_rank, set_up),
        cmocka_unit_test_setup(steps_are_those_that_all_ranks_have, set_up),
        cmocka_unit_test_setup(jitter_is_drawn_from_its_seed, set_up),
        cmocka_unit_test_setup(jitter_is_each_ranks_and_each_steps_own, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
