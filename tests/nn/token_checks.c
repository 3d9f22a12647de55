/* SPDX-License-Identifier: MIT */
#include "token_checks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/tensors.h"
#include "hashed.h"
#include "nn/loss.h"
#include "sys/exit_codes.h"

#define TOKENS_MOST 8 /* of a sample */

void token_open(struct trial *trial, const struct token_model *model)
{
    trial_open_model(trial, model->name, &(struct model_settings){0}, TOKEN_BATCH);
    hashed_fill(trial, TOKEN_BATCH, model->size);
}

void token_backward(struct trial *trial, size_t batch, bool accumulate, gradient_ready *ready, void *context)
{
    struct replica *r = &trial->replica;
    struct loss loss;
    float scale = 1.0F / (float)(TOKEN_BATCH * trial->model.targets);
    assert_int_equal(loss_open(&loss, &trial->model, 0, batch), 0);
    assert_int_equal(trial->model.type->forward(r, batch, true), 0);
    assert_int_equal(loss_enqueue(&loss, r->d_logits, r->logits, r->labels, batch, scale, r->compute), 0);
    assert_int_equal(trial->model.type->backward(r, r->d_logits, batch, accumulate, ready, context), 0);
    assert_int_equal(cudaStreamSynchronize(r->compute), cudaSuccess);
    loss_close(&loss);
}

/* ---- gradients against finite differences ---- */

struct sample {
    token_reference_loss *loss;
    int32_t tokens[TOKEN_BATCH * TOKENS_MOST], labels[TOKEN_BATCH * TOKENS_MOST];
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
            loss[side] = sample->loss(&trial->model, parameters, sample->tokens, sample->labels, TOKEN_BATCH);
        }
        parameters[index][j] = kept;
        expected[picked] = (float)((loss[1] - loss[0]) / (2 * h));
        gradient[picked] = found[j];
    }
    double difference = tensor_difference(gradient, expected, picked);
    if (!(difference <= 2e-5))
        fail_msg("gradient of %s differs by %g from finite differences", trial->model.parameters[index].name, difference);
}

void check_gradients_against_differences(void **state)
{
    const struct token_model *model = *state;
    struct trial trial;
    struct sample sample;
    token_open(&trial, model);
    sample.loss = model->reference_loss;
    assert_true(trial.model.input_count <= TOKENS_MOST);
    for (size_t i = 0; i < TOKEN_BATCH * trial.model.input_count; i++) {
        sample.tokens[i] = hashed_token(0, i, trial.model.classes);
        sample.labels[i] = hashed_token(1, i, trial.model.classes);
    }
    token_backward(&trial, TOKEN_BATCH, false, NULL, NULL);
    char *gradients = flat_read(&trial.replica, trial.replica.gradients);
    double **parameters = double_parameters(&trial.replica);
    for (int i = 0; i < trial.model.parameter_count; i++)
        expect_differences(&trial, parameters, &sample, i, flat_parameter(&trial.model, gradients, i));
    double_parameters_free(&trial.model, parameters);
    free(gradients);
    trial_close(&trial);
}

/* ---- the ready callback ---- */

int token_log_ready(void *context, int index)
{
    struct token_ready *ready = context;
    ready->order[ready->count++] = index;
    return ready->count == ready->stop_at ? EXIT_CHECK_FAILED : 0;
}

/* At each place where a callback may end the pass, it does. */
void check_ready_can_end_the_pass(void **state)
{
    const struct token_model *model = *state;
    struct trial trial;
    token_open(&trial, model);
    for (int stop = 1; stop <= trial.model.parameter_count; stop++) {
        struct token_ready ready = {.stop_at = stop};
        assert_int_equal(trial.model.type->forward(&trial.replica, TOKEN_BATCH, true), 0);
        assert_int_equal(
            trial.model.type->backward(&trial.replica, trial.replica.d_logits, TOKEN_BATCH, false, token_log_ready, &ready),
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

void check_ready_means_enqueued(void **state)
{
    const struct token_model *model = *state;
    struct trial trial;
    struct snapshot snapshot = {.trial = &trial};
    token_open(&trial, model);
    assert_int_equal(cudaMallocHost((void **)&snapshot.pinned, trial.model.flat_bytes), cudaSuccess);
    memset(snapshot.pinned, 0, trial.model.flat_bytes);
    token_backward(&trial, TOKEN_BATCH, false, copy_ready, &snapshot);
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

void check_accumulation(void **state)
{
    const struct token_model *model = *state;
    struct trial trial;
    token_open(&trial, model);
    token_backward(&trial, TOKEN_BATCH, false, NULL, NULL);
    char *one = flat_read(&trial.replica, trial.replica.gradients);
    token_backward(&trial, TOKEN_BATCH, true, NULL, NULL);
    token_backward(&trial, 0, true, NULL, NULL); /* adds nothing */
    token_backward(&trial, TOKEN_BATCH, true, NULL, NULL);
    char *three = flat_read(&trial.replica, trial.replica.gradients);
    token_backward(&trial, TOKEN_BATCH, false, NULL, NULL); /* overwrites */
    char *again = flat_read(&trial.replica, trial.replica.gradients);
    assert_memory_equal(again, one, trial.model.flat_bytes);
    expect_multiple(&trial, three, one, 3);
    free(one);
    free(three);
    free(again);
    trial_close(&trial);
}

/* Two parts accumulated are the whole: what scatter and all-reduce rely on. The second part is moved to the front. */
void check_parts_add_up(void **state)
{
    const struct token_model *model = *state;
    struct trial trial;
    size_t first = 3;
    token_open(&trial, model);
    token_backward(&trial, TOKEN_BATCH, false, NULL, NULL);
    char *whole = flat_read(&trial.replica, trial.replica.gradients);
    token_backward(&trial, first, false, NULL, NULL);
    int32_t *tokens = trial.replica.input, *labels = trial.replica.labels;
    trial.replica.input = tokens + first * trial.model.input_count;
    trial.replica.labels = labels + first * trial.model.targets;
    token_backward(&trial, TOKEN_BATCH - first, true, NULL, NULL);
    trial.replica.input = tokens;
    trial.replica.labels = labels;
    char *parts = flat_read(&trial.replica, trial.replica.gradients);
    expect_multiple(&trial, parts, whole, 1);
    free(whole);
    free(parts);
    trial_close(&trial);
}

void check_empty_batch_gives_zeros(void **state)
{
    const struct token_model *model = *state;
    struct trial trial;
    token_open(&trial, model);
    token_backward(&trial, TOKEN_BATCH, false, NULL, NULL);
    token_backward(&trial, 0, false, NULL, NULL);
    char *flat = flat_read(&trial.replica, trial.replica.gradients);
    for (size_t i = 0; i < trial.model.flat_bytes; i++)
        assert_int_equal(flat[i], 0);
    free(flat);
    trial_close(&trial);
}
