/* SPDX-License-Identifier: MIT
 *
 * What a strategy relies on: names and layout, initial values, gradients, the ready order, accumulation, empty batches.
 */
#include <math.h>
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
#include "nn/loss.h"
#include "reference_mlp.h"
#include "sys/exit_codes.h"
#include "sys/log.h"
#include "sys/random.h"

#define BATCH 9

static const struct model_settings small = {.inputs = 11, .width = 19, .depth = 3, .classes = 7};

/* ---- description ---- */

static void test_defaults_and_names(void **state)
{
    (void)state;
    struct model model;
    assert_int_equal(model_open(&model, "mlp", &(struct model_settings){0}), EXIT_OK);
    assert_int_equal(model.parameter_count, 10);
    assert_int_equal(model.parameter_elements, 3962890); /* as PyTorch counts them */
    assert_string_equal(model.parameters[0].name, "net.0.weight");
    assert_string_equal(model.parameters[1].name, "net.0.bias");
    assert_string_equal(model.parameters[8].name, "net.8.weight");
    assert_string_equal(model.parameters[9].name, "net.8.bias");
    assert_int_equal(model.parameters[8].shape[0], 10);
    assert_int_equal(model.parameters[8].shape[1], 1024);
    assert_int_equal(model.input_bytes, 784 * sizeof(float));
    assert_int_equal(model.output_bytes, 10 * sizeof(float));
    model_close(&model);
}

static void test_layout(void **state)
{
    (void)state;
    struct model model;
    size_t end = 0;
    assert_int_equal(model_open(&model, "mlp", &small), EXIT_OK);
    for (int i = 0; i < model.parameter_count; i++) {
        assert_int_equal(model.parameters[i].offset % PARAMETER_ALIGNMENT, 0);
        assert_in_range(model.parameters[i].offset, end, end + PARAMETER_ALIGNMENT - 1);
        end = model.parameters[i].offset + model.parameters[i].count * sizeof(float);
    }
    assert_in_range(model.flat_bytes, end, end + PARAMETER_ALIGNMENT - 1);
    model_close(&model);
}

static void test_refusals(void **state)
{
    (void)state;
    struct model model;
    assert_int_equal(model_open(&model, "mpl", &small), EXIT_USAGE);
    assert_non_null(strstr(log_last_error(), "mlp"));
    assert_int_equal(model_open(&model, "mlp", &(struct model_settings){.width = SIZE_MAX}), EXIT_USAGE);
    assert_int_equal(model_open(&model, "mlp", &(struct model_settings){.depth = 1000000}), EXIT_USAGE);
}

/* ---- replica ---- */

static void test_initial_values(void **state)
{
    (void)state;
    struct trial one, two;
    uint64_t sum_one, sum_two, sum_other;
    trial_open(&one, &small, BATCH);
    trial_open(&two, &small, 1);
    assert_int_equal(replica_initialize(&one.replica, 5), 0);
    assert_int_equal(replica_initialize(&two.replica, 5), 0);
    assert_int_equal(replica_checksum(&one.replica, &sum_one), 0);
    assert_int_equal(replica_checksum(&two.replica, &sum_two), 0);
    assert_true(sum_one == sum_two);
    assert_int_equal(replica_initialize(&two.replica, 6), 0);
    assert_int_equal(replica_checksum(&two.replica, &sum_other), 0);
    assert_true(sum_one != sum_other);

    char *flat = flat_read(&one.replica, one.replica.parameters);
    for (int i = 0; i < one.model.parameter_count; i++) {
        const struct parameter *p = &one.model.parameters[i];
        const float *values = flat_parameter(&one.model, flat, i);
        float bound = (float)(1 / sqrt((double)(i < 2 ? small.inputs : small.width))), largest = 0;
        for (size_t j = 0; j < p->count; j++)
            largest = fmaxf(largest, fabsf(values[j]));
        assert_true(largest <= bound && largest > 0.5f * bound);
        size_t end = i + 1 < one.model.parameter_count ? p[1].offset : one.model.flat_bytes;
        for (size_t b = p->offset + p->count * sizeof(float); b < end; b++)
            assert_int_equal(flat[b], 0);
    }
    free(flat);
    trial_close(&one);
    trial_close(&two);
}

static void test_checksum_sees_each_bit(void **state)
{
    (void)state;
    struct trial trial;
    uint64_t before, after;
    trial_open(&trial, &small, 1);
    assert_int_equal(replica_initialize(&trial.replica, 1), 0);
    assert_int_equal(replica_checksum(&trial.replica, &before), 0);
    char *flat = flat_read(&trial.replica, trial.replica.parameters);
    flat_parameter(&trial.model, flat, 3)[5] += 1e-7f;
    assert_int_equal(replica_write(&trial.replica, trial.replica.parameters, flat), 0);
    assert_int_equal(replica_checksum(&trial.replica, &after), 0);
    assert_true(before != after);
    free(flat);
    trial_close(&trial);
}

