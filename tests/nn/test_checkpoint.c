/* SPDX-License-Identifier: MIT
 *
 * Checkpoints: what is loaded is what was saved, to the bit, and anything else changes nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config.h"
#include "data/tensors.h"
#include "device.h"
#include "files.h"
#include "nn/loss.h"
#include "nn/optimizer.h"
#include "run/checkpoint.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

#define BATCH 4

static const struct model_settings small = {.inputs = 3, .width = 5, .depth = 1, .classes = 2};
static const struct optimizer_settings plain = {.kind = OPTIMIZER_SGD, .lr = 0.1f};
static const struct optimizer_settings adamw = {
    .kind = OPTIMIZER_ADAMW, .lr = 0.01f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f};
static const struct checkpoint position = {
    .step = UINT64_C(12345678901), .seed = UINT64_MAX, .global_batch = 36, .sampler = "--sampler distributed --gpus 4"};

struct training {
    struct trial trial;
    struct optimizer optimizer;
};

static void open_training(struct training *t, const struct model_settings *model,
                          const struct optimizer_settings *optimizer, uint64_t seed)
{
    float input[BATCH * 3] = {1, -1, 2, 0.5f, 3, -2, 1, 1, 1, -1, 0, 1};
    int32_t labels[BATCH] = {0, 1, 1, 0};

    trial_open(&t->trial, model, BATCH);
    assert_int_equal(replica_initialize(&t->trial.replica, seed), 0);
    assert_int_equal(optimizer_open(&t->optimizer, optimizer, &t->trial.replica), 0);
    device_write(&t->trial.replica, t->trial.replica.input, input, sizeof input);
    device_write(&t->trial.replica, t->trial.replica.labels, labels, sizeof labels);
}

static void close_training(struct training *t)
{
    optimizer_close(&t->optimizer);
    trial_close(&t->trial);
}

#if HAVE_CJSON

static const struct optimizer_settings momentum = {.kind = OPTIMIZER_SGD, .lr = 0.1f, .momentum = 0.9f};

static void train(struct training *t, int steps)
{
    struct replica *r = &t->trial.replica;
    struct loss loss;

    assert_int_equal(loss_open(&loss, &t->trial.model, 0, BATCH), 0);
    for (int i = 0; i < steps; i++) {
        assert_int_equal(r->model->type->forward(r, BATCH, true), 0);
        assert_int_equal(loss_enqueue(&loss, r->d_logits, r->logits, r->labels, BATCH, 0.25f, r->compute), 0);
        assert_int_equal(r->model->type->backward(r, r->d_logits, BATCH, false, NULL, NULL), 0);
        assert_int_equal(optimizer_step(&t->optimizer), 0);
    }
    assert_int_equal(cudaStreamSynchronize(r->compute), cudaSuccess);
    loss_close(&loss);
}

static void expect_equal_buffers(struct training *a, struct training *b, const float *buffer_a, const float *buffer_b)
{
    char *flat_a = flat_read(&a->trial.replica, buffer_a), *flat_b = flat_read(&b->trial.replica, buffer_b);
    assert_memory_equal(flat_a, flat_b, a->trial.model.flat_bytes);
    free(flat_a);
    free(flat_b);
}

static void expect_equal(struct training *a, struct training *b)
{
    expect_equal_buffers(a, b, a->trial.replica.parameters, b->trial.replica.parameters);
    if (a->optimizer.first)
        expect_equal_buffers(a, b, a->optimizer.first, b->optimizer.first);
    if (a->optimizer.second)
        expect_equal_buffers(a, b, a->optimizer.second, b->optimizer.second);
    assert_int_equal(a->optimizer.updates, b->optimizer.updates);
}

/* 7 steps = 4 steps, saved, loaded elsewhere, 3 steps: parameters, optimizer state and position. */
static void expect_resumed(const struct optimizer_settings *settings)
{
    const char *path = test_path("checkpoint");
    struct training straight, resumed;
    struct checkpoint found;

    open_training(&straight, &small, settings, 1);
    open_training(&resumed, &small, settings, 2);
    train(&resumed, 2);
    train(&straight, 4);
    assert_int_equal(checkpoint_save(path, &straight.trial.replica, &straight.optimizer, &position), EXIT_OK);
    assert_int_equal(checkpoint_load(path, &resumed.trial.replica, &resumed.optimizer, &found), EXIT_OK);
    assert_memory_equal(&found, &position, sizeof found);
    expect_equal(&straight, &resumed);
    train(&straight, 3);
    train(&resumed, 3);
    expect_equal(&straight, &resumed);
    close_training(&straight);
    close_training(&resumed);
}

static void test_resume_sgd(void **state)
{
    (void)state;
    expect_resumed(&plain);
}

static void test_resume_momentum(void **state)
{
    (void)state;
    expect_resumed(&momentum);
}

static void test_resume_adamw(void **state)
{
    (void)state;
    expect_resumed(&adamw);
}

