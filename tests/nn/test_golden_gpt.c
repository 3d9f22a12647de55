/* SPDX-License-Identifier: MIT
 *
 * The GPT models against PyTorch (golden_gpt.py): logits, loss, every gradient, 10 steps of SGD. Of gpt-nano 16 values of each
 * tensor and its norm. And the names and sizes of all of them.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "data/tensors.h"
#include "device.h"
#include "golden.h"
#include "hashed.h"
#include "nn/loss.h"
#include "nn/optimizer.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

#define STEPS 10
#define PICKS 16
#define TOLERANCE 1e-4 /* max|a-b| / max|b| per tensor */

struct subject {
    const char *model, *kind; /* kind: its prefix in the golden file */
    size_t batch;
    float size; /* of the matrices' elements */
    bool picked;
};

static struct golden golden;

static void expect_close(const char *prefix, const char *name, const float *found, size_t count)
{
    double difference = tensor_difference(found, golden_values(&golden, prefix, name, count), count);
    if (!(difference <= TOLERANCE))
        fail_msg("%s%s differs from PyTorch's by %g, allowed is %g", prefix, name, difference, TOLERANCE);
}

/* All of a small model's tensor; else values from 16 equal pieces, and the norm. */
static void expect_tensor(const struct subject *subject, const char *group, const char *name, const float *found, size_t count)
{
    char prefix[64];
    float picks[PICKS], norm;
    double squares = 0;

    snprintf(prefix, sizeof prefix, "%s/%s", subject->kind, group);
    if (!subject->picked) {
        expect_close(prefix, name, found, count);
        return;
    }
    for (size_t k = 0; k < PICKS; k++)
        picks[k] = found[k * (count / PICKS) + k * 7 % (count / PICKS)];
    expect_close(prefix, name, picks, PICKS);
    for (size_t i = 0; i < count; i++)
        squares += (double)found[i] * (double)found[i];
    norm = (float)sqrt(squares);
    snprintf(prefix, sizeof prefix, "%s/norm/%s", subject->kind, group);
    expect_close(prefix, name, &norm, 1);
}

static void expect_parameters(const struct subject *subject, struct trial *trial, const void *flat_device, const char *group)
{
    char *flat = flat_read(&trial->replica, flat_device);
    for (int i = 0; i < trial->model.parameter_count; i++)
        expect_tensor(subject, group, trial->model.parameters[i].name, flat_parameter(&trial->model, flat, i),
                      trial->model.parameters[i].count);
    free(flat);
}

static void expect_outputs(const struct subject *subject, struct trial *trial, const struct loss *loss)
{
    size_t rows = subject->batch * trial->model.targets, count = rows * trial->model.classes;
    float *logits = malloc(count * sizeof *logits), mean = *loss->host_sum / (float)rows;
    char prefix[64];

    assert_non_null(logits);
    device_read(&trial->replica, logits, trial->replica.logits, count * sizeof *logits);
    expect_tensor(subject, "", "logits", logits, count);
    snprintf(prefix, sizeof prefix, "%s/", subject->kind);
    expect_close(prefix, "loss", &mean, 1);
    free(logits);
}

static void step(struct trial *trial, struct loss *loss, struct optimizer *optimizer, size_t batch)
{
    struct replica *r = &trial->replica;
    float scale = 1 / ((float)batch * (float)trial->model.targets);

    assert_int_equal(trial->model.type->forward(r, batch, true), 0);
    assert_int_equal(loss_enqueue(loss, r->d_logits, r->logits, r->labels, batch, scale, r->compute), 0);
    assert_int_equal(trial->model.type->backward(r, r->d_logits, batch, false, NULL, NULL), 0);
    assert_int_equal(optimizer_step(optimizer), 0);
    assert_int_equal(cudaStreamSynchronize(r->compute), cudaSuccess);
}

/* A replica with room for one sample more than it is given: activations are found by the room, not by the batch. */
static void test_against_pytorch(void **state)
{
    const struct subject *subject = *state;
    struct trial trial;
    struct loss loss;
    struct optimizer optimizer;
    const struct optimizer_settings sgd = {.kind = OPTIMIZER_SGD, .lr = 0.1f, .momentum = 0.9f};

    trial_open_model(&trial, subject->model, &(struct model_settings){0}, subject->batch + 1);
    hashed_fill(&trial, subject->batch, subject->size);
    assert_int_equal(loss_open(&loss, &trial.model, 0, subject->batch), 0);
    assert_int_equal(optimizer_open(&optimizer, &sgd, &trial.replica), 0);
    for (int i = 0; i < STEPS; i++) {
        step(&trial, &loss, &optimizer, subject->batch);
        if (i > 0)
            continue;
        expect_outputs(subject, &trial, &loss);
        expect_parameters(subject, &trial, trial.replica.gradients, "gradient/");
    }
    expect_parameters(subject, &trial, trial.replica.parameters, "sgd/");
    optimizer_close(&optimizer);
    loss_close(&loss);
    trial_close(&trial);
}

/* ---- names and sizes ---- */

static void test_sizes(void **state)
{
    static const struct {
        const char *name;
        size_t parameters; /* as PyTorch counts them */
        int tensors;
    } expected[] = {{"gpt-tiny", 4008, 28}, {"gpt-nano", 842496, 52}, {"gpt-micro", 10844160, 76}, {"gpt2-124m", 124475904, 148}};
    struct model model;

    (void)state;
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        assert_int_equal(model_open(&model, expected[i].name, &(struct model_settings){0}), EXIT_OK);
        assert_int_equal(model.parameter_elements, expected[i].parameters);
        assert_int_equal(model.parameter_count, expected[i].tensors);
        assert_string_equal(model.parameters[0].name, "wte.weight");
        assert_string_equal(model.parameters[4].name, "h.0.attn.qkv.weight");
        assert_string_equal(model.parameters[model.parameter_count - 1].name, "lnf.bias");
        assert_true(model.tokens && model.targets == model.input_count);
        model_close(&model);
    }
}

static void test_refusals(void **state)
{
    struct model model;

    (void)state;
    assert_int_equal(model_open(&model, "gpt-nano", &(struct model_settings){.heads = 5}), EXIT_USAGE);
    assert_int_equal(model_open(&model, "gpt-nano", &(struct model_settings){.depth = 5}), EXIT_USAGE);
    assert_int_equal(model_open(&model, "gpt-nano", &(struct model_settings){.layers = SIZE_MAX}), EXIT_USAGE);
    assert_int_equal(model_open(&model, "gpt-mini", &(struct model_settings){0}), EXIT_USAGE);
}

static int open_golden(void **state)
{
    (void)state;
    golden_open(&golden, GOLDEN_FILE);
    return 0;
}

static int close_golden(void **state)
{
    (void)state;
    golden_close(&golden);
    return 0;
}

int main(void)
{
    static struct subject tiny = {"gpt-tiny", "tiny", 5, 0.5f, false}, nano = {"gpt-nano", "nano", 2, 0.0625f, true};

    log_set_program("test_golden_gpt");
    device_setup();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test_prestate(test_against_pytorch, &tiny),
        cmocka_unit_test_prestate(test_against_pytorch, &nano),
    };
    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
