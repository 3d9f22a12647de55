/* SPDX-License-Identifier: MIT
 *
 * trials.md 19 beyond a gradient that is planted (test_precision.py), with ranks as threads: NaN in a loss, and overflows that only a
 * sum makes, over devices or over micro-batches. All ranks skip, all halve the scale, no parameter moves.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ddp_multi_process/strategy.h"
#include "dp_single_process/dp.h"
#include "good_training.h"
#include "kernels/kernels.h"
#include "nn/layers.h"
#include "nn/model_types.h"
#include "run/schedule.h"
#include "sys/exit_codes.h"

#define MODEL "--model", "mlp", "--data", "digits", "--depth", "3", "--lr", "0.1", "--width", "64", "--precision", "fp16"

/* ---- NaN in a loss ------------------------------------------------------------------------------------------------ */

static atomic_int forwards[MAX_RANKS_HERE]; /* passes of this training, by device */
static int poisoned_device, poisoned_pass;

/* The mlp, one of whose logits on one device is NaN in one pass: so is the loss, and all that follows from it. */
static int poisoned_forward(struct replica *replica, size_t batch, bool training)
{
    TRY(model_mlp.forward(replica, batch, training));
    if (replica->device != poisoned_device || atomic_fetch_add(&forwards[replica->device], 1) != poisoned_pass)
        return EXIT_OK;
    return GPU_STATUS(kernel_scale(replica_type(replica), replica->logits, NAN, 1, replica->compute));
}

/* All skip, all halve, the parameters are those of the step before, and the loss is told as it was. */
static void a_nan_in_the_loss_skips_on_all(void **state)
{
    (void)state;
    struct model_type poisoned = model_mlp;
    poisoned.forward = poisoned_forward;
    static const struct {
        const struct strategy *strategy;
        const char *option, *value;
        int device;
    } cells[] = {{&strategy_single, "--strategy", "single", 0}, {&strategy_dp, "--dp-loss", "gathered", 0},
                 {&strategy_dp, "--dp-loss", "gathered", 1},    {&strategy_dp, "--dp-loss", "replica", 1},
                 {&strategy_ddp, "--bucket-cap-mb", "25", 0},   {&strategy_ddp, "--bucket-cap-mb", "25", 1}};
    for (size_t i = 0; i < COUNT(cells); i++) {
        struct training before, after;
        const char *arguments[] = {MODEL, "--global-batch", "32", cells[i].option, cells[i].value,
                                   cells[i].strategy == &strategy_single ? NULL : "--gpus", "2", NULL};
        good_training(&before, cells[i].strategy, NULL, arguments, 3);
        for (int d = 0; d < MAX_RANKS_HERE; d++)
            atomic_store(&forwards[d], 0);
        poisoned_device = cells[i].device;
        poisoned_pass = 3;
        good_training(&after, cells[i].strategy, &poisoned, arguments, 4);
        assert_true(isnan(after.loss_last));
        assert_int_equal(after.control.skipped, 1);
        assert_true(after.control.loss_scale == 32768);
        assert_int_equal(before.control.skipped, 0);
        assert_memory_equal(before.parameters, after.parameters, before.model.float_bytes);
        training_close(&before);
        training_close(&after);
    }
}

/* ---- sums that overflow ------------------------------------------------------------------------------------------- */

/* One step, or none, in which the rows of the batch have these labels. */
static void train_labels(struct training *training, const struct strategy *strategy, const char *const *arguments,
                         const uint8_t *labels, int steps)
{
    struct sampler sampler;
    uint32_t rows[4];

    good_training_open(training, strategy, arguments, steps);
    uint8_t *classes = training->dataset.memory[1];
    assert_ptr_equal(classes, training->dataset.block[0].labels);
    assert_int_equal(schedule_open_sampler(&sampler, training->dataset.train_count, &training->options), 0);
    sampler_batch(&sampler, 0, rows);
    for (size_t i = 0; i < training->options.global_batch; i++)
        classes[rows[i]] = labels[i];
    sampler_close(&sampler);
    good_training_run(training);
}

static void check_labels(const struct strategy *strategy, const char *const *arguments, const uint8_t *labels, bool overflows)
{
    struct training before, after;

    train_labels(&before, strategy, arguments, labels, 0);
    train_labels(&after, strategy, arguments, labels, 1);
    assert_int_equal(after.control.skipped, overflows);
    assert_true(after.control.loss_scale == before.control.loss_scale / (overflows ? 2 : 1));
    assert_int_equal(memcmp(before.parameters, after.parameters, after.model.float_bytes) == 0, overflows);
    training_close(&before);
    training_close(&after);
}

/* Two rows on two devices, scaled so that the output bias' gradient of each is some -54000 at its label: finite. If both rows have
 * the same label dp's sum is beyond 65504, else it is not. ddp halves before it adds. */
static void an_overflow_of_the_sum_is_found(void **state)
{
    (void)state;
    static const uint8_t same[] = {3, 3}, other[] = {3, 5};
    static const char *const transports[] = {"nccl", "p2p"};
    for (size_t t = 0; t < COUNT(transports); t++) {
        const char *const dp[] = {MODEL, "--gpus", "2", "--global-batch", "2", "--loss-scale", "120000", "--dp-transport",
                                  transports[t], NULL};
        check_labels(&strategy_dp, dp, same, true);
        check_labels(&strategy_dp, dp, other, false);
    }
    const char *const ddp[] = {MODEL, "--gpus", "2", "--global-batch", "2", "--loss-scale", "60000", NULL};
    check_labels(&strategy_ddp, ddp, same, false);
}

/* Scaled by 130000 / 4, a row's gradient of the output bias at its label is some -29000. Two rows with the same label are -58000,
 * a half has room for 65504, and four are beyond it. So no addend overflows by itself: not a micro-batch's gradient, not a device's
 * sum over its micro-batches, not what ddp puts into a bucket; only the sum of two of them does. */
static void an_overflow_of_micro_batches_is_found(void **state)
{
    (void)state;
    static const struct strategy *const strategies[] = {&strategy_single, &strategy_dp, &strategy_ddp};
    static const struct {
        uint8_t labels[4];
        bool overflows;
    } cells[] = {{{3, 3, 3, 3}, true}, {{3, 3, 5, 7}, false}, {{5, 7, 3, 3}, false}, {{3, 5, 3, 7}, false}, {{5, 3, 7, 3}, false}};
    for (size_t s = 0; s < COUNT(strategies); s++)
        for (size_t i = 0; i < COUNT(cells); i++) {
            const char *const arguments[] = {MODEL, "--global-batch", "4", "--accumulate", "2", "--loss-scale", "130000",
                                             s ? "--gpus" : "--strategy", s ? "2" : "single", NULL};
            check_labels(strategies[s], arguments, cells[i].labels, cells[i].overflows);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_nan_in_the_loss_skips_on_all),
        cmocka_unit_test(an_overflow_of_the_sum_is_found),
        cmocka_unit_test(an_overflow_of_micro_batches_is_found),
    };
    return cmocka_run_group_tests(tests, configure_devices, NULL);
}