/* Loading from path must fail and leave `t` as it was. */
static void expect_refused(const char *path, struct training *t)
{
    uint64_t before, after;
    struct checkpoint found = {.step = 99};
    int updates = t->optimizer.updates;

    assert_int_equal(replica_checksum(&t->trial.replica, &before), 0);
    assert_int_equal(checkpoint_load(path, &t->trial.replica, &t->optimizer, &found), EXIT_BAD_FILE);
    assert_int_equal(replica_checksum(&t->trial.replica, &after), 0);
    assert_true(before == after);
    assert_int_equal(found.step, 99);
    assert_int_equal(t->optimizer.updates, updates);
    assert_non_null(strstr(log_last_error(), "found"));
}

static void test_another_model_or_optimizer(void **state)
{
    (void)state;
    static const struct model_settings models[] = {{3, 6, 1, 2, 0}, {3, 5, 2, 2, 0}, {3, 5, 1, 3, 0}, {4, 5, 1, 2, 0}};
    const char *path = test_path("checkpoint");
    struct training saved, other;

    open_training(&saved, &small, &momentum, 1);
    assert_int_equal(checkpoint_save(path, &saved.trial.replica, &saved.optimizer, &position), EXIT_OK);
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        open_training(&other, &models[i], &momentum, 1);
        expect_refused(path, &other);
        assert_non_null(
            strstr(log_last_error(), "model 'mlp inputs=3 width=5 depth=1 classes=2' found, expected 'mlp inputs="));
        close_training(&other);
    }
    open_training(&other, &small, &plain, 1);
    expect_refused(path, &other);
    close_training(&other);
    open_training(&other, &small, &adamw, 1);
    expect_refused(path, &other);
    assert_non_null(strstr(log_last_error(), "optimizer 'sgd with momentum' found, expected 'adamw'"));
    close_training(&other);
    close_training(&saved);
}

static void test_cut_at_every_length(void **state)
{
    (void)state;
    const char *path = test_path("checkpoint"), *damaged = test_path("damaged");
    struct training t;
    size_t bytes;

    open_training(&t, &small, &momentum, 1);
    assert_int_equal(checkpoint_save(path, &t.trial.replica, &t.optimizer, &position), EXIT_OK);
    char *data = get_file(path, &bytes);
    for (size_t cut = 0; cut < bytes; cut++) {
        put_file(damaged, data, cut);
        expect_refused(damaged, &t);
    }
    free(data);
    close_training(&t);
}

/* One bit of each byte, another from byte to byte; test_tensors flips all of a smaller file. */
static void test_flipped_bits(void **state)
{
    (void)state;
    const char *path = test_path("checkpoint"), *damaged = test_path("damaged");
    struct training t;
    size_t bytes;

    open_training(&t, &small, &momentum, 1);
    assert_int_equal(checkpoint_save(path, &t.trial.replica, &t.optimizer, &position), EXIT_OK);
    char *data = get_file(path, &bytes);
    for (size_t i = 0; i < bytes; i++) {
        data[i] ^= (char)(1 << i % 8);
        put_file(damaged, data, bytes);
        expect_refused(damaged, &t);
        data[i] ^= (char)(1 << i % 8);
    }
    free(data);
    close_training(&t);
}

/* ---- whole files of the wrong content: each refused by its own check ---- */

enum wrong { ALL_RIGHT, SHAPE_TURNED, TENSOR_MISSING, TENSOR_RENAMED, TENSOR_TOO_MANY, TENSOR_TWICE, WRONG_TENSORS };

static void spoil_tensors(struct tensor_view *views, size_t *count, enum wrong wrong)
{
    size_t rows = views[0].shape[0];

    if (wrong == SHAPE_TURNED) {
        views[0].shape[0] = views[0].shape[1];
        views[0].shape[1] = rows;
    } else if (wrong == TENSOR_MISSING) {
        --*count;
    } else if (wrong == TENSOR_RENAMED) {
        views[2].name = "net.9.weight";
    } else if (wrong == TENSOR_TOO_MANY) {
        views[*count] = views[0];
        views[(*count)++].name = "net.9.weight";
    } else if (wrong == TENSOR_TWICE) {
        views[7] = views[0];
    }
}

#define KEYS 8

static const char *const keys[KEYS] = {"format", "model", "optimizer", "updates", "step", "global_batch", "seed", "sampler"};

/* Metadata that is refused; NULL: left out. */
static const struct wrong_text {
    const char *key, *value;
} wrong_texts[] = {
    {"format", "dpbench checkpoint 1"},
    {"format", "dpbench checkpoint 2"},
    {"format", "dpbench checkpoint 4"},
    {"format", NULL},
    {"updates", "2147483648"},
    {"step", "-1"},
    {"step", "4x"},
    {"step", ""},
    {"step", "18446744073709551616"},
    {"seed", NULL},
    {"sampler", NULL},
    {"sampler", "--sampler distributed, and more than sixty-three bytes of what is none"},
};