/* Larger than one staging buffer, so that pieces are joined right. */
static void test_large_flat_buffers(void **state)
{
    (void)state;
    struct trial trial;
    trial_open(&trial, &(struct model_settings){.inputs = 1500, .width = 1000, .depth = 1, .classes = 3}, 1);
    assert_true(trial.model.flat_bytes > (size_t)4 << 20);
    unsigned char *flat = malloc(trial.model.flat_bytes);
    assert_non_null(flat);
    for (size_t i = 0; i < trial.model.flat_bytes; i++)
        flat[i] = (unsigned char)(i * 7 + i / 251);
    assert_int_equal(replica_write(&trial.replica, trial.replica.parameters, flat), 0);
    char *back = flat_read(&trial.replica, trial.replica.parameters);
    assert_memory_equal(back, flat, trial.model.flat_bytes);
    free(back);
    free(flat);
    trial_close(&trial);
}

static void test_memory_by_category(void **state)
{
    (void)state;
    struct trial trial;
    trial_open(&trial, &small, BATCH);
    assert_int_equal(memory_current(0, MEMORY_PARAMETERS), trial.model.flat_bytes);
    assert_int_equal(memory_current(0, MEMORY_GRADIENTS), trial.model.flat_bytes);
    assert_int_equal(memory_current(0, MEMORY_ACTIVATIONS), (small.depth + 1) * BATCH * small.width * sizeof(float));
    assert_int_equal(memory_current(0, MEMORY_OUTPUTS), 2 * BATCH * small.classes * sizeof(float));
    assert_int_equal(memory_current(0, MEMORY_DATA), BATCH * (small.inputs + 1) * sizeof(float));
    trial_close(&trial);
    for (int category = 0; category < MEMORY_CATEGORIES; category++)
        assert_int_equal(memory_current(0, (enum memory_category)category), 0);
}

/* ---- gradients ---- */

static float input[BATCH * 11];
static int32_t labels[BATCH];

/* Opens the small model with seeded weights and a batch that is the same in all tests. */
static void open_filled(struct trial *trial)
{
    trial_open(trial, &small, BATCH);
    assert_int_equal(replica_initialize(&trial->replica, 3), 0);
    for (size_t i = 0; i < BATCH * small.inputs; i++)
        input[i] = random_normal(4, 0, i);
    for (size_t i = 0; i < BATCH; i++)
        labels[i] = (int32_t)(i % small.classes);
    device_write(&trial->replica, trial->replica.input, input, sizeof input);
    device_write(&trial->replica, trial->replica.labels, labels, sizeof labels);
}

static void backward(struct trial *trial, size_t batch, bool accumulate, gradient_ready *ready, void *context)
{
    struct replica *r = &trial->replica;
    struct loss loss;
    assert_int_equal(loss_open(&loss, &trial->model, 0, batch), 0);
    assert_int_equal(trial->model.type->forward(r, batch, true), 0);
    assert_int_equal(loss_enqueue(&loss, r->d_logits, r->logits, r->labels, batch, 1.0f / BATCH, r->compute), 0);
    assert_int_equal(trial->model.type->backward(r, r->d_logits, batch, accumulate, ready, context), 0);
    assert_int_equal(cudaStreamSynchronize(r->compute), cudaSuccess);
    loss_close(&loss);
}

/* Central differences of the loss in double; h is far from both rounding and curvature. */
static void difference_gradient(const struct model *model, double *const *parameters, int index, float *gradient)
{
    const double h = 1e-6;
    for (size_t j = 0; j < model->parameters[index].count; j++) {
        double kept = parameters[index][j];
        parameters[index][j] = kept + h;
        double above = reference_loss(model, parameters, input, labels, BATCH);
        parameters[index][j] = kept - h;
        double below = reference_loss(model, parameters, input, labels, BATCH);
        parameters[index][j] = kept;
        gradient[j] = (float)((above - below) / (2 * h));
    }
}

static void test_gradients_against_differences(void **state)
{
    (void)state;
    struct trial trial;
    double *parameters[8];
    open_filled(&trial);
    backward(&trial, BATCH, false, NULL, NULL);
    char *values = flat_read(&trial.replica, trial.replica.parameters);
    char *gradients = flat_read(&trial.replica, trial.replica.gradients);
    assert_int_equal(trial.model.parameter_count, 8);
    for (int i = 0; i < 8; i++) {
        size_t count = trial.model.parameters[i].count;
        parameters[i] = calloc(count, sizeof(double));
        assert_non_null(parameters[i]);
        for (size_t j = 0; j < count; j++)
            parameters[i][j] = flat_parameter(&trial.model, values, i)[j];
    }
    for (int i = 0; i < 8; i++) {
        size_t count = trial.model.parameters[i].count;
        float *expected = calloc(count, sizeof(float));
        assert_non_null(expected);
        difference_gradient(&trial.model, parameters, i, expected);
        double difference = tensor_difference(flat_parameter(&trial.model, gradients, i), expected, count);
        if (!(difference <= 1e-5))
            fail_msg("gradient of %s differs by %g from finite differences", trial.model.parameters[i].name,
                     difference);
        free(expected);
    }
    for (int i = 0; i < 8; i++)
        free(parameters[i]);
    free(values);
    free(gradients);
    trial_close(&trial);
}

