/* SPDX-License-Identifier: MIT
 *
 * What a strategy relies on, of GPT: the backward pass, memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backward_checks.h"
#include "device.h"
#include "gpu/memory.h"
#include "hashed.h"
#include "reference_gpt.h"
#include "sys/log.h"

#define BATCH 5

static void open_filled(struct trial *trial)
{
    trial_open_model(trial, "gpt-tiny", &(struct model_settings){0}, BATCH);
    hashed_fill(trial, BATCH, 0.5F);
}

#define LAYER(h)                                                                                                       \
    h ".proj.bias", h ".proj.weight", h ".fc.bias", h ".fc.weight", h ".ln2.weight", h ".ln2.bias", h ".attn.proj.bias", \
        h ".attn.proj.weight", h ".attn.qkv.bias", h ".attn.qkv.weight", h ".ln1.weight", h ".ln1.bias"

/* As hooks on PyTorch's accumulators tell it (1.13 and 2.x): LayerNorm's weight before its bias, all others the other way
 * round, the tied wte last and once. */
static const char *const ready_order[] = {"lnf.weight", "lnf.bias", LAYER("h.1"), LAYER("h.0"), "wpe.weight", "wte.weight", NULL};

static struct backward_subject subject = {open_filled, ready_order, reference_gpt_loss, .picks = 24,
                                          .difference_limit = 2e-5, .sum_limit = 2e-6};

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
    log_set_program("test_gpt");
    device_setup();
    const struct CMUnitTest tests[] = {
        BACKWARD_CHECKS(&subject),
        cmocka_unit_test(test_memory_by_category),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
