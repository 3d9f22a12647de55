/* SPDX-License-Identifier: MIT
 *
 * The gradients of the residual networks against finite differences of a plain version in double: convolutions with all their
 * windows and strides, BatchNorm in training through its statistics, ReLU behind a residual, average and maximum pooling; what a
 * strategy relies on; the descriptions.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backward_checks.h"
#include "data/tensors.h"
#include "device.h"
#include "hashed.h"
#include "nn/loss.h"
#include "reference_resnet.h"
#include "sys/log.h"

#define BATCH 3
#define PICKED 24        /* elements of a tensor: each costs two or more forward passes in double */
#define TOLERANCE 1e-4   /* max|a-b| / max|b| of a tensor */
#define INPUTS_MOST 1100 /* of a sample */

struct sample {
    float input[BATCH * INPUTS_MOST];
    int32_t labels[BATCH];
};

/* Filters about as large as PyTorch makes them, BatchNorm's weights round 1, all other vectors round 0. */
static float parameter_value(const struct parameter *p, int index, size_t element)
{
    float x = hashed((uint32_t)index, element);

    if (p->dims > 1)
        return x * 4 / sqrtf((float)(p->count / p->shape[0]));
    return x * 0.5F + (strstr(p->name, "weight") ? 1 : 0);
}

static void fill(struct trial *trial, struct sample *sample)
{
    const struct model *model = &trial->model;
    struct replica *r = &trial->replica;
    char *flat = calloc(1, model->flat_bytes);

    assert_non_null(flat);
    assert_true(model->input_count <= INPUTS_MOST);
    for (int i = 0; i < model->parameter_count; i++)
        for (size_t j = 0; j < model->parameters[i].count; j++)
            flat_parameter(model, flat, i)[j] = parameter_value(&model->parameters[i], i, j);
    for (size_t i = 0; i < BATCH * model->input_count; i++)
        sample->input[i] = 2 * hashed(2000, i);
    for (size_t i = 0; i < BATCH; i++)
        sample->labels[i] = hashed_token(0, i, model->classes);
    assert_int_equal(replica_initialize(r, 1), 0);
    assert_int_equal(replica_write(r, r->parameters, flat), 0);
    device_write(r, r->input, sample->input, BATCH * model->input_bytes);
    device_write(r, r->labels, sample->labels, sizeof sample->labels);
    free(flat);
}

static void forward_backward(struct trial *trial, const double expected_loss)
{
    struct replica *r = &trial->replica;
    struct loss loss;

    assert_int_equal(loss_open(&loss, &trial->model, 0, BATCH), 0);
    assert_int_equal(trial->model.type->forward(r, BATCH, true), 0);
    assert_int_equal(loss_enqueue(&loss, r->d_logits, r->logits, r->labels, BATCH, 1.0F / BATCH, r->compute), 0);
    assert_int_equal(trial->model.type->backward(r, r->d_logits, BATCH, false, NULL, NULL), 0);
    assert_int_equal(cudaStreamSynchronize(r->compute), cudaSuccess);
    assert_true(fabs((double)*loss.host_sum / BATCH - expected_loss) <= 1e-5 * expected_loss);
    loss_close(&loss);
}

/* The central difference of the loss by *parameter, of the widest step that crosses no corner of a ReLU or a maximum. */
static double difference(const struct model *model, double **parameters, const struct sample *sample, double *parameter)
{
    const double kept = *parameter;
    double loss[2], h = 1e-5;
    struct reference_path path[2];

    for (int tries = 0;; tries++, h /= 8) {
        for (int side = 0; side < 2; side++) {
            *parameter = side ? kept + h : kept - h;
            loss[side] = reference_resnet_loss(model, parameters, sample->input, sample->labels, BATCH, &path[side]);
        }
        *parameter = kept;
        if (path[0].hash == path[1].hash)
            return (loss[1] - loss[0]) / (2 * h);
        if (tries == 4)
            fail_msg("a corner of the loss within %g: choose other numbers", h);
    }
}

