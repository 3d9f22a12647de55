/* SPDX-License-Identifier: MIT
 *
 * What a strategy relies on, for GPT: gradients against finite differences, the ready order, accumulation, parts of a batch,
 * empty batches, memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "device.h"
#include "gpu/memory.h"
#include "reference_gpt.h"
#include "sys/log.h"
#include "token_checks.h"

/* As hooks on PyTorch's accumulators tell it (1.13 and 2.x): LayerNorm's weight before its bias, all others the other way
 * round, the tied wte last and once. The same for an empty batch. */
static void test_ready_order(void **state)
{
    static const char *const layer[] = {"proj.bias",        "proj.weight",      "fc.bias",    "fc.weight",
                                        "ln2.weight",       "ln2.bias",         "attn.proj.bias", "attn.proj.weight",
                                        "attn.qkv.bias",    "attn.qkv.weight",  "ln1.weight", "ln1.bias"};
    struct trial trial;
    token_open(&trial, *state);
    for (size_t batch = 0; batch <= TOKEN_BATCH; batch += TOKEN_BATCH) {
        struct token_ready ready = {0};
        token_backward(&trial, batch, false, token_log_ready, &ready);
        assert_int_equal(ready.count, 28);
        const struct parameter *p = trial.model.parameters;
        assert_string_equal(p[ready.order[0]].name, "lnf.weight");
        assert_string_equal(p[ready.order[1]].name, "lnf.bias");
        for (int i = 0; i < 24; i++) {
            assert_int_equal(p[ready.order[2 + i]].name[2], i < 12 ? '1' : '0');
            assert_string_equal(p[ready.order[2 + i]].name + 4, layer[i % 12]);
        }
        assert_string_equal(p[ready.order[26]].name, "wpe.weight");
        assert_string_equal(p[ready.order[27]].name, "wte.weight");
    }
    trial_close(&trial);
}

/* Logits and their gradient are outputs; all else that a pass needs is activations, to the byte (a tensor's begin is a
 * multiple of 256). n tokens: 3 blocks, statistics and order; each layer 16 n c and statistics: 4 n
 * of LayerNorm, 2 a head and token of attention. */
static void test_memory_by_category(void **state)
{
    struct trial trial;
    (void)state;
    trial_open_model(&trial, "gpt-nano", &(struct model_settings){0}, 2);
    const struct model_settings *s = &trial.model.settings;
    size_t n = 2 * s->block, row = n * s->width * sizeof(float), statistics = 2 * n * sizeof(float);
    size_t layer = 16 * row + (2 + s->heads) * statistics;
    assert_int_equal(memory_current(0, MEMORY_OUTPUTS), 2 * n * s->vocabulary * sizeof(float));
    assert_int_equal(memory_current(0, MEMORY_DATA), 2 * n * sizeof(int32_t));
    assert_int_equal(memory_current(0, MEMORY_ACTIVATIONS),
                     s->layers * layer + 3 * row + statistics + n * sizeof(int32_t));
    trial_close(&trial);
    for (int category = 0; category < MEMORY_CATEGORIES; category++)
        assert_int_equal(memory_current(0, (enum memory_category)category), 0);
}

int main(void)
{
    static struct token_model model = {"gpt-tiny", 0.5F, reference_gpt_loss};

    log_set_program("test_gpt");
    device_setup();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_ready_order, &model),
        TOKEN_CHECKS(&model),
        cmocka_unit_test(test_memory_by_category),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
