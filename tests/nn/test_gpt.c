/* SPDX-License-Identifier: MIT
 *
 * What a strategy relies on, for GPT: gradients against finite differences, the ready order, accumulation, parts of a batch,
 * empty batches, memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/tensors.h"
#include "device.h"
#include "gpu/memory.h"
#include "hashed.h"
#include "nn/loss.h"
#include "reference_gpt.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

#define BATCH 5
#define SIZE 0.5F /* of the weights */

static const struct model_settings none = {0};

static void open_filled(struct trial *trial)
{
    trial_open_model(trial, "gpt-tiny", &none, BATCH);
    hashed_fill(trial, BATCH, SIZE);
}

static void backward(struct trial *trial, size_t batch, bool accumulate, gradient_ready *ready, void *context)
{
    struct replica *r = &trial->replica;
    struct loss loss;
    float scale = 1.0F / (float)(BATCH * trial->model.targets);
    assert_int_equal(loss_open(&loss, &trial->model, 0, batch), 0);
    assert_int_equal(trial->model.type->forward(r, batch, true), 0);
    assert_int_equal(loss_enqueue(&loss, r->d_logits, r->logits, r->labels, batch, scale, r->compute), 0);
    assert_int_equal(trial->model.type->backward(r, r->d_logits, batch, accumulate, ready, context), 0);
    assert_int_equal(cudaStreamSynchronize(r->compute), cudaSuccess);
    loss_close(&loss);
}

/* ---- gradients against finite differences ---- */

static double **double_parameters(struct trial *trial)
{
    char *flat = flat_read(&trial->replica, trial->replica.parameters);
    double **parameters = calloc((size_t)trial->model.parameter_count, sizeof *parameters);
    assert_non_null(parameters);
    for (int i = 0; i < trial->model.parameter_count; i++) {
        size_t count = trial->model.parameters[i].count;
        parameters[i] = calloc(count, sizeof **parameters);
        assert_non_null(parameters[i]);
        for (size_t j = 0; j < count; j++)
            parameters[i][j] = (double)flat_parameter(&trial->model, flat, i)[j];
    }
    free(flat);
    return parameters;
}

struct sample {
    int32_t tokens[BATCH * REFERENCE_TOKENS], labels[BATCH * REFERENCE_TOKENS];
};

/* Central differences of the loss in double, of at most 24 elements of the tensor: each costs two forward passes. */
static void expect_differences(const struct trial *trial, double **parameters, const struct sample *sample, int index,
                               const float *found)
{
    const double h = 1e-5;
    size_t count = trial->model.parameters[index].count, step = count / 24 + 1;
    float gradient[24] = {0}, expected[24] = {0};
    size_t picked = 0;
    for (size_t j = 0; j < count && picked < 24; j += step, picked++) {
        double kept = parameters[index][j], loss[2];
        for (int side = 0; side < 2; side++) {
            parameters[index][j] = side ? kept + h : kept - h;
            loss[side] = reference_gpt_loss(&trial->model, parameters, sample->tokens, sample->labels, BATCH);
        }
        parameters[index][j] = kept;
        expected[picked] = (float)((loss[1] - loss[0]) / (2 * h));
        gradient[picked] = found[j];
    }
    double difference = tensor_difference(gradient, expected, picked);
    if (!(difference <= 2e-5))
        fail_msg("gradient of %s differs by %g from finite differences", trial->model.parameters[index].name, difference);
}

static void test_gradients_against_differences(void **state)
{
    struct trial trial;
    struct sample sample;
    (void)state;
    open_filled(&trial);
    for (size_t i = 0; i < BATCH * trial.model.input_count; i++) {
        sample.tokens[i] = hashed_token(0, i, trial.model.classes);
        sample.labels[i] = hashed_token(1, i, trial.model.classes);
    }
    backward(&trial, BATCH, false, NULL, NULL);
    char *gradients = flat_read(&trial.replica, trial.replica.gradients);
    double **parameters = double_parameters(&trial);
    for (int i = 0; i < trial.model.parameter_count; i++)
        expect_differences(&trial, parameters, &sample, i, flat_parameter(&trial.model, gradients, i));
    for (int i = 0; i < trial.model.parameter_count; i++)
        free(parameters[i]);
    free(parameters);
    free(gradients);
    trial_close(&trial);
}

/* ---- the ready order ---- */

