/* SPDX-License-Identifier: MIT
 *
 * Training in 16 bit, and gradients as views of buckets, with ranks as threads: what is equal bit for bit, what within
 * rounding, what is held in memory, and that no way of summing rounds more than once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "data/tensors.h"
#include "ddp_multi_process/strategy.h"
#include "dp_single_process/dp.h"
#include "good_training.h"
#include "gpu/backend.h"
#include "gpu/memory.h"
#include "nn/model_types.h"

#define MODEL "--model", "mlp", "--data", "digits", "--depth", "3", "--lr", "0.1"
#define SMALL "--width", "64"
#define WIDE "--width", "512", "--gpus", "2", "--global-batch", "30" /* several buckets */

static void train_with(struct training *training, const struct strategy *strategy, const struct model_type *type,
                       const char *const *arguments)
{
    good_training(training, strategy, type, arguments, 4);
}
#define TRAIN(training, strategy, ...)                                                                                 \
    train_with(training, strategy, NULL, (const char *const[]){MODEL, __VA_ARGS__, NULL})

/* Of all parameters as if they were one tensor: the small ones beside the large. */
static double of_parameters(const struct training *a, const struct training *b)
{
    return tensor_difference(a->parameters, b->parameters, a->model.flat_elements);
}

static void expect_same_bits(const struct training *a, const struct training *b)
{
    assert_memory_equal(a->parameters, b->parameters, a->model.float_bytes);
    assert_memory_equal(a->gradients, b->gradients, a->model.float_bytes);
}

/* N a power of two, even pieces. A power of two scales a 16-bit number exactly as long as it stays normal: in bfloat16
 * always, in practice (down to 1e-38). A half below 6e-5 is not normal: DP's gradients are N times smaller than DDP's
 * before the 1/N, so there they may differ by a rounding of 6e-8. */
static void dp_and_ddp_agree(void **state)
{
    (void)state;
    static const char *const ranks[] = {"1", "2", "4", "8"}, *const transports[] = {"nccl", "p2p"};
    static const struct {
        const char *name;
        bool bits;
        double limit;
    } types[] = {{"bf16", true, 0}, {"fp16", false, 2e-3}};
    for (size_t t = 0; t < COUNT(types); t++)
        for (size_t n = 0; n < COUNT(ranks); n++) {
            struct training ddp, dp;
            const char *name = types[t].name;
            TRAIN(&ddp, &strategy_ddp, SMALL, "--global-batch", "32", "--gpus", ranks[n], "--precision", name);
            for (size_t k = 0; k < COUNT(transports); k++) {
                TRAIN(&dp, &strategy_dp, SMALL, "--global-batch", "32", "--gpus", ranks[n], "--precision", name,
                      "--dp-transport", transports[k]);
                if (types[t].bits)
                    expect_same_bits(&dp, &ddp);
                assert_true(of_parameters(&dp, &ddp) <= types[t].limit);
                training_close(&dp);
            }
            training_close(&ddp);
        }
}

/* The same of an LSTM, which adds up over time what it rounds in every step. */
static void dp_and_ddp_agree_on_an_lstm(void **state)
{
    (void)state;
    static const char *const ranks[] = {"1", "2", "4"}, *const types[] = {"bf16", "fp16"};
    for (size_t t = 0; t < COUNT(types); t++)
        for (size_t n = 0; n < COUNT(ranks); n++) {
            const char *const lstm[] = {"--model", "lstm-tiny", "--lr", "0.1", "--global-batch", "8", "--gpus", ranks[n],
                                        "--precision", types[t], NULL};
            struct training ddp, dp;
            train_with(&ddp, &strategy_ddp, NULL, lstm);
            train_with(&dp, &strategy_dp, NULL, lstm);
            if (t == 0)
                expect_same_bits(&dp, &ddp);
            assert_true(of_parameters(&dp, &ddp) <= 2e-3);
            assert_true(ddp.loss_last < ddp.loss_first);
            training_close(&dp);
            training_close(&ddp);
        }
}

/* The gradients' sum over 8 devices is rounded once: both transports of DP have the same bits also where N is no power of
 * two and pieces are uneven, with and without accumulation. */
