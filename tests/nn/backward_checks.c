/* SPDX-License-Identifier: MIT */
#include "backward_checks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/tensors.h"
#include "nn/loss.h"
#include "sys/exit_codes.h"

void backward_pass(struct trial *trial, size_t batch, bool accumulate, gradient_ready *ready, void *context)
{
    struct replica *r = &trial->replica;
    struct loss loss;
    float scale = 1.0F / (float)(r->batch_max * trial->model.targets);
    assert_int_equal(loss_open(&loss, &trial->model, 0, batch), 0);
    assert_int_equal(trial->model.type->forward(r, batch, true), 0);
    assert_int_equal(loss_enqueue(&loss, r->d_logits, r->logits, r->labels, batch, scale, r->compute), 0);
    assert_int_equal(trial->model.type->backward(r, r->d_logits, batch, accumulate, ready, context), 0);
    assert_int_equal(cudaStreamSynchronize(r->compute), cudaSuccess);
    loss_close(&loss);
}

/* The gradients of such a pass, in new memory (free). */
static char *gradients_of(struct trial *trial, size_t batch, bool accumulate)
{
    backward_pass(trial, batch, accumulate, NULL, NULL);
    return flat_read(&trial->replica, trial->replica.gradients);
}

/* The trial's batch on the host. */
struct samples {
    char *input;
    int32_t *labels;
};

static struct samples samples_read(struct trial *trial)
{
    struct replica *r = &trial->replica;
    struct samples samples = {malloc(r->batch_max * trial->model.input_bytes),
                              malloc(r->batch_max * trial->model.label_bytes)};
    assert_non_null(samples.input);
    assert_non_null(samples.labels);
    device_read(r, samples.input, r->input, r->batch_max * trial->model.input_bytes);
    device_read(r, samples.labels, r->labels, r->batch_max * trial->model.label_bytes);
    return samples;
}

static void samples_free(struct samples *samples)
{
    free(samples->input);
    free(samples->labels);
}

/* ---- gradients against finite differences ---- */

/* Of the loss in double, by one element; the step is far from both rounding and curvature. */
static double central_difference(const struct backward_subject *subject, const struct trial *trial, double **parameters,
                                 const struct samples *samples, double *element)
{
    const double h = 1e-6, kept = *element;
    double loss[2];
    for (int side = 0; side < 2; side++) {
        *element = side ? kept + h : kept - h;
        loss[side] =
            subject->loss(&trial->model, parameters, samples->input, samples->labels, trial->replica.batch_max);
    }
    *element = kept;
    return (loss[1] - loss[0]) / (2 * h);
}

static void expect_differences(const struct backward_subject *subject, const struct trial *trial, double **parameters,
                               const struct samples *samples, int index, const float *found)
{
    size_t count = trial->model.parameters[index].count, step = count / subject->picks + 1, picked = 0;
    float *gradient = calloc(count, sizeof *gradient), *expected = calloc(count, sizeof *expected);
    assert_non_null(gradient);
    assert_non_null(expected);
    for (size_t j = 0; j < count && picked < subject->picks; j += step, picked++) {
        expected[picked] = (float)central_difference(subject, trial, parameters, samples, &parameters[index][j]);
        gradient[picked] = found[j];
    }
    double difference = tensor_difference(gradient, expected, picked);
    if (!(difference <= subject->difference_limit))
        fail_msg("gradient of %s differs by %g from finite differences", trial->model.parameters[index].name,
                 difference);
    free(gradient);
    free(expected);
}

void check_gradients_against_differences(void **state)
{
    const struct backward_subject *subject = *state;
    struct trial trial;
    subject->open(&trial);
    struct samples samples = samples_read(&trial);
    char *gradients = gradients_of(&trial, trial.replica.batch_max, false);
    double **parameters = double_parameters(&trial.replica);
    for (int i = 0; i < trial.model.parameter_count; i++)
        expect_differences(subject, &trial, parameters, &samples, i, flat_parameter(&trial.model, gradients, i));
    double_parameters_free(&trial.model, parameters);
    samples_free(&samples);
    free(gradients);
    trial_close(&trial);
}

/* ---- the ready callback ---- */

struct ready_log {
    int count, order[256];
    int stop_at; /* ends the pass after so many; 0: never */
};

static int log_ready(void *context, int index)
{
    struct ready_log *ready = context;
    assert_in_range(ready->count, 0, sizeof ready->order / sizeof ready->order[0] - 1);
    ready->order[ready->count++] = index;
    return ready->count == ready->stop_at ? EXIT_CHECK_FAILED : 0;
}

void check_ready_order(void **state)
{
    const struct backward_subject *subject = *state;
    struct trial trial;
    int names = 0;
    while (subject->ready_order[names])
        names++;
    subject->open(&trial);
    assert_int_equal(names, trial.model.parameter_count);
    for (int empty = 0; empty < 2; empty++) {
        struct ready_log ready = {0};
        backward_pass(&trial, empty ? 0 : trial.replica.batch_max, false, log_ready, &ready);
        assert_int_equal(ready.count, names);
        for (int i = 0; i < ready.count; i++)
            assert_string_equal(trial.model.parameters[ready.order[i]].name, subject->ready_order[i]);
    }
    trial_close(&trial);
}

