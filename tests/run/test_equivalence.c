/* SPDX-License-Identifier: MIT
 *
 * dp trains the same model as one device, whatever N, batch, transport and loss; and the same bits each time.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "dp_single_process/dp.h"
#include "harness.h"
#include "sys/log.h"

#define UPDATES 3
#define SMALL "--inputs 20 --width 33 --depth 2 --classes 7"
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const int device_counts[] = {1, 2, 3, 4, 8};

static struct outcome run(const struct strategy *strategy, const char *line, int updates)
{
    struct outcome outcome;
    int status = harness_run(strategy, line, updates, &outcome);

    if (status)
        fail_msg("'%s' ended with %d: %s", line, status, log_last_error());
    return outcome;
}

static void expect_close(const char *line, const struct outcome *found, const struct outcome *expected,
                         double tolerance)
{
    double gradients = relative_difference(found->first_gradients, expected->first_gradients, expected->elements);
    double parameters = relative_difference(found->parameters, expected->parameters, expected->elements);

    if (!(gradients <= tolerance) || !(parameters <= tolerance))
        fail_msg("'%s': gradients of step 1 differ by %g, parameters by %g, allowed %g", line, gradients, parameters,
                 tolerance);
    if (found->samples != expected->samples)
        fail_msg("'%s': %zu samples, expected %zu", line, found->samples, expected->samples);
    for (int i = 0; i < UPDATES; i++)
        if (!(fabs(found->loss_sum[i] - expected->loss_sum[i]) <= 1e-5 * fabs(expected->loss_sum[i])))
            fail_msg("'%s': loss of step %d is %.9g, expected %.9g", line, i, found->loss_sum[i],
                     expected->loss_sum[i]);
}

static void expect_same_bits(const char *line, const struct outcome *found, const struct outcome *expected)
{
    size_t gradients = count_different(found->first_gradients, expected->first_gradients, expected->elements);
    size_t parameters = count_different(found->parameters, expected->parameters, expected->elements);

    if (gradients || parameters)
        fail_msg("'%s': %zu gradients and %zu parameters of %zu have other bits", line, gradients, parameters,
                 expected->elements);
}

/* Both transports and all losses against one device, and against each other bit for bit. */
static void compare_variants(const char *data, int gpus, size_t batch)
{
    static const char *const variants[] = {
        "--dp-transport nccl --dp-loss gathered", "--dp-transport p2p --dp-loss gathered",
        "--dp-transport nccl --dp-loss replica", "--dp-transport p2p --dp-loss replica",
        "--dp-transport nccl --dp-loss replica-outputs"};
    struct outcome first = {0};
    char line[256];

    snprintf(line, sizeof line, "%s --global-batch %zu", data, batch);
    struct outcome single = run(&strategy_single, line, UPDATES);
    for (size_t v = 0; v < COUNT(variants); v++) {
        snprintf(line, sizeof line, "%s --global-batch %zu --gpus %d %s", data, batch, gpus, variants[v]);
        struct outcome dp = run(&strategy_dp, line, UPDATES);
        expect_close(line, &dp, &single, 1e-5);
        if (v > 0)
            expect_same_bits(line, &dp, &first);
        if (v == 0)
            first = dp;
        else
            outcome_free(&dp);
    }
    outcome_free(&first);
    outcome_free(&single);
}

/* Trials 1 and 3: batches that do not reach every device, among them 9 on 4, 36 on 7 and 17 on 8. */
static void equals_one_device(void **state)
{
    static const size_t batches[] = {8, 9, 36, 17, 3, 1};

    (void)state;
    for (size_t n = 0; n < COUNT(device_counts); n++)
        for (size_t b = 0; b < COUNT(batches); b++)
            compare_variants("--data synthetic " SMALL, device_counts[n], batches[b]);
    compare_variants("--data synthetic " SMALL, 7, 36);
}

/* Many labels a sample, tokens in place of floats, a parameter that two layers share, or that all steps in time do. */
static void equals_one_device_on_text(void **state)
{
    static const size_t batches[] = {8, 9, 3};
    static const char *const models[] = {"--data synthetic --model gpt-tiny", "--data synthetic --model lstm-tiny"};

    (void)state;
    for (size_t n = 0; n < COUNT(device_counts); n++)
        for (size_t b = 0; b < COUNT(batches); b++)
            for (size_t m = 0; m < COUNT(models); m++)
                compare_variants(models[m], device_counts[n], batches[b]);
}

/* The same through pinned memory and copy streams. Trial 2's batch of 13 is among them. */
static void equals_one_device_on_real_data(void **state)
{
    static const size_t batches[] = {13, 32};

    (void)state;
    for (size_t n = 0; n < COUNT(device_counts); n++)
        for (size_t b = 0; b < COUNT(batches); b++)
            compare_variants("--data digits --width 33 --depth 2", device_counts[n], batches[b]);
}

/* <a, b> / <b, b>: 1 if a is b, 2 if it is twice as long. */
static double scale_ratio(const struct outcome *a, const struct outcome *b)
{
    double product = 0, square = 0;

    for (size_t i = 0; i < b->elements; i++) {
        product += (double)a->first_gradients[i] * (double)b->first_gradients[i];
        square += (double)b->first_gradients[i] * (double)b->first_gradients[i];
    }
    return product / square;
}

