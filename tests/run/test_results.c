/* SPDX-License-Identifier: MIT
 *
 * From rows of several ranks to the numbers of results.csv, with rows made by hand.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "run/engine.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

#define RANKS 8
#define STEPS 5
#define MIB (UINT64_C(1) << 20)

struct made {
    struct options options;
    struct world world;
    struct engine engine;
    struct step_row rows[RANKS * STEPS];
    struct device_row devices[RANKS];
    struct results results;
};

/* `ranks` ranks with 32 samples each, every step 10 ms: forward 6, backward 3, host 1; loss sum 64 a rank. */
static void make(struct made *made, int ranks)
{
    memset(made, 0, sizeof *made);
    made->options = (struct options){.gpus = ranks, .global_batch = 32 * (size_t)ranks};
    made->world = world_alone();
    made->world.size = ranks;
    made->engine =
        (struct engine){.options = &made->options, .world = &made->world, .row_count = STEPS, .steps = STEPS};
    made->engine.model.targets = 1;
    for (int i = 0; i < ranks * STEPS; i++) {
        struct step_row *row = &made->rows[i];
        *row = (struct step_row){.ms = 10, .loss_sum = 64, .samples = 32};
        row->phase_ms[PHASE_FORWARD] = 6;
        row->phase_ms[PHASE_BACKWARD] = 3;
        row->phase_ms[PHASE_HOST] = 1;
    }
    for (int r = 0; r < ranks; r++)
        made->devices[r] = (struct device_row){.position = r, .peak_total = MIB, .busy_s = 0.025, .step_s = 0.050};
    made->results = (struct results){.rows = made->rows,
                                     .row_count = (size_t)(ranks * STEPS),
                                     .devices = made->devices,
                                     .device_count = (size_t)ranks};
}

static struct summary summarize(const struct made *made)
{
    struct summary summary;

    results_summarize(&summary, &made->results, &made->engine);
    return summary;
}

static double sum_of_phases(const struct summary *summary)
{
    double ms = 0;

    for (int phase = 0; phase < PHASES; phase++)
        ms += isnan(summary->phase_ms[phase]) ? 0 : summary->phase_ms[phase];
    return ms;
}

/* Trial 38: fixed 10 ms steps, 32 samples a rank: 3200, 6400, 12800, 25600; with one rank at 20 ms 1600 N. */
static void adds_samples_and_takes_the_slowest_time(void **state)
{
    static struct made made;

    (void)state;
    for (int ranks = 1; ranks <= RANKS; ranks *= 2) {
        make(&made, ranks);
        assert_float_equal(summarize(&made).samples_per_s, 3200.0 * ranks, 1e-6);
        for (int step = 0; step < STEPS; step++)
            made.rows[(ranks - 1) * STEPS + step].ms = 20;
        assert_float_equal(summarize(&made).samples_per_s, 1600.0 * ranks, 1e-6);
        assert_float_equal(summarize(&made).step_ms, 20, 0);
    }
}

/* Steps of 11, 15, 12, 14, 13 ms on rank 1: the breakdown is that of step 4, where rank 1 waited 3 ms longer. */
static void breaks_the_median_step_down(void **state)
{
    static const double ms[STEPS] = {11, 15, 12, 14, 13};
    static struct made made;

    (void)state;
    make(&made, 2);
    for (int step = 0; step < STEPS; step++) {
        struct step_row *row = &made.rows[STEPS + step];
        row->ms = ms[step];
        row->phase_ms[PHASE_ALLREDUCE_EXPOSED] = ms[step] - 10;
    }
    struct summary summary = summarize(&made);
    assert_float_equal(summary.step_ms, 13, 0);
    assert_float_equal(summary.step_ms_mad, 1, 0);
    assert_float_equal(summary.step_ms_p95, 14.8, 1e-9);
    assert_float_equal(summary.phase_ms[PHASE_ALLREDUCE_EXPOSED], 3, 0);
    assert_float_equal(sum_of_phases(&summary), 13, 1e-9);
    assert_true(isnan(summary.phase_ms[PHASE_REDUCE]));
    made.engine.row_count = 4; /* an even number: the mean of the two middle steps, 12 and 14 */
    memmove(&made.rows[4], &made.rows[STEPS], 4 * sizeof made.rows[0]);
    summary = summarize(&made);
    assert_float_equal(summary.step_ms, 13, 0);
    assert_float_equal(sum_of_phases(&summary), 13, 1e-9);
}