void check_ready_can_end_the_pass(void **state)
{
    const struct backward_subject *subject = *state;
    struct trial trial;
    subject->open(&trial);
    struct replica *r = &trial.replica;
    for (int stop = 1; stop <= trial.model.parameter_count; stop++) {
        struct ready_log ready = {.stop_at = stop};
        assert_int_equal(trial.model.type->forward(r, r->batch_max, true), 0);
        assert_int_equal(trial.model.type->backward(r, r->d_logits, r->batch_max, false, log_ready, &ready),
                         EXIT_CHECK_FAILED);
        assert_int_equal(ready.count, stop);
    }
    assert_int_equal(cudaStreamSynchronize(r->compute), cudaSuccess);
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
    const struct backward_subject *subject = *state;
    struct trial trial;
    struct snapshot snapshot = {.trial = &trial};
    subject->open(&trial);
    assert_int_equal(cudaMallocHost((void **)&snapshot.pinned, trial.model.flat_bytes), cudaSuccess);
    memset(snapshot.pinned, 0, trial.model.flat_bytes);
    backward_pass(&trial, trial.replica.batch_max, false, copy_ready, &snapshot);
    char *flat = flat_read(&trial.replica, trial.replica.gradients);
    assert_memory_equal(snapshot.pinned, flat, trial.model.flat_bytes);
    free(flat);
    assert_int_equal(cudaFreeHost(snapshot.pinned), cudaSuccess);
    trial_close(&trial);
}

/* ---- sums ---- */

/* Each tensor of `found` is `factor` times that of `one`, to rounding. */
static void expect_multiple(const struct trial *trial, char *found, char *one, float factor, double limit)
{
    for (int i = 0; i < trial->model.parameter_count; i++) {
        size_t count = trial->model.parameters[i].count;
        float *expected = flat_parameter(&trial->model, one, i);
        for (size_t j = 0; j < count; j++)
            expected[j] *= factor;
        double difference = tensor_difference(flat_parameter(&trial->model, found, i), expected, count);
        if (!(difference <= limit))
            fail_msg("gradient of %s differs by %g from %g times itself", trial->model.parameters[i].name, difference,
                     (double)factor);
    }
}

void check_accumulation(void **state)
{
    const struct backward_subject *subject = *state;
    struct trial trial;
    subject->open(&trial);
    size_t batch = trial.replica.batch_max;
    char *one = gradients_of(&trial, batch, false);
    char *nothing_added = gradients_of(&trial, 0, true);
    assert_memory_equal(nothing_added, one, trial.model.flat_bytes);
    backward_pass(&trial, batch, true, NULL, NULL);
    char *three = gradients_of(&trial, batch, true);
    char *again = gradients_of(&trial, batch, false); /* overwrites */
    assert_memory_equal(again, one, trial.model.flat_bytes);
    expect_multiple(&trial, three, one, 3, subject->sum_limit);
    free(one);
    free(nothing_added);
    free(three);
    free(again);
    trial_close(&trial);
}

/* The second part is moved to the front. */
void check_parts_add_up(void **state)
{
    const struct backward_subject *subject = *state;
    struct trial trial;
    subject->open(&trial);
    const struct model *model = &trial.model;
    struct replica *r = &trial.replica;
    size_t first = (r->batch_max + 1) / 2, second = r->batch_max - first;
    struct samples samples = samples_read(&trial);
    char *whole = gradients_of(&trial, r->batch_max, false);
    backward_pass(&trial, first, false, NULL, NULL);
    device_write(r, r->input, samples.input + first * model->input_bytes, second * model->input_bytes);
    device_write(r, r->labels, samples.labels + first * model->targets, second * model->label_bytes);
    char *parts = gradients_of(&trial, second, true);
    expect_multiple(&trial, parts, whole, 1, subject->sum_limit);
    samples_free(&samples);
    free(whole);
    free(parts);
    trial_close(&trial);
}

void check_empty_batch_gives_zeros(void **state)
{
    const struct backward_subject *subject = *state;
    struct trial trial;
    subject->open(&trial);
    struct ready_log ready = {0};
    backward_pass(&trial, trial.replica.batch_max, false, NULL, NULL);
    backward_pass(&trial, 0, false, log_ready, &ready);
    assert_int_equal(ready.count, trial.model.parameter_count);
    char *flat = flat_read(&trial.replica, trial.replica.gradients);
    for (size_t i = 0; i < trial.model.flat_bytes; i++)
        assert_int_equal(flat[i], 0);
    free(flat);
    trial_close(&trial);
}

void check_same_bits_again(void **state)
{
    const struct backward_subject *subject = *state;
    struct trial one, two;
    subject->open(&one);
    subject->open(&two);
    char *a = gradients_of(&one, one.replica.batch_max, false), *b = gradients_of(&two, two.replica.batch_max, false);
    assert_memory_equal(a, b, one.model.flat_bytes);
    free(a);
    free(b);
    trial_close(&one);
    trial_close(&two);
}