/* Reads a good checkpoint and writes it again with one thing wrong; text may be NULL. */
static void spoil(const char *good, const char *bad, enum wrong wrong, const struct wrong_text *text)
{
    struct tensor_file file;
    struct tensor_view views[16];
    struct tensor_text texts[KEYS];
    size_t text_count = 0;

    assert_int_equal(tensors_read(good, &file), EXIT_OK);
    assert_int_equal(file.count, 8);
    memcpy(views, file.views, file.count * sizeof views[0]);
    size_t count = file.count;
    spoil_tensors(views, &count, wrong);
    for (size_t i = 0; i < KEYS; i++) {
        bool wanted = text && strcmp(text->key, keys[i]) == 0;
        const char *value = wanted ? text->value : tensors_metadata(&file, keys[i]);
        if (value)
            texts[text_count++] = (struct tensor_text){keys[i], value};
    }
    assert_int_equal(tensors_write(bad, views, count, texts, text_count), EXIT_OK);
    tensors_close(&file);
}

static void test_wrong_contents(void **state)
{
    (void)state;
    const char *good = test_path("good"), *bad = test_path("bad");
    struct training t;
    struct checkpoint found;

    open_training(&t, &small, &momentum, 1);
    assert_int_equal(checkpoint_save(good, &t.trial.replica, &t.optimizer, &position), EXIT_OK);
    for (int wrong = ALL_RIGHT + 1; wrong < WRONG_TENSORS; wrong++) {
        spoil(good, bad, (enum wrong)wrong, NULL);
        expect_refused(bad, &t);
    }
    for (size_t i = 0; i < sizeof wrong_texts / sizeof wrong_texts[0]; i++) {
        spoil(good, bad, ALL_RIGHT, &wrong_texts[i]);
        expect_refused(bad, &t);
        if (wrong_texts[i].value)
            assert_non_null(strstr(log_last_error(), wrong_texts[i].value));
        if (!strcmp(wrong_texts[i].key, "format"))
            assert_non_null(strstr(log_last_error(), "expected 'dpbench checkpoint 3'"));
    }
    spoil(good, bad, ALL_RIGHT, NULL);
    assert_int_equal(checkpoint_load(bad, &t.trial.replica, &t.optimizer, &found), EXIT_OK);
    close_training(&t);
}

static void test_gradients_are_saved(void **state)
{
    (void)state;
    const char *path = test_path("gradients");
    struct training t;
    struct tensor_file file;

    open_training(&t, &small, &plain, 1);
    train(&t, 1);
    assert_int_equal(checkpoint_save_gradients(path, &t.trial.replica, 1), EXIT_OK);
    assert_int_equal(tensors_read(path, &file), EXIT_OK);
    assert_int_equal(file.count, t.trial.model.parameter_count);
    char *flat = flat_read(&t.trial.replica, t.trial.replica.gradients);
    for (int i = 0; i < t.trial.model.parameter_count; i++) {
        const struct parameter *p = &t.trial.model.parameters[i];
        const struct tensor_view *view = tensors_find(&file, p->name);
        assert_non_null(view);
        assert_int_equal(view->count, p->count);
        assert_memory_equal(view->data, flat_parameter(&t.trial.model, flat, i), p->count * sizeof(float));
    }
    free(flat);
    tensors_close(&file);
    close_training(&t);
}

#else

static void test_loading_without_cjson(void **state)
{
    (void)state;
    const char *path = test_path("checkpoint");
    struct training t;
    struct checkpoint found;

    open_training(&t, &small, &adamw, 1);
    assert_int_equal(checkpoint_save(path, &t.trial.replica, &t.optimizer, &position), EXIT_OK);
    assert_int_equal(checkpoint_load(path, &t.trial.replica, &t.optimizer, &found), EXIT_RESOURCE);
    close_training(&t);
}

#endif

static void test_unwritable(void **state)
{
    (void)state;
    struct training t;
    open_training(&t, &small, &plain, 1);
    assert_int_equal(checkpoint_save("/no-such-folder/file", &t.trial.replica, &t.optimizer, &position), EXIT_RESOURCE);
    close_training(&t);
}

int main(void)
{
    log_set_program("test_checkpoint");
    device_setup();
    const struct CMUnitTest tests[] = {
#if HAVE_CJSON
        cmocka_unit_test(test_resume_sgd),
        cmocka_unit_test(test_resume_momentum),
        cmocka_unit_test(test_resume_adamw),
        cmocka_unit_test(test_another_model_or_optimizer),
        cmocka_unit_test(test_cut_at_every_length),
        cmocka_unit_test(test_flipped_bits),
        cmocka_unit_test(test_wrong_contents),
        cmocka_unit_test(test_gradients_are_saved),
#else
        cmocka_unit_test(test_loading_without_cjson),
#endif
        cmocka_unit_test(test_unwritable),
    };
    return cmocka_run_group_tests(tests, NULL, remove_test_folder);
}
