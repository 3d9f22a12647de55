/* SPDX-License-Identifier: MIT
 *
 * The mlp against PyTorch (golden_mlp.py): logits, loss, every gradient, 10 steps of each optimizer,
 * clipped and by schedules too, and the schedules' learning rates.
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
#include "golden.h"
#include "nn/loss.h"
#include "nn/optimizer.h"
#include "sys/log.h"

#define INPUTS 13
#define WIDTH 17
#define DEPTH 2
#define CLASSES 5
#define BATCH 7
#define STEPS 10
#define TOLERANCE 1e-5 /* max|a-b| / max|b| per tensor */

static struct golden golden;
static struct trial trial;
static struct loss loss;

/* Not (a > b): that would be false for NaN. */
static void expect_close(const char *name, const float *found, const float *expected, size_t count)
{
    double difference = tensor_difference(found, expected, count);
    if (!(difference <= TOLERANCE))
        fail_msg("%s differs from PyTorch's by %g, allowed is %g", name, difference, TOLERANCE);
}

static void expect_parameters(const float *flat_device, const char *prefix)
{
    char *flat = flat_read(&trial.replica, flat_device);
    for (int i = 0; i < trial.model.parameter_count; i++) {
        const struct parameter *p = &trial.model.parameters[i];
        const float *expected = golden_values(&golden, prefix, p->name, p->count);
        expect_close(p->name, flat_parameter(&trial.model, flat, i), expected, p->count);
    }
    free(flat);
}

/* The fixed weights, input and labels onto the device. */
static int fill(void **state)
{
    (void)state;
    char *flat = calloc(1, trial.model.flat_bytes);
    int32_t labels[BATCH];

    assert_non_null(flat);
    for (int i = 0; i < trial.model.parameter_count; i++) {
        const struct parameter *p = &trial.model.parameters[i];
        memcpy(flat + p->offset, golden_values(&golden, "", p->name, p->count), p->count * sizeof(float));
    }
    assert_int_equal(replica_write(&trial.replica, trial.replica.parameters, flat), 0);
    free(flat);
    for (int i = 0; i < BATCH; i++)
        labels[i] = (int32_t)golden_values(&golden, "", "labels", BATCH)[i];
    device_write(&trial.replica, trial.replica.labels, labels, sizeof labels);
    device_write(&trial.replica, trial.replica.input, golden_values(&golden, "", "input", BATCH * INPUTS),
                 BATCH * INPUTS * sizeof(float));
    return 0;
}

static int setup(void **state)
{
    (void)state;
    struct model_settings settings = {.inputs = INPUTS, .width = WIDTH, .depth = DEPTH, .classes = CLASSES};
    golden_open(&golden, GOLDEN_FILE);
    trial_open(&trial, &settings, BATCH);
    return loss_open(&loss, &trial.model, 0, BATCH);
}

static int teardown(void **state)
{
    (void)state;
    loss_close(&loss);
    trial_close(&trial);
    golden_close(&golden);
    return 0;
}

static void forward_backward(void)
{
    struct replica *r = &trial.replica;
    assert_int_equal(trial.model.type->forward(r, BATCH, true), 0);
    assert_int_equal(loss_enqueue(&loss, r->d_logits, r->logits, r->labels, BATCH, 1.0f / BATCH, r->compute), 0);
    assert_int_equal(trial.model.type->backward(r, r->d_logits, BATCH, false, NULL, NULL), 0);
}

static void test_forward_and_gradients(void **state)
{
    (void)state;
    float logits[BATCH * CLASSES], mean;
    forward_backward();
    device_read(&trial.replica, logits, trial.replica.logits, sizeof logits);
    expect_close("logits", logits, golden_values(&golden, "", "logits", BATCH * CLASSES), BATCH * CLASSES);
    mean = *loss.host_sum / BATCH;
    expect_close("loss", &mean, golden_values(&golden, "", "loss", 1), 1);
    expect_parameters(trial.replica.gradients, "gradient/");
}

static void expect_training(const struct optimizer_settings *settings, const char *prefix)
{
    struct optimizer optimizer;
    assert_int_equal(optimizer_open(&optimizer, settings, &trial.replica), 0);
    for (int round = 0; round < 2; round++) { /* a reset optimizer is a new one */
        fill(NULL);
        for (int step = 0; step < STEPS; step++) {
            forward_backward();
            assert_int_equal(optimizer_step(&optimizer), 0);
        }
        assert_int_equal(optimizer.updates, STEPS);
        expect_parameters(trial.replica.parameters, prefix);
        assert_int_equal(optimizer_reset(&optimizer), 0);
    }
    optimizer_close(&optimizer);
}