/* 13 samples on 2 ranks, 7 and 6: the mean is over samples, not over ranks. */
static void takes_the_loss_over_samples(void **state)
{
    static struct made made;

    (void)state;
    make(&made, 2);
    for (int step = 0; step < STEPS; step++) {
        made.rows[step].samples = 7;
        made.rows[step].loss_sum = 7 * 4.0;
        made.rows[STEPS + step].samples = 6;
        made.rows[STEPS + step].loss_sum = 6 * 10.5;
    }
    assert_float_equal(summarize(&made).loss_last, 7.0, 1e-12);
    made.options.loss = LOSS_SUM;
    assert_float_equal(summarize(&made).loss_first, 91.0, 1e-12);
    assert_true(isnan(engine_loss(&made.engine, 0, 0)));
    made.options.loss = LOSS_MEAN;
    made.engine.model.targets = 2; /* each sample has two losses in its sum */
    assert_float_equal(summarize(&made).loss_last, 3.5, 1e-12);
}

static void compares_devices(void **state)
{
    static struct made made;

    (void)state;
    make(&made, 4);
    made.devices[0].peak_total = 5 * MIB;
    made.devices[0].busy_s = 0.050;
    struct summary summary = summarize(&made);
    assert_float_equal(summary.peak_mib, 5, 0);
    assert_float_equal(summary.device0_mib, 5, 0);
    assert_float_equal(summary.median_others_mib, 1, 0);
    assert_float_equal(summary.imbalance, 2.5, 1e-12);
    assert_float_equal(summary.util_device0, 1, 1e-12);
    assert_float_equal(summary.util_mean, 0.625, 1e-12);
    made.devices[0].cores = 2;
    assert_float_equal(summarize(&made).util_device0, 0.5, 1e-12);
    make(&made, 1);
    assert_true(isnan(summarize(&made).median_others_mib));
    assert_float_equal(summarize(&made).imbalance, 1, 0);
}

static void measures_nothing_in_no_steps(void **state)
{
    static struct made made;

    (void)state;
    make(&made, 1);
    made.engine.row_count = 0;
    made.devices[0].step_s = 0;
    struct summary summary = summarize(&made);
    assert_true(isnan(summary.step_ms) && isnan(summary.samples_per_s) && isnan(summary.loss_first));
    assert_true(isnan(summary.phase_ms[PHASE_FORWARD]) && isnan(summary.util_mean));
}

/* ---- the ledger ------------------------------------------------------------------------------------------------- */

static void finds_the_busiest_link(void **state)
{
    static struct ledger_entry entries[] = {
        {PHASE_SCATTER, -1, 0, 1000}, {PHASE_REPLICATE, 0, 1, 40}, {PHASE_REPLICATE, 0, 2, 40},
        {PHASE_REDUCE, 1, 0, 40},     {PHASE_REDUCE, 2, 0, 40},    {PHASE_REDUCE, 0, 0, 500},
    };
    struct ledger ledger = {.counted = true, .steps = 2, .entries = entries, .count = 6};

    (void)state;
    ledger.formula[PHASE_REPLICATE] = ledger.formula[PHASE_REDUCE] = 40;
    assert_int_equal(ledger_check(&ledger), EXIT_OK);
    assert_float_equal(ledger_total(&ledger), 80, 0);
    assert_float_equal(ledger_sent(&ledger, 0), 40, 0);
    assert_float_equal(ledger_received(&ledger, 0), 40, 0);
    assert_float_equal(ledger_received(&ledger, 1), 20, 0);
    assert_float_equal(ledger_busiest_link(&ledger, 3), 40, 0);
}

static void fails_for_one_byte(void **state)
{
    struct ledger_entry entry = {PHASE_REDUCE, 1, 0, 81};
    struct ledger ledger = {.counted = true, .steps = 2, .entries = &entry, .count = 1};

    (void)state;
    ledger.formula[PHASE_REDUCE] = 40;
    assert_int_equal(ledger_check(&ledger), EXIT_CHECK_FAILED);
    assert_non_null(strstr(log_last_error(), "reduce moved 81 bytes"));
    assert_non_null(strstr(log_last_error(), "formula says 80"));
    entry.bytes = 80;
    assert_int_equal(ledger_check(&ledger), EXIT_OK);
    entry.phase = PHASES; /* moved outside of any phase: nobody has accounted for it */
    assert_int_equal(ledger_check(&ledger), EXIT_CHECK_FAILED);
    ledger.counted = false;
    assert_int_equal(ledger_check(&ledger), EXIT_OK);
    assert_float_equal(ledger_total(&ledger), 40, 0);
    assert_true(isnan(ledger_busiest_link(&ledger, 2)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adds_samples_and_takes_the_slowest_time),
        cmocka_unit_test(breaks_the_median_step_down),
        cmocka_unit_test(takes_the_loss_over_samples),
        cmocka_unit_test(compares_devices),
        cmocka_unit_test(measures_nothing_in_no_steps),
        cmocka_unit_test(finds_the_busiest_link),
        cmocka_unit_test(fails_for_one_byte),
    };

    log_set_program("test_results");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