/* Trial 8, with plain SGD, which hides nothing: 30 cells, ratio 1.00 in each. 13 rows leave uneven micro-batches. */
static void scales_gradients_by_one(void **state)
{
    static const char *const losses[] = {"mean", "sum"};
    char line[256];

    (void)state;
    for (int l = 0; l < 2; l++) {
        snprintf(line, sizeof line, SMALL " --momentum 0 --lr 0.001 --global-batch 13 --loss %s", losses[l]);
        struct outcome single = run(&strategy_single, line, UPDATES);
        for (int accumulate = 1; accumulate <= 3; accumulate++) {
            for (size_t n = 0; n < COUNT(device_counts); n++) {
                snprintf(
                    line, sizeof line,
                    SMALL
                    " --momentum 0 --lr 0.001 --global-batch 13 --loss %s --accumulate %d --gpus %d --dp-transport %s",
                    losses[l], accumulate, device_counts[n], n % 2 ? "p2p" : "nccl");
                struct outcome dp = run(&strategy_dp, line, UPDATES);
                double ratio = scale_ratio(&dp, &single);
                if (!(fabs(ratio - 1) < 1e-5))
                    fail_msg("'%s': the gradient is %.6f times one device's", line, ratio);
                expect_close(line, &dp, &single, 1e-5);
                outcome_free(&dp);
            }
        }
        outcome_free(&single);
    }
}

static void accumulates_like_one_device(void **state)
{
    char line[256];

    (void)state;
    struct outcome whole = run(&strategy_single, "--data digits --width 16 --depth 1 --global-batch 13", UPDATES);
    for (int accumulate = 2; accumulate <= 13; accumulate += 11) {
        snprintf(line, sizeof line, "--data digits --width 16 --depth 1 --global-batch 13 --accumulate %d", accumulate);
        struct outcome single = run(&strategy_single, line, UPDATES);
        expect_close(line, &single, &whole, 1e-5);
        snprintf(line, sizeof line,
                 "--data digits --width 16 --depth 1 --global-batch 13 --accumulate %d --gpus 3 --output-device 2",
                 accumulate);
        struct outcome dp = run(&strategy_dp, line, UPDATES);
        expect_close(line, &dp, &whole, 1e-5);
        outcome_free(&single);
        outcome_free(&dp);
    }
    outcome_free(&whole);
}

/* Also on a device that no piece reaches. */
static void gathers_on_any_output_device(void **state)
{
    static const char *const data[] = {"--data synthetic " SMALL, "--data digits --width 16 --depth 1"};
    char line[256];

    (void)state;
    for (int d = 0; d < 2; d++) {
        snprintf(line, sizeof line, "%s --gpus 4 --global-batch 3", data[d]);
        struct outcome usual = run(&strategy_dp, line, UPDATES);
        for (int output = 1; output < 4; output++) {
            snprintf(line, sizeof line, "%s --gpus 4 --global-batch 3 --dp-transport %s --output-device %d", data[d],
                     output % 2 ? "p2p" : "nccl", output);
            struct outcome other = run(&strategy_dp, line, UPDATES);
            expect_same_bits(line, &other, &usual);
            outcome_free(&other);
        }
        outcome_free(&usual);
    }
}

static void gives_the_same_bits_each_time(void **state)
{
    static const char *const lines[] = {SMALL " --gpus 4 --global-batch 32 --dp-transport nccl",
                                        SMALL " --gpus 4 --global-batch 32 --dp-transport p2p",
                                        "--data digits --width 16 --depth 1 --gpus 3 --global-batch 32 --accumulate 2"};

    (void)state;
    for (size_t l = 0; l < COUNT(lines); l++) {
        struct outcome first = run(&strategy_dp, lines[l], 20);
        for (int again = 0; again < 4; again++) {
            struct outcome next = run(&strategy_dp, lines[l], 20);
            expect_same_bits(lines[l], &next, &first);
            outcome_free(&next);
        }
        outcome_free(&first);
    }
}

/* A model with BatchNorm normalises piece by piece, so it is not one device's; but both transports must carry its running
 * statistics, which the evaluation would show, and its parameters. */
static void both_transports_carry_buffers(void **state)
{
    char line[256];

    (void)state;
    for (int gpus = 2; gpus <= 3; gpus++) {
        const char *model = "--model resnet20 --data digits --width 4 --depth 1 --global-batch 12";
        snprintf(line, sizeof line, "%s --gpus %d --dp-transport nccl", model, gpus);
        struct outcome nccl = run(&strategy_dp, line, UPDATES);
        snprintf(line, sizeof line, "%s --gpus %d --dp-transport p2p", model, gpus);
        struct outcome p2p = run(&strategy_dp, line, UPDATES);
        expect_same_bits(line, &p2p, &nccl);
        outcome_free(&nccl);
        outcome_free(&p2p);
    }
}

static void one_device_is_single(void **state)
{
    (void)state;
    struct outcome single = run(&strategy_single, SMALL " --global-batch 16", UPDATES);
    struct outcome dp = run(&strategy_dp, SMALL " --global-batch 16 --gpus 1", UPDATES);
    expect_same_bits("dp on one device", &dp, &single);
    outcome_free(&single);
    outcome_free(&dp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_device_is_single),           cmocka_unit_test(equals_one_device),
        cmocka_unit_test(equals_one_device_on_text),      cmocka_unit_test(equals_one_device_on_real_data),
        cmocka_unit_test(scales_gradients_by_one),
        cmocka_unit_test(accumulates_like_one_device),    cmocka_unit_test(gathers_on_any_output_device),
        cmocka_unit_test(gives_the_same_bits_each_time),  cmocka_unit_test(both_transports_carry_buffers),
    };

    log_set_program("test_equivalence");
    log_set_quiet(true);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
