/* SPDX-License-Identifier: MIT
 *
 * What a strategy relies on, of the mlp: names and layout, initial values, memory, the backward pass.
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
#include "device.h"
#include "gpu/memory.h"
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

/* The small model with seeded weights and a batch that is the same in all tests. */
static void open_filled(struct trial *trial)
{
    float input[BATCH * 11];
    int32_t labels[BATCH];
    trial_open(trial, &small, BATCH);
    assert_int_equal(replica_initialize(&trial->replica, 3), 0);
    for (size_t i = 0; i < BATCH * small.inputs; i++)
        input[i] = random_normal(4, 0, i);
    for (size_t i = 0; i < BATCH; i++)
        labels[i] = (int32_t)(i % small.classes);
    device_write(&trial->replica, trial->replica.input, input, sizeof input);
    device_write(&trial->replica, trial->replica.labels, labels, sizeof labels);
}

/* The last layer first, bias before weight. */
static const char *const ready_order[] = {"net.6.bias", "net.6.weight", "net.4.bias", "net.4.weight",
                                          "net.2.bias", "net.2.weight", "net.0.bias", "net.0.weight", NULL};

static struct backward_subject subject = {open_filled, ready_order, reference_mlp_loss, .picks = SIZE_MAX,
                                          .difference_limit = 1e-5, .sum_limit = 1e-6};

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
        BACKWARD_CHECKS(&subject),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