static void both_transports_round_once(void **state)
{
    (void)state;
    static const char *const types[] = {"bf16", "fp16"}, *const accumulations[] = {"1", "3"};
    for (size_t t = 0; t < COUNT(types); t++)
        for (size_t k = 0; k < COUNT(accumulations); k++) {
            struct training nccl, p2p;
            TRAIN(&nccl, &strategy_dp, SMALL, "--global-batch", "100", "--gpus", "7", "--precision", types[t],
                  "--accumulate", accumulations[k], "--dp-transport", "nccl");
            TRAIN(&p2p, &strategy_dp, SMALL, "--global-batch", "100", "--gpus", "7", "--precision", types[t],
                  "--accumulate", accumulations[k], "--dp-transport", "p2p");
            expect_same_bits(&nccl, &p2p);
            training_close(&nccl);
            training_close(&p2p);
        }
}

/* 64 micro-batches of one row each: added up in bfloat16 the sum loses 4 %. */
static void accumulation_loses_nothing(void **state)
{
    (void)state;
    static const struct strategy *const strategies[] = {&strategy_single, &strategy_dp, &strategy_ddp};
    struct training whole;
    TRAIN(&whole, &strategy_single, SMALL, "--strategy", "single", "--global-batch", "64", "--precision", "bf16", "--momentum", "0",
          "--lr", "0");
    for (size_t s = 0; s < COUNT(strategies); s++) {
        struct training pieces;
        const char *const single[] = {MODEL, SMALL, "--global-batch", "64", "--accumulate", "64", "--precision", "bf16",
                                      "--lr", "0", "--momentum", "0", s ? "--gpus" : "--strategy", s ? "1" : "single", NULL};
        train_with(&pieces, strategies[s], NULL, single);
        double found = gradients_apart(&pieces, &whole);
        print_message("%s: gradients differ from the whole batch's by %.2e\n", strategies[s]->name, found);
        assert_true(found < 1.5e-2);
        training_close(&pieces);
    }
    training_close(&whole);
}

/* ---- trials.md 23 in 16 bit ------------------------------------------------------------------------------------------------- */

static void the_same_bits_each_time(void **state)
{
    (void)state;
    static const struct strategy *const strategies[] = {&strategy_dp, &strategy_ddp};
    const char *const arguments[] = {MODEL, SMALL, "--global-batch", "32", "--gpus", "4", "--precision", "bf16", NULL};
    for (size_t s = 0; s < COUNT(strategies); s++) {
        struct training first, again;
        good_training(&first, strategies[s], NULL, arguments, 100);
        for (int run = 0; run < 4; run++) {
            good_training(&again, strategies[s], NULL, arguments, 100);
            expect_same_bits(&again, &first);
            training_close(&again);
        }
        training_close(&first);
    }
}

/* Each element's sum goes over the ranks in their order, whichever bucket it is in. */
static void bucket_sizes_change_no_bit(void **state)
{
    (void)state;
    static const char *const caps[] = {"0", "0.1", "1", "1000"};
    struct training reference, other;
    TRAIN(&reference, &strategy_ddp, WIDE, "--precision", "bf16");
    for (size_t i = 0; i < COUNT(caps); i++) {
        TRAIN(&other, &strategy_ddp, WIDE, "--precision", "bf16", "--bucket-cap-mb", caps[i]);
        expect_same_bits(&other, &reference);
        training_close(&other);
    }
    TRAIN(&other, &strategy_ddp, WIDE, "--precision", "bf16", "--no-overlap");
    expect_same_bits(&other, &reference);
    training_close(&other);
    training_close(&reference);
}

/* Parameters, masters on those that update, gradients, fp32 state, buckets. */
static void memory_is_the_formula(void **state)
{
    (void)state;
    static const struct {
        const char *precision;
        size_t element, parameters; /* parameters: bytes of an element with its master */
    } types[] = {{"fp32", 4, 4}, {"bf16", 2, 6}, {"fp16", 2, 6}};
    for (size_t t = 0; t < COUNT(types); t++)
        for (int views = 0; views < 2; views++) {
            struct training ddp;
            memory_reset_peaks();
            TRAIN(&ddp, &strategy_ddp, SMALL, "--gpus", "2", "--global-batch", "32", "--precision", types[t].precision,
                  views ? "--gradient-as-bucket-view" : "--timeout=30");
            const struct model *model = &ddp.model;
            size_t control = t == 2 ? sizeof(struct update_control) : 0;
            for (int device = 0; device < 2; device++) {
                assert_int_equal(memory_peak(device, MEMORY_PARAMETERS), model->flat_elements * types[t].parameters);
                assert_int_equal(memory_peak(device, MEMORY_GRADIENTS), model->flat_elements * types[t].element);
                assert_int_equal(memory_peak(device, MEMORY_OPTIMIZER), model->flat_elements * 4 + control);
                assert_int_equal(memory_peak(device, MEMORY_COMMUNICATION),
                                 views ? 0 : model->parameter_elements * types[t].element);
            }
            training_close(&ddp);
        }
}

