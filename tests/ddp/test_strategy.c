/* SPDX-License-Identifier: MIT
 *
 * DDP against single and DP, with ranks as threads: equal bit for bit where semantics.md says so (N a power of two,
 * even pieces, no accumulation, against DP), within rounding elsewhere; and what must not change anything: overlap,
 * bucket sizes.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ddp_multi_process/strategy.h"
#include "dp_single_process/dp.h"
#include "good_training.h"
#include "gpu/backend.h"
#include "gpu/memory.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

#define MODEL "--model", "mlp", "--data", "digits", "--width", "64", "--depth", "3", "--lr", "0.1"

static void train_with(struct training *training, const struct strategy *strategy, const char *const *arguments)
{
    good_training(training, strategy, NULL, arguments, 4);
}
#define TRAIN(training, strategy, ...) train_with(training, strategy, (const char *const[]){MODEL, __VA_ARGS__, NULL})

static bool same_bits(const struct training *a, const struct training *b)
{
    return memcmp(a->parameters, b->parameters, a->model.flat_bytes) == 0;
}

static void check_close(const struct training *a, const struct training *b, double limit)
{
    double found = parameters_apart(a, b), gradients = gradients_apart(a, b);
    if (!(found <= limit) || !(gradients <= limit * 10))
        fail_msg("parameters differ by %g, gradients by %g; expected at most %g and %g", found, gradients, limit,
                 limit * 10);
}

/* N = 1, 2, 4, 8 with even pieces: DP's bits. Others: single's within rounding. */
static void equals_dp_and_single(void **state)
{
    (void)state;
    static const struct {
        const char *ranks, *batch;
        bool bits;
    } cells[] = {
        {"1", "32", true},  {"2", "32", true},  {"4", "32", true},  {"8", "32", true},
        {"3", "33", false}, {"3", "32", false}, {"4", "10", false}, {"4", "5", false},
        {"8", "9", false},  {"4", "3", false},  {"8", "1", false},
    };
    for (size_t i = 0; i < COUNT(cells); i++) {
        struct training single, dp, ddp;
        TRAIN(&single, &strategy_single, "--strategy", "single", "--global-batch", cells[i].batch);
        TRAIN(&dp, &strategy_dp, "--gpus", cells[i].ranks, "--global-batch", cells[i].batch);
        TRAIN(&ddp, &strategy_ddp, "--gpus", cells[i].ranks, "--global-batch", cells[i].batch);
        print_message("N = %s, batch %s: from single %.1e, from DP %.1e\n", cells[i].ranks, cells[i].batch,
                      parameters_apart(&ddp, &single), parameters_apart(&ddp, &dp));
        if (cells[i].bits)
            assert_true(same_bits(&ddp, &dp));
        check_close(&ddp, &dp, 1e-6);
        check_close(&ddp, &single, 1e-6);
        assert_true(fabs(ddp.loss_last - single.loss_last) <= 1e-5 * single.loss_last);
        training_close(&single);
        training_close(&dp);
        training_close(&ddp);
    }
}

/* One model of tokens: N, batch; the first `bits` cells have DP's bits. */
static void compare_text_model(const char *model, const char *const cells[][2], size_t count, size_t bits)
{
    for (size_t i = 0; i < count; i++) {
        struct training single, dp, ddp;
        const char *const batch = cells[i][1], *const ranks = cells[i][0];
        train_with(&single, &strategy_single,
                   (const char *const[]){"--model", model, "--strategy", "single", "--global-batch", batch, NULL});
        train_with(&dp, &strategy_dp,
                   (const char *const[]){"--model", model, "--gpus", ranks, "--global-batch", batch, NULL});
        train_with(&ddp, &strategy_ddp,
                   (const char *const[]){"--model", model, "--gpus", ranks, "--global-batch", batch, NULL});
        print_message("%s, N = %s, batch %s: from single %.1e, from DP %.1e\n", model, ranks, batch,
                      parameters_apart(&ddp, &single), parameters_apart(&ddp, &dp));
        if (i < bits)
            assert_true(same_bits(&ddp, &dp));
        check_close(&ddp, &dp, 1e-6);
        check_close(&ddp, &single, 2e-6);
        assert_true(fabs(ddp.loss_last - single.loss_last) <= 1e-5 * single.loss_last);
        training_close(&single);
        training_close(&dp);
        training_close(&ddp);
    }
}

/* The same with text models: many labels a sample, tokens, a tied parameter that is ready last (gpt), parameters that all become
 * ready at the end of time (lstm; the large one has several buckets). */
static void text_models_equal_dp_and_single(void **state)
{
    (void)state;
    static const char *const cells[][2] = {{"1", "8"}, {"2", "8"}, {"4", "8"}, {"8", "8"}, {"3", "7"}, {"4", "3"}};
    compare_text_model("gpt-tiny", cells, 6, 4);
    compare_text_model("lstm-tiny", cells, 6, 4);
    compare_text_model("lstm", cells + 1, 2, 2);
}