static void test_sgd(void **state)
{
    (void)state;
    struct optimizer_settings settings = {.kind = OPTIMIZER_SGD, .lr = 0.1f, .momentum = 0.9f, .weight_decay = 1e-4f};
    expect_training(&settings, "sgd/");
}

static void test_adamw(void **state)
{
    (void)state;
    struct optimizer_settings settings = {
        .kind = OPTIMIZER_ADAMW, .lr = 0.01f, .weight_decay = 0.01f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f};
    expect_training(&settings, "adamw/");
}

static void test_nesterov(void **state)
{
    (void)state;
    struct optimizer_settings settings = {
        .kind = OPTIMIZER_SGD, .lr = 0.1f, .momentum = 0.9f, .weight_decay = 1e-4f, .nesterov = true};
    expect_training(&settings, "nesterov/");
}

static void test_adam(void **state)
{
    (void)state;
    struct optimizer_settings settings = {
        .kind = OPTIMIZER_ADAM, .lr = 0.01f, .weight_decay = 0.01f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f};
    expect_training(&settings, "adam/");
    settings.clip_norm = 1e9f; /* never clips: but then the step is counted on the device */
    expect_training(&settings, "adam/");
}

static void test_clipped(void **state)
{
    (void)state;
    struct optimizer_settings settings = {.kind = OPTIMIZER_SGD, .lr = 0.1f, .momentum = 0.9f, .clip_norm = 0.5f};
    expect_training(&settings, "clipped/");
}

static void test_schedules(void **state)
{
    (void)state;
    struct optimizer_settings settings = {.kind = OPTIMIZER_SGD, .lr = 0.1f, .momentum = 0.9f, .total_updates = STEPS};
    settings.schedule = SCHEDULE_COSINE;
    expect_training(&settings, "cosine/");
    settings.schedule = SCHEDULE_LINEAR;
    expect_training(&settings, "linear/");
}

static void test_learning_rates(void **state)
{
    (void)state;
    enum { WARM_UP = 4, UPDATES = 20 };
    static const struct {
        const char *name;
        enum lr_schedule schedule;
    } schedules[] = {{"cosine", SCHEDULE_COSINE}, {"linear", SCHEDULE_LINEAR}};
    struct optimizer_settings settings = {.lr = 1, .warmup_updates = WARM_UP, .total_updates = UPDATES};
    float found[UPDATES];
    for (int s = 0; s < 2; s++) {
        settings.schedule = schedules[s].schedule;
        for (int i = 0; i < UPDATES; i++)
            found[i] = optimizer_lr(&settings, i);
        expect_close(schedules[s].name, found, golden_values(&golden, "rates/", schedules[s].name, UPDATES), UPDATES);
        assert_true(optimizer_lr(&settings, UPDATES) == 0);
        assert_true(optimizer_lr(&settings, UPDATES + 5) == 0);
    }
    settings.schedule = SCHEDULE_CONSTANT;
    assert_true(optimizer_lr(&settings, 1) == 0.5f);
    assert_true(optimizer_lr(&settings, 7) == 1);
}

static void test_evaluation(void **state)
{
    (void)state;
    struct replica *r = &trial.replica;
    const float *logits = golden_values(&golden, "", "logits", BATCH * CLASSES);
    const float *labels = golden_values(&golden, "", "labels", BATCH);
    int expected = 0;

    for (int i = 0; i < BATCH; i++) {
        int best = 0;
        for (int c = 1; c < CLASSES; c++)
            if (logits[i * CLASSES + c] > logits[i * CLASSES + best])
                best = c;
        expected += best == (int)labels[i];
    }
    assert_int_equal(trial.model.type->forward(r, BATCH, true), 0);
    assert_int_equal(loss_enqueue_evaluation(&loss, r->logits, r->labels, BATCH, r->compute), 0);
    assert_int_equal(cudaStreamSynchronize(r->compute), cudaSuccess);
    assert_int_equal(*loss.host_correct, expected);
    assert_int_equal(loss_enqueue_evaluation(&loss, r->logits, r->labels, 0, r->compute), 0);
    assert_int_equal(cudaStreamSynchronize(r->compute), cudaSuccess);
    assert_int_equal(*loss.host_correct, 0);
    assert_true(*loss.host_sum == 0);
}

int main(void)
{
    log_set_program("test_golden");
    device_setup();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_forward_and_gradients, fill),
        cmocka_unit_test_setup(test_sgd, fill),
        cmocka_unit_test_setup(test_adamw, fill),
        cmocka_unit_test_setup(test_nesterov, fill),
        cmocka_unit_test_setup(test_adam, fill),
        cmocka_unit_test_setup(test_clipped, fill),
        cmocka_unit_test_setup(test_schedules, fill),
        cmocka_unit_test(test_learning_rates),
        cmocka_unit_test_setup(test_evaluation, fill),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