static void expect_differences(const struct model *model, double **parameters, const struct sample *sample, int index,
                               const float *found)
{
    size_t count = model->parameters[index].count, step = count / PICKED + 1, picked = 0;
    float gradient[PICKED] = {0}, expected[PICKED] = {0};

    for (size_t j = 0; j < count; j += step, picked++) {
        expected[picked] = (float)difference(model, parameters, sample, &parameters[index][j]);
        gradient[picked] = found[j];
    }
    double apart = tensor_difference(gradient, expected, picked);
    if (!(apart <= TOLERANCE))
        fail_msg("gradient of %s differs by %g from finite differences, allowed is %g", model->parameters[index].name, apart,
                 TOLERANCE);
}

static void check_network(const char *name, const struct model_settings *settings)
{
    static struct sample sample;
    struct trial trial;

    trial_open_model(&trial, name, settings, BATCH);
    fill(&trial, &sample);
    double **parameters = double_parameters(&trial.replica);
    forward_backward(&trial, reference_resnet_loss(&trial.model, parameters, sample.input, sample.labels, BATCH, NULL));
    char *gradients = flat_read(&trial.replica, trial.replica.gradients);
    for (int i = 0; i < trial.model.parameter_count; i++)
        expect_differences(&trial.model, parameters, &sample, i, flat_parameter(&trial.model, gradients, i));
    double_parameters_free(&trial.model, parameters);
    free(gradients);
    trial_close(&trial);
}

/* 3 x 3 with strides 1 and 2, 1 x 1 with stride 2, blocks with and without a shortcut, average pooling; odd heights 7, 4, 2. */
static void test_resnet20(void **state)
{
    (void)state;
    check_network("resnet20", &(struct model_settings){.inputs = 3 * 7 * 7, .width = 3, .depth = 2, .classes = 4});
}

/* 7 x 7 with stride 2, maximum pooling, bottlenecks, 1 x 1 with stride 1; heights 33, 17, 9, 5, 3, 2. */
static void test_resnet50(void **state)
{
    (void)state;
    check_network("resnet50", &(struct model_settings){.inputs = 33 * 33, .width = 2, .depth = 1, .classes = 4});
}

/* ---- what a strategy relies on ---- */

/* Without the ready order (test_golden_resnet.c) and the sum of parts, which with a BatchNorm is not the whole. */
static void open_filled(struct trial *trial)
{
    static struct sample sample;

    trial_open_model(trial, "resnet20", &(struct model_settings){.inputs = 3 * 8 * 8, .width = 4, .depth = 1, .classes = 5}, BATCH);
    fill(trial, &sample);
}

static struct backward_subject subject = {.open = open_filled, .sum_limit = 2e-6};

/* ---- descriptions ------------------------------------------------------------------------------------------------ */

static void test_descriptions(void **state)
{
    (void)state;
    static const struct model_settings none = {0}, bad[] = {{.inputs = 3 * 7}, {.width = 2000}, {.depth = 11}};
    struct model model;

    assert_int_equal(model_open(&model, "resnet20", &none), 0);
    assert_int_equal(model.parameter_elements, 272474);
    assert_int_equal(model.buffer_count, 2 * 21);
    assert_string_equal(model.parameters[0].name, "conv.weight");
    assert_string_equal(model.parameters[model.parameter_count - 1].name, "fc.bias");
    assert_string_equal(model.buffers[1].name, "bn.running_var");
    model_close(&model);
    assert_int_equal(model_open(&model, "resnet50", &none), 0);
    assert_int_equal(model.parameter_elements, 25557032);
    assert_int_equal(model.parameter_count, 161);
    assert_string_equal(model.parameters[12].name, "layer1.0.downsample.0.weight");
    model_close(&model);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_not_equal(model_open(&model, "resnet20", &bad[i]), 0);
}

int main(void)
{
    log_set_program("test_resnet");
    device_setup();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resnet20),
        cmocka_unit_test(test_resnet50),
        cmocka_unit_test_prestate(check_ready_can_end_the_pass, &subject),
        cmocka_unit_test_prestate(check_ready_means_enqueued, &subject),
        cmocka_unit_test_prestate(check_accumulation, &subject),
        cmocka_unit_test_prestate(check_empty_batch_gives_zeros, &subject),
        cmocka_unit_test_prestate(check_same_bits_again, &subject),
        cmocka_unit_test(test_descriptions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
