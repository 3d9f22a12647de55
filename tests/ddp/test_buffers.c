/* SPDX-License-Identifier: MIT
 *
 * Models with BatchNorm: DDP against DP bit for bit, buffers included; rank 0's buffers for all in an evaluation
 * (trials.md 16); SyncBatchNorm against one device, with uneven pieces and ranks without samples.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ddp_multi_process/strategy.h"
#include "dp_single_process/dp.h"
#include "good_training.h"

#define MODEL "--model", "resnet20", "--data", "digits", "--width", "4", "--depth", "1", "--lr", "0.02"

#define TRAIN(training, strategy, steps, ...)                                                                          \
    good_training(training, strategy, NULL, (const char *const[]){MODEL, __VA_ARGS__, NULL}, steps)

/* Each replica normalises its own piece in both. */
static void equals_dp(void **state)
{
    (void)state;
    static const char *const cells[][3] = {
        {"1", "16", "nccl"}, {"2", "16", "nccl"}, {"4", "16", "p2p"}, {"4", "4", "nccl"}};
    for (size_t i = 0; i < COUNT(cells); i++) {
        struct training dp, ddp;
        TRAIN(&dp, &strategy_dp, 4, "--gpus", cells[i][0], "--global-batch", cells[i][1], "--dp-transport",
              cells[i][2]);
        TRAIN(&ddp, &strategy_ddp, 4, "--gpus", cells[i][0], "--global-batch", cells[i][1]);
        assert_memory_equal(ddp.parameters, dp.parameters, dp.model.flat_bytes);
        assert_memory_equal(ddp.buffers, dp.buffers, dp.model.buffer_bytes);
        /* DP's replicas evaluate a piece each, with device 0's buffers */
        assert_true(fabs(dp.evaluation_loss - ddp.evaluation_loss) <= 1e-5 * ddp.evaluation_loss);
        training_close(&dp);
        training_close(&ddp);
    }
}

/* trials.md 16: the ranks see other samples, so their statistics move apart; an evaluation takes rank 0's. */
static void evaluates_with_rank_0(void **state)
{
    (void)state;
    struct training ddp;
    TRAIN(&ddp, &strategy_ddp, 20, "--gpus", "4", "--global-batch", "16");
    assert_int_equal(ddp.moved_apart, 3);
    assert_int_equal(ddp.different_buffers, 0);
    training_close(&ddp);
}

/* The statistics, and with them everything else, are one device's: with even and uneven pieces, with ranks that have
 * nothing, with micro-batches. And they stay equal on all ranks. */
static void synchronised_equals_single(void **state)
{
    (void)state;
    static const char *const cells[][3] = {
        {"2", "16", "1"}, {"4", "16", "1"}, {"4", "10", "1"}, {"4", "3", "1"}, {"3", "16", "2"}};
    for (size_t i = 0; i < COUNT(cells); i++) {
        struct training single, ddp;
        TRAIN(&single, &strategy_single, 3, "--strategy", "single", "--global-batch", cells[i][1], "--accumulate",
              cells[i][2]);
        TRAIN(&ddp, &strategy_ddp, 3, "--gpus", cells[i][0], "--global-batch", cells[i][1], "--accumulate", cells[i][2],
              "--sync-bn");
        const struct model *model = &single.model;
        double parameters = parameters_apart(&ddp, &single);
        double buffers =
            worst_difference(model->buffers, ddp.buffers, model->buffers, single.buffers, model->buffer_count);
        print_message("N = %s, batch %s, %s micro-batches: parameters %.1e, buffers %.1e from one device\n", cells[i][0],
                      cells[i][1], cells[i][2], parameters, buffers);
        assert_true(parameters <= 1e-5 && buffers <= 1e-5);
        assert_int_equal(ddp.moved_apart, 0);
        training_close(&single);
        training_close(&ddp);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_dp),
        cmocka_unit_test(evaluates_with_rank_0),
        cmocka_unit_test(synchronised_equals_single),
    };
    return cmocka_run_group_tests(tests, configure_devices, NULL);
}
