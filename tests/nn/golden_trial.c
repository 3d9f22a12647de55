/* SPDX-License-Identifier: MIT */
#include "golden_trial.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
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

#define STEPS 10
#define PICKS 16
#define TOLERANCE 1e-4 /* max|a-b| / max|b| per tensor */

static struct golden golden;

static void expect_close(const char *prefix, const char *name, const float *found, size_t count)
{
    double difference = tensor_difference(found, golden_values(&golden, prefix, name, count), count);
    if (!(difference <= TOLERANCE))
        fail_msg("%s%s differs from PyTorch's by %g, allowed is %g", prefix, name, difference, TOLERANCE);
}

/* All of a small model's tensor; else values from 16 equal pieces, and the norm. */
static void expect_tensor(const struct golden_subject *subject, const char *group, const char *name, const float *found,
                          size_t count)
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

static void expect_parameters(const struct golden_subject *subject, struct trial *trial, const void *flat_device, const char *group)
{
    char *flat = flat_read(&trial->replica, flat_device);
    for (int i = 0; i < trial->model.parameter_count; i++)
        expect_tensor(subject, group, trial->model.parameters[i].name, flat_parameter(&trial->model, flat, i),
                      trial->model.parameters[i].count);
    free(flat);
}

static void expect_outputs(const struct golden_subject *subject, struct trial *trial, const struct loss *loss)
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
void golden_trial_run(void **state)
{
    const struct golden_subject *subject = *state;
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

int golden_trial_open(void **state)
{
    (void)state;
    golden_open(&golden, GOLDEN_FILE);
    return 0;
}

int golden_trial_close(void **state)
{
    (void)state;
    golden_close(&golden);
    return 0;
}