struct ready_log {
    int count, order[32], stop_at;
};

static int log_ready(void *context, int index)
{
    struct ready_log *ready = context;
    ready->order[ready->count++] = index;
    return ready->count == ready->stop_at ? EXIT_CHECK_FAILED : 0;
}

/* As hooks on PyTorch's accumulators tell it (1.13 and 2.x): LayerNorm's weight before its bias, all others the other way
 * round, the tied wte last and once. The same for an empty batch. */
static void test_ready_order(void **state)
{
    static const char *const layer[] = {"proj.bias",        "proj.weight",      "fc.bias",    "fc.weight",
                                        "ln2.weight",       "ln2.bias",         "attn.proj.bias", "attn.proj.weight",
                                        "attn.qkv.bias",    "attn.qkv.weight",  "ln1.weight", "ln1.bias"};
    struct trial trial;
    (void)state;
    open_filled(&trial);
    for (size_t batch = 0; batch <= BATCH; batch += BATCH) {
        struct ready_log ready = {0};
        backward(&trial, batch, false, log_ready, &ready);
        assert_int_equal(ready.count, 28);
        const struct parameter *p = trial.model.parameters;
        assert_string_equal(p[ready.order[0]].name, "lnf.weight");
        assert_string_equal(p[ready.order[1]].name, "lnf.bias");
        for (int i = 0; i < 24; i++) {
            assert_int_equal(p[ready.order[2 + i]].name[2], i < 12 ? '1' : '0');
            assert_string_equal(p[ready.order[2 + i]].name + 4, layer[i % 12]);
        }
        assert_string_equal(p[ready.order[26]].name, "wpe.weight");
        assert_string_equal(p[ready.order[27]].name, "wte.weight");
    }
    trial_close(&trial);
}

/* At each place where a callback may end the pass, it does. */
static void test_ready_can_end_the_pass(void **state)
{
    struct trial trial;
    (void)state;
    open_filled(&trial);
    for (int stop = 1; stop <= 28; stop++) {
        struct ready_log ready = {.stop_at = stop};
        assert_int_equal(trial.model.type->forward(&trial.replica, BATCH, true), 0);
        assert_int_equal(
            trial.model.type->backward(&trial.replica, trial.replica.d_logits, BATCH, false, log_ready, &ready),
            EXIT_CHECK_FAILED);
        assert_int_equal(ready.count, stop);
    }
    assert_int_equal(cudaStreamSynchronize(trial.replica.compute), cudaSuccess);
    trial_close(&trial);
}

/* When a gradient is told ready, the work that writes it is enqueued: a copy enqueued now reads the final value. */
struct snapshot {
    struct trial *trial;
    char *pinned; /* flat */
};

static int copy_ready(void *context, int index)
{
    struct snapshot *snapshot = context;
    const struct parameter *p = &snapshot->trial->model.parameters[index];
    struct replica *r = &snapshot->trial->replica;
    return cudaMemcpyAsync(snapshot->pinned + p->offset, replica_gradient(r, index), p->count * sizeof(float),
                           cudaMemcpyDeviceToHost, r->compute) != cudaSuccess;
}

static void test_ready_means_enqueued(void **state)
{
    struct trial trial;
    struct snapshot snapshot = {.trial = &trial};
    (void)state;
    open_filled(&trial);
    assert_int_equal(cudaMallocHost((void **)&snapshot.pinned, trial.model.flat_bytes), cudaSuccess);
    memset(snapshot.pinned, 0, trial.model.flat_bytes);
    backward(&trial, BATCH, false, copy_ready, &snapshot);
    char *flat = flat_read(&trial.replica, trial.replica.gradients);
    assert_memory_equal(snapshot.pinned, flat, trial.model.flat_bytes);
    free(flat);
    assert_int_equal(cudaFreeHost(snapshot.pinned), cudaSuccess);
    trial_close(&trial);
}

/* ---- sums ---- */

/* Each tensor of `found` is `factor` times that of `one`, to rounding. */
static void expect_multiple(const struct trial *trial, char *found, char *one, float factor)
{
    for (int i = 0; i < trial->model.parameter_count; i++) {
        size_t count = trial->model.parameters[i].count;
        float *expected = flat_parameter(&trial->model, one, i);
        for (size_t j = 0; j < count; j++)
            expected[j] *= factor;
        double difference = tensor_difference(flat_parameter(&trial->model, found, i), expected, count);
        if (!(difference <= 2e-6))
            fail_msg("gradient of %s differs by %g from %g times itself", trial->model.parameters[i].name, difference,
                     (double)factor);
    }
}