/* Micro-batches of an LSTM, among them an empty one: the zeros before its first step serve batches of any size. */
static void an_lstm_accumulates(void **state)
{
    (void)state;
    static const char *const accumulations[] = {"2", "3", "8"};
    struct training single, many;
    train_with(&single, &strategy_single,
               (const char *const[]){"--model", "lstm-tiny", "--strategy", "single", "--global-batch", "14", NULL});
    for (int k = 0; k < 6; k++) {
        train_with(&many, k % 2 ? &strategy_dp : &strategy_ddp,
                   (const char *const[]){"--model", "lstm-tiny", "--gpus", "2", "--global-batch", "14", "--accumulate",
                                         accumulations[k / 2], NULL});
        check_close(&many, &single, 2e-6);
        training_close(&many);
    }
    training_close(&single);
}

/* trials.md 8: N x accumulation x mean or sum, plain SGD: the ratio to one device is 1 in all cells. */
static void scale_of_gradients(void **state)
{
    (void)state;
    static const char *const ranks[] = {"1", "2", "3", "4", "8"}, *const accumulations[] = {"1", "2", "3"};
    static const char *const losses[][2] = {{"mean", "0.1"}, {"sum", "0.004"}};
    for (int l = 0; l < 2; l++)
        for (int n = 0; n < 5; n++)
            for (int k = 0; k < 3; k++) {
                struct training single, ddp;
                TRAIN(&single, &strategy_single, "--strategy", "single", "--global-batch", "24", "--loss", losses[l][0],
                      "--lr", losses[l][1]);
                TRAIN(&ddp, &strategy_ddp, "--gpus", ranks[n], "--global-batch", "24", "--accumulate", accumulations[k],
                      "--loss", losses[l][0], "--lr", losses[l][1]);
                check_close(&ddp, &single, 2e-6);
                training_close(&single);
                training_close(&ddp);
            }
}

/* Big enough for several buckets: in ready order 10 + 5120 + 512 + 262144 floats pass the first limit of 1 MiB. */
#define WIDE "--width", "512", "--gpus", "4", "--global-batch", "30"

/* Neither overlap nor run order changes a bit; 5 times the same (trials.md 23). */
static void overlap_changes_no_bit(void **state)
{
    (void)state;
    struct training first, again, without;
    TRAIN(&first, &strategy_ddp, WIDE);
    for (int run = 0; run < 4; run++) {
        TRAIN(&again, &strategy_ddp, WIDE);
        assert_true(same_bits(&first, &again));
        training_close(&again);
    }
    TRAIN(&without, &strategy_ddp, WIDE, "--no-overlap");
    assert_true(same_bits(&first, &without));
    training_close(&without);
    training_close(&first);
}

/* One bucket in iteration 1, then as many as the cap makes; none of it changes the result beyond rounding. */
static void bucket_sizes_change_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *cap;
        int buckets;
    } cells[] = {{"25", 2}, {"1", 3}, {"0.1", 3}, {"0", 5}, {"1000", 2}};
    struct training reference, other;
    TRAIN(&reference, &strategy_ddp, WIDE);
    for (size_t i = 0; i < COUNT(cells); i++) {
        TRAIN(&other, &strategy_ddp, WIDE, "--bucket-cap-mb", cells[i].cap);
        assert_int_equal(other.collectives_first, 1);
        assert_int_equal(other.collectives_last, cells[i].buckets);
        check_close(&other, &reference, 1e-6);
        training_close(&other);
    }
    training_close(&reference);
}

/* Uneven pieces, PyTorch's mean of means: another gradient than one device's, and the one that the formula gives. 10
 * samples on 4 ranks are 3 3 3 1. */
static void mean_of_means(void **state)
{
    (void)state;
    struct training samples, ranks, even_samples, even_ranks;
    TRAIN(&samples, &strategy_ddp, "--gpus", "4", "--global-batch", "10");
    TRAIN(&ranks, &strategy_ddp, "--gpus", "4", "--global-batch", "10", "--loss-average", "ranks");
    assert_true(parameters_apart(&ranks, &samples) > 1e-3);
    TRAIN(&even_samples, &strategy_ddp, "--gpus", "4", "--global-batch", "16");
    TRAIN(&even_ranks, &strategy_ddp, "--gpus", "4", "--global-batch", "16", "--loss-average", "ranks");
    assert_true(same_bits(&even_samples, &even_ranks));
    training_close(&samples);
    training_close(&ranks);
    training_close(&even_samples);
    training_close(&even_ranks);
}

