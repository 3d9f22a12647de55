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
#include "gpu/backend.h"
#include "sys/log.h"
#include "training.h"

#define MAX_RANKS_HERE 8
#define MODEL "--model", "resnet20", "--data", "digits", "--width", "4", "--depth", "1", "--lr", "0.02"

static void train_with(struct training *training, const struct strategy *strategy, const char *program, int steps,
                       const char *const *arguments)
{
    int codes[MAX_RANKS_HERE];
    assert_int_equal(training_open(training, strategy, program, arguments), 0);
    training->steps = steps;
    assert_int_equal(training_run(training, codes), 0);
    assert_int_equal(training->different_ranks, 0);
}
#define TRAIN(training, strategy, program, steps, ...)                                                                 \
    train_with(training, strategy, program, steps, (const char *const[]){MODEL, __VA_ARGS__, NULL})

/* max |x - y| / max |y| of the worst tensor. NaN counts as infinite. */
static double distance(const struct parameter *tensors, int count, const float *x, const float *y)
{
    double worst = 0;
    for (int t = 0; t < count; t++) {
        double difference = 0, largest = 0;
        for (size_t i = tensors[t].first; i < tensors[t].first + tensors[t].count; i++) {
            if (isnan(x[i]) || isnan(y[i]))
                return INFINITY;
            difference = fmax(difference, fabs((double)x[i] - (double)y[i]));
            largest = fmax(largest, fabs((double)y[i]));
        }
        worst = fmax(worst, difference / largest);
    }
    return worst;
}

/* Each replica normalises its own piece in both. */
static void equals_dp(void **state)
{
    (void)state;
    static const char *const cells[][3] = {
        {"1", "16", "nccl"}, {"2", "16", "nccl"}, {"4", "16", "p2p"}, {"4", "4", "nccl"}};
    for (size_t i = 0; i < sizeof(cells) / sizeof(cells[0]); i++) {
        struct training dp, ddp;
        TRAIN(&dp, &strategy_dp, "dp-train", 4, "--gpus", cells[i][0], "--global-batch", cells[i][1], "--dp-transport",
              cells[i][2]);
        TRAIN(&ddp, &strategy_ddp, "ddp-train", 4, "--gpus", cells[i][0], "--global-batch", cells[i][1]);
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
    TRAIN(&ddp, &strategy_ddp, "ddp-train", 20, "--gpus", "4", "--global-batch", "16");
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
    for (size_t i = 0; i < sizeof(cells) / sizeof(cells[0]); i++) {
        struct training single, ddp;
        TRAIN(&single, &strategy_single, "dp-train", 3, "--strategy", "single", "--global-batch", cells[i][1],
              "--accumulate", cells[i][2]);
        TRAIN(&ddp, &strategy_ddp, "ddp-train", 3, "--gpus", cells[i][0], "--global-batch", cells[i][1], "--accumulate",
              cells[i][2], "--sync-bn");
        const struct model *model = &single.model;
        double parameters = distance(model->parameters, model->parameter_count, ddp.parameters, single.parameters);
        double buffers = distance(model->buffers, model->buffer_count, ddp.buffers, single.buffers);
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
    struct gpu_settings settings = {.cores_per_device = 1, .devices_used = MAX_RANKS_HERE, .collective_limit_s = 30};
    log_set_program("test_buffers");
    if (gpu_configure(&settings) != 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
