/* SPDX-License-Identifier: MIT
 *
 * The GPT models against PyTorch (golden_gpt.py): logits, loss, every gradient, 10 steps of SGD. Of gpt-nano 16 values of each
 * tensor and its norm. And the names and sizes of all of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "device.h"
#include "golden_trial.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

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

int main(void)
{
    static struct golden_subject tiny = {"gpt-tiny", "tiny", 5, 0.5f, false}, nano = {"gpt-nano", "nano", 2, 0.0625f, true};

    log_set_program("test_golden_gpt");
    device_setup();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test_prestate(golden_trial_run, &tiny),
        cmocka_unit_test_prestate(golden_trial_run, &nano),
    };
    return cmocka_run_group_tests(tests, golden_trial_open, golden_trial_close);
}
