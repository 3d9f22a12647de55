/* SPDX-License-Identifier: MIT
 *
 * The LSTM models against PyTorch (golden_lstm.py): logits, loss, every gradient, 10 steps of SGD. Of lstm 16 values of each tensor
 * and its norm. And their names, sizes and first values.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "device.h"
#include "golden_trial.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

static void test_sizes(void **state)
{
    static const char *const names[] = {"embedding.weight", "lstm.weight_ih_l0", "lstm.weight_hh_l0", "lstm.bias_ih_l0",
                                        "lstm.bias_hh_l0",  "head.weight",       "head.bias"};
    static const struct {
        const char *name, *text;
        size_t parameters; /* as PyTorch counts them */
    } expected[] = {{"lstm", "layers=1 embedding=256 width=256 block=64 vocabulary=256", 657664},
                    {"lstm-tiny", "layers=1 embedding=6 width=5 block=7 vocabulary=11", 392}};
    struct model model;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(model_open(&model, expected[i].name, &(struct model_settings){0}), EXIT_OK);
        assert_int_equal(model.parameter_elements, expected[i].parameters);
        assert_string_equal(model.text, expected[i].text);
        assert_int_equal(model.parameter_count, 7);
        for (int p = 0; p < 7; p++)
            assert_string_equal(model.parameters[p].name, names[p]);
        assert_true(model.tokens && model.targets == model.input_count);
        model_close(&model);
    }
}

static void test_refusals(void **state)
{
    struct model model;

    (void)state;
    assert_int_equal(model_open(&model, "lstm", &(struct model_settings){.depth = 2}), EXIT_USAGE);
    assert_int_equal(model_open(&model, "lstm", &(struct model_settings){.layers = 3}), EXIT_USAGE);
    assert_int_equal(model_open(&model, "lstm", &(struct model_settings){.width = SIZE_MAX}), EXIT_USAGE);
    assert_int_equal(model_open(&model, "lstm-large", &(struct model_settings){0}), EXIT_USAGE);
}

/* The embedding normal with deviation 1, all others uniform in +-1/sqrt(width): each tensor's deviation. */
static void test_initial_values(void **state)
{
    struct trial trial;

    (void)state;
    trial_open_model(&trial, "lstm", &(struct model_settings){0}, 1);
    assert_int_equal(replica_initialize(&trial.replica, 1), EXIT_OK);
    char *flat = flat_read(&trial.replica, trial.replica.parameters);
    for (int i = 0; i < trial.model.parameter_count; i++) {
        size_t count = trial.model.parameters[i].count;
        double squares = 0, largest = 0, expected = i == 0 ? 1 : 1.0 / 16 / sqrt(3);
        for (size_t j = 0; j < count; j++) {
            double x = (double)flat_parameter(&trial.model, flat, i)[j];
            squares += x * x / (double)count;
            largest = fmax(largest, fabs(x));
        }
        assert_true(fabs(sqrt(squares) / expected - 1) < 1.5 / sqrt((double)count));
        assert_true(i == 0 ? largest > 3 : largest <= 1.0 / 16);
    }
    free(flat);
    trial_close(&trial);
}

int main(void)
{
    static struct golden_subject tiny = {"lstm-tiny", "tiny", 5, 1, false}, whole = {"lstm", "lstm", 2, 0.125f, true};

    log_set_program("test_golden_lstm");
    device_setup();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_initial_values),
        cmocka_unit_test_prestate(golden_trial_run, &tiny),
        cmocka_unit_test_prestate(golden_trial_run, &whole),
    };
    return cmocka_run_group_tests(tests, golden_trial_open, golden_trial_close);
}