/* DP's replicas hold the working copy alone. */
static void dp_holds_masters_on_device_0(void **state)
{
    (void)state;
    struct training dp;
    memory_reset_peaks();
    TRAIN(&dp, &strategy_dp, SMALL, "--gpus", "2", "--global-batch", "32", "--precision", "bf16");
    assert_int_equal(memory_peak(0, MEMORY_PARAMETERS), dp.model.flat_elements * 6);
    assert_int_equal(memory_peak(1, MEMORY_PARAMETERS), dp.model.flat_elements * 2);
    training_close(&dp);
}

/* ---- gradients as views of buckets ------------------------------------------------------------------------------- */

struct collected {
    int order[64], count;
};

static int collect(void *context, int index)
{
    struct collected *collected = context;
    collected->order[collected->count++] = index;
    return 0;
}

/* The mlp with gradients that become ready in another order: every third first. Then buckets hold no neighbours. */
static int shuffled_backward(struct replica *replica, const void *d_logits, size_t batch, bool accumulate,
                             gradient_ready *ready, void *context)
{
    struct collected collected = {.count = 0};
    int status = model_mlp.backward(replica, d_logits, batch, accumulate, ready ? collect : NULL, &collected);
    for (int first = 0; first < 3; first++)
        for (int i = first; i < collected.count && !status; i += 3)
            status = ready(context, collected.order[i]);
    return status;
}

static void views_change_no_bit(void **state)
{
    (void)state;
    struct model_type shuffled = model_mlp;
    shuffled.backward = shuffled_backward;
    const struct model_type *const types[] = {NULL, &shuffled};
    static const char *const precisions[] = {"fp32", "bf16", "fp16"}, *const accumulations[] = {"1", "3"};
    static const char *const optimizers[] = {"sgd", "adam"}, *const caps[] = {"25", "0.5"};
    for (unsigned cell = 0; cell < 48; cell++) {
        struct training copies, views;
        const struct model_type *type = types[cell & 1];
        const char *arguments[] = {MODEL, WIDE, "--precision", precisions[cell / 16], "--accumulate",
                                   accumulations[cell >> 1 & 1], "--optimizer", optimizers[cell >> 2 & 1],
                                   "--bucket-cap-mb", caps[cell >> 3 & 1], "--clip-norm", "1", NULL, NULL};
        train_with(&copies, &strategy_ddp, type, arguments);
        arguments[COUNT(arguments) - 2] = "--gradient-as-bucket-view";
        train_with(&views, &strategy_ddp, type, arguments);
        expect_same_bits(&copies, &views);
        assert_int_equal(copies.collectives_last, views.collectives_last);
        training_close(&copies);
        training_close(&views);
    }
}

/* trials.md 10 in 16 bit: each bucket once an update; as views with the padding of the gradients. */
static void bytes_are_the_formula(void **state)
{
    (void)state;
    static const char *const accumulations[] = {"1", "4"};
    for (int views = 0; views < 2; views++)
        for (size_t k = 0; k < COUNT(accumulations); k++) {
            struct training ddp;
            gpu_traffic_reset();
            TRAIN(&ddp, &strategy_ddp, SMALL, "--gpus", "4", "--global-batch", "32", "--precision", "bf16",
                  "--accumulate", accumulations[k], views ? "--gradient-as-bucket-view" : "--timeout=30");
            size_t bytes = views ? ddp.model.flat_bytes : ddp.model.parameter_elements * 2;
            assert_int_equal(allreduced_bytes(), 2 * 3 * bytes * (uint64_t)ddp.steps);
            training_close(&ddp);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dp_and_ddp_agree),
        cmocka_unit_test(dp_and_ddp_agree_on_an_lstm),
        cmocka_unit_test(both_transports_round_once),
        cmocka_unit_test(accumulation_loses_nothing),
        cmocka_unit_test(the_same_bits_each_time),
        cmocka_unit_test(bucket_sizes_change_no_bit),
        cmocka_unit_test(memory_is_the_formula),
        cmocka_unit_test(dp_holds_masters_on_device_0),
        cmocka_unit_test(views_change_no_bit),
        cmocka_unit_test(bytes_are_the_formula),
    };
    return cmocka_run_group_tests(tests, configure_devices, NULL);
}