static void test_accumulation(void **state)
{
    struct trial trial;
    (void)state;
    open_filled(&trial);
    backward(&trial, BATCH, false, NULL, NULL);
    char *one = flat_read(&trial.replica, trial.replica.gradients);
    backward(&trial, BATCH, true, NULL, NULL);
    backward(&trial, 0, true, NULL, NULL); /* adds nothing */
    backward(&trial, BATCH, true, NULL, NULL);
    char *three = flat_read(&trial.replica, trial.replica.gradients);
    backward(&trial, BATCH, false, NULL, NULL); /* overwrites */
    char *again = flat_read(&trial.replica, trial.replica.gradients);
    assert_memory_equal(again, one, trial.model.flat_bytes);
    expect_multiple(&trial, three, one, 3);
    free(one);
    free(three);
    free(again);
    trial_close(&trial);
}

/* Two parts accumulated are the whole: what scatter and all-reduce rely on. The second part is moved to the front. */
static void test_parts_add_up(void **state)
{
    struct trial trial;
    size_t first = 3;
    (void)state;
    open_filled(&trial);
    backward(&trial, BATCH, false, NULL, NULL);
    char *whole = flat_read(&trial.replica, trial.replica.gradients);
    backward(&trial, first, false, NULL, NULL);
    int32_t *tokens = trial.replica.input, *labels = trial.replica.labels;
    trial.replica.input = tokens + first * trial.model.input_count;
    trial.replica.labels = labels + first * trial.model.targets;
    backward(&trial, BATCH - first, true, NULL, NULL);
    trial.replica.input = tokens;
    trial.replica.labels = labels;
    char *parts = flat_read(&trial.replica, trial.replica.gradients);
    expect_multiple(&trial, parts, whole, 1);
    free(whole);
    free(parts);
    trial_close(&trial);
}

static void test_empty_batch_gives_zeros(void **state)
{
    struct trial trial;
    (void)state;
    open_filled(&trial);
    backward(&trial, BATCH, false, NULL, NULL);
    backward(&trial, 0, false, NULL, NULL);
    char *flat = flat_read(&trial.replica, trial.replica.gradients);
    for (size_t i = 0; i < trial.model.flat_bytes; i++)
        assert_int_equal(flat[i], 0);
    free(flat);
    trial_close(&trial);
}

/* Logits and their gradient are outputs; all else that a pass needs is activations, to the byte (a tensor's begin is a
 * multiple of 256). n tokens: 3 blocks, statistics and order; each layer 16 n c, P and 2 statistics. */
static void test_memory_by_category(void **state)
{
    struct trial trial;
    (void)state;
    trial_open_model(&trial, "gpt-nano", &none, 2);
    const struct model_settings *s = &trial.model.settings;
    size_t n = 2 * s->block, row = n * s->width * sizeof(float), statistics = 2 * n * sizeof(float);
    size_t kept = 2 * s->heads * (64 * 64 + 64 * 128) * sizeof(float); /* two blocks of 64 rows */
    size_t layer = 16 * row + kept + 2 * statistics;
    assert_int_equal(memory_current(0, MEMORY_OUTPUTS), 2 * n * s->vocabulary * sizeof(float));
    assert_int_equal(memory_current(0, MEMORY_DATA), 2 * n * sizeof(int32_t));
    assert_int_equal(memory_current(0, MEMORY_ACTIVATIONS),
                     s->layers * layer + 3 * row + statistics + n * sizeof(int32_t));
    trial_close(&trial);
    for (int category = 0; category < MEMORY_CATEGORIES; category++)
        assert_int_equal(memory_current(0, (enum memory_category)category), 0);
}

int main(void)
{
    log_set_program("test_gpt");
    device_setup();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients_against_differences),
        cmocka_unit_test(test_ready_order),
        cmocka_unit_test(test_ready_can_end_the_pass),
        cmocka_unit_test(test_ready_means_enqueued),
        cmocka_unit_test(test_accumulation),
        cmocka_unit_test(test_parts_add_up),
        cmocka_unit_test(test_empty_batch_gives_zeros),
        cmocka_unit_test(test_memory_by_category),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
