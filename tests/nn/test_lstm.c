/* SPDX-License-Identifier: MIT
 *
 * What a strategy relies on, of the LSTM: the backward pass, the zeros before the first step, memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "backward_checks.h"
#include "device.h"
#include "gpu/memory.h"
#include "hashed.h"
#include "reference_lstm.h"
#include "sys/log.h"

#define BATCH 5

static void open_filled(struct trial *trial)
{
    trial_open_model(trial, "lstm-tiny", &(struct model_settings){0}, BATCH);
    hashed_fill(trial, BATCH, 1);
}

/* As hooks on PyTorch's accumulators tell it (golden_lstm.py prints it): the recurrent part before that of the input. */
static const char *const ready_order[] = {"head.bias",       "head.weight",       "lstm.bias_hh_l0",  "lstm.weight_hh_l0",
                                          "lstm.bias_ih_l0", "lstm.weight_ih_l0", "embedding.weight", NULL};

static struct backward_subject subject = {open_filled, ready_order, reference_lstm_loss, .picks = 24,
                                          .difference_limit = 2e-5, .sum_limit = 2e-6};

/* h_0 and c_0 stay zero whatever batches have come before: the gradients of 5 samples have the same bits before and after a pass
 * over 2, and those of 2 samples the same as on a replica that never saw more. */
static void test_initial_state_stays_zero(void **state)
{
    struct trial used, fresh;
    (void)state;
    open_filled(&used);
    open_filled(&fresh);
    backward_pass(&used, BATCH, false, NULL, NULL);
    char *before = flat_read(&used.replica, used.replica.gradients);
    backward_pass(&used, 2, false, NULL, NULL);
    char *few = flat_read(&used.replica, used.replica.gradients);
    backward_pass(&used, BATCH, false, NULL, NULL);
    char *after = flat_read(&used.replica, used.replica.gradients);
    backward_pass(&fresh, 2, false, NULL, NULL);
    char *never_more = flat_read(&fresh.replica, fresh.replica.gradients);
    assert_memory_equal(after, before, used.model.flat_bytes);
    assert_memory_equal(few, never_more, used.model.flat_bytes);
    free(before);
    free(few);
    free(after);
    free(never_more);
    trial_close(&used);
    trial_close(&fresh);
}

/* A replica's state, h_0 and c_0 in it, lies on its own device: opening one on device 1 takes nothing of device 0. */
static void test_initial_state_on_its_own_device(void **state)
{
    struct model model;
    struct replica replica;
    int devices = 0;
    (void)state;
    assert_int_equal(cudaGetDeviceCount(&devices), cudaSuccess);
    if (devices < 2)
        skip();
    assert_int_equal(model_open(&model, "lstm-tiny", &(struct model_settings){0}), 0);
    assert_int_equal(cudaSetDevice(0), cudaSuccess);
    assert_int_equal(replica_open(&replica, &model, 1, BATCH, true), 0);
    assert_int_equal(memory_current(0, MEMORY_ACTIVATIONS), 0);
    assert_true(memory_current(1, MEMORY_ACTIVATIONS) > 0);
    replica_close(&replica);
    model_close(&model);
}

static size_t aligned(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Logits and their gradient are outputs; all else that a pass needs is activations, to the byte. n tokens of 3 samples. */
static void test_memory_by_category(void **state)
{
    struct trial trial;
    (void)state;
    trial_open_model(&trial, "lstm", &(struct model_settings){0}, 3);
    const struct model_settings *s = &trial.model.settings;
    size_t n = 3 * s->block, row = n * s->width * sizeof(float), first = 3 * s->width * sizeof(float);
    assert_int_equal(memory_current(0, MEMORY_OUTPUTS), 2 * n * s->vocabulary * sizeof(float));
    assert_int_equal(memory_current(0, MEMORY_DATA), 2 * n * sizeof(int32_t));
    assert_int_equal(memory_current(0, MEMORY_ACTIVATIONS),
                     8 * row + 4 * first + 2 * aligned(n * sizeof(int32_t))); /* x, 4 gates, h, c, out; h_0, c_0, d_h, d_c */
    trial_close(&trial);
    for (int category = 0; category < MEMORY_CATEGORIES; category++)
        assert_int_equal(memory_current(0, (enum memory_category)category), 0);
}

int main(void)
{
    log_set_program("test_lstm");
    device_setup();
    const struct CMUnitTest tests[] = {
        BACKWARD_CHECKS(&subject),
        cmocka_unit_test(test_initial_state_stays_zero),
        cmocka_unit_test(test_initial_state_on_its_own_device),
        cmocka_unit_test(test_memory_by_category),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