/* trials.md 10: under accumulation each bucket is reduced once an update. */
static void bytes_are_the_formula(void **state)
{
    (void)state;
    static const struct {
        const char *ranks, *accumulate;
        uint64_t n;
    } cells[] = {
        {"1", "1", 1}, {"2", "1", 2}, {"2", "4", 2}, {"3", "1", 3}, {"4", "1", 4}, {"4", "4", 4}, {"8", "1", 8},
    };
    for (size_t i = 0; i < COUNT(cells); i++) {
        struct training ddp;
        gpu_traffic_reset();
        TRAIN(&ddp, &strategy_ddp, "--gpus", cells[i].ranks, "--global-batch", "32", "--accumulate",
              cells[i].accumulate);
        assert_int_equal(allreduced_bytes(),
                         2 * (cells[i].n - 1) * ddp.model.parameter_elements * sizeof(float) * (uint64_t)ddp.steps);
        training_close(&ddp);
    }
}

/* semantics.md: P parameters, P gradients, P buckets (none in a world of one), S optimizer state. */
static void memory_is_the_formula(void **state)
{
    (void)state;
    static const char *const ranks[] = {"1", "2"};
    for (int i = 0; i < 2; i++) {
        struct training ddp;
        memory_reset_peaks();
        TRAIN(&ddp, &strategy_ddp, "--gpus", ranks[i], "--global-batch", "32", "--momentum", "0.9");
        for (int device = 0; device <= i; device++) {
            assert_int_equal(memory_peak(device, MEMORY_PARAMETERS), ddp.model.flat_bytes);
            assert_int_equal(memory_peak(device, MEMORY_GRADIENTS), ddp.model.flat_bytes);
            assert_int_equal(memory_peak(device, MEMORY_OPTIMIZER), ddp.model.flat_bytes);
            assert_int_equal(memory_peak(device, MEMORY_COMMUNICATION),
                             i == 0 ? 0 : ddp.model.parameter_elements * sizeof(float));
            assert_int_equal(memory_current(device, MEMORY_PARAMETERS), 0);
        }
        training_close(&ddp);
    }
}

static void check_refused(struct training *training, int code, const char *text)
{
    int codes[MAX_RANKS_HERE];
    (void)training_run(training, codes);
    for (int rank = 0; rank < training->options.gpus; rank++)
        assert_int_equal(codes[rank], code);
    if (!strstr(log_last_error(), text))
        fail_msg("\"%s\" lacks \"%s\"", log_last_error(), text);
}

/* trials.md 14: rank 1 has another width; one layer more; equal bytes in another shape. */
static void other_models_are_refused(void **state)
{
    (void)state;
    static const struct {
        struct model_settings rank_0, rank_1;
        const char *text;
    } cells[] = {
        {{64, 128, 2, 10},
         {64, 127, 2, 10},
         "parameter net.0.weight has shape [128, 64] on rank 0 and [127, 64] on rank 1"},
        {{64, 128, 2, 10}, {64, 128, 3, 10}, "rank 0 has 6 parameters and rank 1 has 8"},
        {{128, 64, 1, 10},
         {64, 128, 1, 10},
         "parameter net.0.weight has shape [64, 128] on rank 0 and [128, 64] on rank 1"},
        {{64, 128, 2, 10}, {64, 128, 2, 10, .type = ELEMENT_BF16}, "parameter net.0.weight is fp32 on rank 0 and bf16 on rank 1"},
    };
    for (size_t i = 0; i < COUNT(cells); i++) {
        struct training ddp;
        struct model models[2];
        const char *const arguments[] = {MODEL, "--gpus", "2", NULL};
        assert_int_equal(training_open(&ddp, &strategy_ddp, arguments), 0);
        assert_int_equal(model_open(&models[0], "mlp", &cells[i].rank_0), 0);
        assert_int_equal(model_open(&models[1], "mlp", &cells[i].rank_1), 0);
        ddp.other_models = models;
        check_refused(&ddp, EXIT_CHECK_FAILED, cells[i].text);
        model_close(&models[0]);
        model_close(&models[1]);
        training_close(&ddp);
    }
}

static void nothing_to_train_is_refused(void **state)
{
    (void)state;
    struct training ddp;
    struct model empty[2] = {{0}};
    const char *const arguments[] = {MODEL, "--gpus", "2", NULL};
    assert_int_equal(training_open(&ddp, &strategy_ddp, arguments), 0);
    ddp.other_models = empty;
    check_refused(&ddp, EXIT_USAGE, "no parameter to train");
    training_close(&ddp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_dp_and_single),
        cmocka_unit_test(text_models_equal_dp_and_single),
        cmocka_unit_test(an_lstm_accumulates),
        cmocka_unit_test(scale_of_gradients),
        cmocka_unit_test(overlap_changes_no_bit),
        cmocka_unit_test(bucket_sizes_change_nothing),
        cmocka_unit_test(mean_of_means),
        cmocka_unit_test(bytes_are_the_formula),
        cmocka_unit_test(memory_is_the_formula),
        cmocka_unit_test(other_models_are_refused),
        cmocka_unit_test(nothing_to_train_is_refused),
    };
    return cmocka_run_group_tests(tests, configure_devices, NULL);
}