struct ready_log {
    int count, order[16], stop_at;
};

static int log_ready(void *context, int index)
{
    struct ready_log *ready = context;
    ready->order[ready->count++] = index;
    return ready->count == ready->stop_at ? EXIT_CHECK_FAILED : 0;
}

/* Autograd's order: the last layer first, bias before weight, each once; the same for an empty batch. */
static void test_ready_order(void **state)
{
    (void)state;
    static const int expected[8] = {7, 6, 5, 4, 3, 2, 1, 0};
    struct trial trial;
    open_filled(&trial);
    for (size_t batch = 0; batch <= BATCH; batch += BATCH) {
        struct ready_log ready = {0};
        backward(&trial, batch, false, log_ready, &ready);
        assert_int_equal(ready.count, 8);
        assert_memory_equal(ready.order, expected, sizeof expected);
    }
    trial_close(&trial);
}

static void test_ready_can_end_the_pass(void **state)
{
    (void)state;
    struct trial trial;
    struct ready_log ready = {.stop_at = 3};
    open_filled(&trial);
    assert_int_equal(trial.model.type->forward(&trial.replica, BATCH, true), 0);
    assert_int_equal(
        trial.model.type->backward(&trial.replica, trial.replica.d_logits, BATCH, false, log_ready, &ready),
        EXIT_CHECK_FAILED);
    assert_int_equal(ready.count, 3);
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
    (void)state;
    struct trial trial;
    struct snapshot snapshot = {.trial = &trial};
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

/* Each tensor of `found` is `factor` times that of `one`, to rounding. */
static void expect_multiple(const struct trial *trial, char *found, char *one, float factor)
{
    for (int i = 0; i < trial->model.parameter_count; i++) {
        size_t count = trial->model.parameters[i].count;
        float *expected = flat_parameter(&trial->model, one, i);
        for (size_t j = 0; j < count; j++)
            expected[j] *= factor;
        assert_true(tensor_difference(flat_parameter(&trial->model, found, i), expected, count) <= 1e-6);
    }
}

static void test_accumulation(void **state)
{
    (void)state;
    struct trial trial;
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

/* Two halves accumulated are the whole: what scatter and all-reduce rely on. */
static void test_parts_add_up(void **state)
{
    (void)state;
    struct trial trial;
    size_t first = 5;
    open_filled(&trial);
    backward(&trial, BATCH, false, NULL, NULL);
    char *whole = flat_read(&trial.replica, trial.replica.gradients);
    backward(&trial, first, false, NULL, NULL);
    device_write(&trial.replica, trial.replica.input, input + first * small.inputs,
                 (BATCH - first) * small.inputs * sizeof(float));
    device_write(&trial.replica, trial.replica.labels, labels + first, (BATCH - first) * sizeof labels[0]);
    backward(&trial, BATCH - first, true, NULL, NULL);
    char *parts = flat_read(&trial.replica, trial.replica.gradients);
    expect_multiple(&trial, parts, whole, 1);
    free(whole);
    free(parts);
    trial_close(&trial);
}

static void test_empty_batch_gives_zeros(void **state)
{
    (void)state;
    struct trial trial;
    open_filled(&trial);
    backward(&trial, BATCH, false, NULL, NULL);
    backward(&trial, 0, false, NULL, NULL);
    char *flat = flat_read(&trial.replica, trial.replica.gradients);
    for (size_t i = 0; i < trial.model.flat_bytes; i++)
        assert_int_equal(flat[i], 0);
    free(flat);
    trial_close(&trial);
}

static void test_same_bits_again(void **state)
{
    (void)state;
    struct trial one, two;
    open_filled(&one);
    open_filled(&two);
    backward(&one, BATCH, false, NULL, NULL);
    backward(&two, BATCH, false, NULL, NULL);
    char *a = flat_read(&one.replica, one.replica.gradients), *b = flat_read(&two.replica, two.replica.gradients);
    assert_memory_equal(a, b, one.model.flat_bytes);
    free(a);
    free(b);
    trial_close(&one);
    trial_close(&two);
}

int main(void)
{
    log_set_program("test_mlp");
    device_setup();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_and_names),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_initial_values),
        cmocka_unit_test(test_checksum_sees_each_bit),
        cmocka_unit_test(test_large_flat_buffers),
        cmocka_unit_test(test_memory_by_category),
        cmocka_unit_test(test_gradients_against_differences),
        cmocka_unit_test(test_ready_order),
        cmocka_unit_test(test_ready_can_end_the_pass),
        cmocka_unit_test(test_ready_means_enqueued),
        cmocka_unit_test(test_accumulation),
        cmocka_unit_test(test_parts_add_up),
        cmocka_unit_test(test_empty_batch_gives_zeros),
        cmocka_unit_test(test_same_bits_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
