/* SPDX-License-Identifier: MIT
 *
 * The residual networks against PyTorch (golden_resnet.py): logits, loss, gradients, 10 steps of SGD with running
 * statistics, evaluation, the order in which gradients become ready.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config.h"
#include "data/tensors.h"
#include "device.h"
#include "golden.h"
#include "nn/loss.h"
#include "nn/optimizer.h"
#include "run/checkpoint.h"
#include "sys/log.h"

#define STEPS 10
#define TOLERANCE 1e-4 /* max|a-b| / max|b| per tensor */

static struct golden golden;

/* A network, its loss, and what its golden values are called. */
struct network {
    struct model model;
    struct replica replica;
    struct loss loss;
    const char *prefix;
    size_t batch;
};

static void open_network(struct network *n, const char *name, const struct model_settings *settings, const char *prefix,
                         size_t batch)
{
    *n = (struct network){.prefix = prefix, .batch = batch};
    assert_int_equal(model_open(&n->model, name, settings), 0);
    assert_int_equal(replica_open(&n->replica, &n->model, 0, batch, true), 0);
    assert_int_equal(replica_initialize(&n->replica, 1), 0);
    assert_int_equal(loss_open(&n->loss, &n->model, 0, batch), 0);
}

static void close_network(struct network *n)
{
    loss_close(&n->loss);
    replica_close(&n->replica);
    model_close(&n->model);
}

static const float *expected(const struct network *n, const char *kind, const char *name, size_t count)
{
    char prefix[64];
    snprintf(prefix, sizeof prefix, "%s%s", n->prefix, kind);
    return golden_values(&golden, prefix, name, count);
}

/* Not (a > b): that would be false for NaN. */
static void expect_close(const char *name, const float *found, const float *wanted, size_t count)
{
    double difference = tensor_difference(found, wanted, count);
    if (!(difference <= TOLERANCE))
        fail_msg("%s differs from PyTorch's by %g, allowed is %g", name, difference, TOLERANCE);
}

/* A flat buffer's tensor in PyTorch's order; the caller frees. */
static float *in_pytorch_order(const struct parameter *p, char *flat)
{
    float *values = malloc((p->count + 1) * sizeof *values);
    assert_non_null(values);
    parameter_reorder(p, values, (const float *)(void *)(flat + p->offset), true);
    return values;
}

static void expect_tensors(struct network *n, const void *flat_device, const char *kind)
{
    char *flat = flat_read(&n->replica, flat_device);
    for (int i = 0; i < n->model.parameter_count; i++) {
        const struct parameter *p = &n->model.parameters[i];
        float *values = in_pytorch_order(p, flat);
        expect_close(p->name, values, expected(n, kind, p->name, p->count), p->count);
        free(values);
    }
    free(flat);
}

static void write_parameters(struct network *n, void (*fill)(const struct network *, int, float *))
{
    char *flat = calloc(1, n->model.flat_bytes);
    assert_non_null(flat);
    for (int i = 0; i < n->model.parameter_count; i++) {
        const struct parameter *p = &n->model.parameters[i];
        float *values = malloc(p->count * sizeof *values);
        assert_non_null(values);
        fill(n, i, values);
        parameter_reorder(p, (float *)(void *)(flat + p->offset), values, false);
        free(values);
    }
    assert_int_equal(replica_write(&n->replica, n->replica.parameters, flat), 0);
    free(flat);
}

static void golden_fill(const struct network *n, int index, float *values)
{
    const struct parameter *p = &n->model.parameters[index];
    memcpy(values, expected(n, "", p->name, p->count), p->count * sizeof *values);
}

/* golden_resnet.py's numbers. */
static void noise(float *values, size_t count, unsigned seed, double scale, double offset)
{
    uint64_t at = 1000 + seed;
    for (size_t i = 0; i < count; i++) {
        at = (1103515245 * at + 12345) % (1u << 31);
        values[i] = (float)(scale * ((double)at / (1 << 30) - 1) + offset);
    }
}

static void noise_fill(const struct network *n, int index, float *values)
{
    const struct parameter *p = &n->model.parameters[index];
    bool matrix = p->dims > 1, one = !matrix && strstr(p->name, "weight");
    noise(values, p->count, (unsigned)index, matrix ? 2 / sqrt((double)(p->count / p->shape[0])) : 0.2, one ? 1 : 0);
}

static int order[256], ready_count;

static int log_ready(void *context, int index)
{
    (void)context;
    order[ready_count++] = index;
    return 0;
}

static void forward_backward(struct network *n)
{
    struct replica *r = &n->replica;
    ready_count = 0;
    assert_int_equal(n->model.type->forward(r, n->batch, true), 0);
    assert_int_equal(
        loss_enqueue(&n->loss, r->d_logits, r->logits, r->labels, n->batch, 1.0f / (float)n->batch, r->compute), 0);
    assert_int_equal(n->model.type->backward(r, r->d_logits, n->batch, false, log_ready, NULL), 0);
    assert_int_equal(cudaStreamSynchronize(r->compute), cudaSuccess);
}

static void expect_ready_order(const struct network *n)
{
    const float *wanted = expected(n, "", "ready", (size_t)n->model.parameter_count);
    assert_int_equal(ready_count, n->model.parameter_count);
    for (int i = 0; i < ready_count; i++)
        assert_int_equal(order[i], (int)wanted[i]);
}

static void expect_outputs(struct network *n)
{
    size_t count = n->batch * n->model.classes;
    float *logits = malloc(count * sizeof *logits), mean = *n->loss.host_sum / (float)n->batch;
    assert_non_null(logits);
    device_read(&n->replica, logits, n->replica.logits, count * sizeof *logits);
    expect_close("logits", logits, expected(n, "", "logits", count), count);
    expect_close("loss", &mean, expected(n, "", "loss", 1), 1);
    free(logits);
}

/* ---- the tiny one: everything ------------------------------------------------------------------------------------ */

static const struct model_settings tiny = {.inputs = 3 * 8 * 8, .width = 4, .depth = 1, .classes = 5};
#define TINY_BATCH 6

static void open_tiny(struct network *n)
{
    int32_t labels[TINY_BATCH];
    open_network(n, "resnet20", &tiny, "tiny/", TINY_BATCH);
    write_parameters(n, golden_fill);
    for (int i = 0; i < TINY_BATCH; i++)
        labels[i] = (int32_t)expected(n, "", "labels", TINY_BATCH)[i];
    device_write(&n->replica, n->replica.labels, labels, sizeof labels);
    device_write(&n->replica, n->replica.input, expected(n, "", "input", TINY_BATCH * tiny.inputs),
                 TINY_BATCH * tiny.inputs * sizeof(float));
}

static void test_tiny(void **state)
{
    (void)state;
    struct network n;
    open_tiny(&n);
    forward_backward(&n);
    expect_outputs(&n);
    expect_tensors(&n, n.replica.gradients, "gradient/");
    expect_ready_order(&n);
    close_network(&n);
}

static void expect_buffers(struct network *n, const char *kind)
{
    char *flat = malloc(n->model.buffer_bytes);
    assert_non_null(flat);
    device_read(&n->replica, flat, n->replica.buffers, n->model.buffer_bytes);
    for (int i = 0; i < n->model.buffer_count; i++) {
        const struct parameter *p = &n->model.buffers[i];
        expect_close(p->name, (const float *)(void *)(flat + p->offset), expected(n, kind, p->name, p->count),
                     p->count);
    }
    free(flat);
}

/* A checkpoint of the trained network has PyTorch's values in PyTorch's order, running statistics among them, and loads
 * into another replica bit for bit. */
static void expect_checkpoint(struct network *n, struct optimizer *optimizer)
{
#if HAVE_CJSON
    static const char *const names[] = {"conv.weight", "blocks.1.short.0.weight", "bn.running_mean", "blocks.2.bn2.running_var"};
    char path[] = "/tmp/resnet-checkpoint-XXXXXX";
    struct checkpoint checkpoint = {.step = STEPS, .seed = 1, .global_batch = TINY_BATCH};
    struct tensor_file file;
    struct network other;
    int descriptor = mkstemp(path);

    assert_true(descriptor >= 0);
    close(descriptor);
    assert_int_equal(checkpoint_save(path, &n->replica, optimizer, &checkpoint), 0);
    assert_int_equal(tensors_read(path, &file), 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct tensor_view *tensor = tensors_find(&file, names[i]);
        assert_non_null(tensor);
        expect_close(names[i], tensor->data, expected(n, "sgd/", names[i], tensor->count), tensor->count);
    }
    tensors_close(&file);
    open_network(&other, "resnet20", &tiny, "tiny/", TINY_BATCH);
    struct optimizer loaded;
    assert_int_equal(optimizer_open(&loaded, &optimizer->settings, &other.replica), 0);
    assert_int_equal(checkpoint_load(path, &other.replica, &loaded, &checkpoint), 0);
    char *ours = flat_read(&n->replica, n->replica.parameters), *theirs = flat_read(&other.replica, other.replica.parameters);
    assert_memory_equal(theirs, ours, n->model.flat_bytes);
    expect_buffers(&other, "sgd/");
    free(ours), free(theirs);
    optimizer_close(&loaded);
    close_network(&other);
    unlink(path);
#else
    (void)n, (void)optimizer;
#endif
}

static void test_tiny_training(void **state)
{
    (void)state;
    const struct optimizer_settings settings = {
        .kind = OPTIMIZER_SGD, .lr = 0.05f, .momentum = 0.9f, .weight_decay = 1e-4f};
    struct optimizer optimizer;
    struct network n;
    float logits[TINY_BATCH * 5];

    open_tiny(&n);
    assert_int_equal(optimizer_open(&optimizer, &settings, &n.replica), 0);
    for (int step = 0; step < STEPS; step++) {
        forward_backward(&n);
        assert_int_equal(optimizer_step(&optimizer), 0);
    }
    expect_tensors(&n, n.replica.parameters, "sgd/");
    expect_buffers(&n, "sgd/");
    assert_int_equal(n.model.type->forward(&n.replica, TINY_BATCH, false), 0);
    device_read(&n.replica, logits, n.replica.logits, sizeof logits);
    expect_close("evaluation", logits, expected(&n, "", "evaluation", TINY_BATCH * 5), TINY_BATCH * 5);
    expect_buffers(&n, "sgd/"); /* an evaluation leaves them alone */
    expect_checkpoint(&n, &optimizer);
    optimizer_close(&optimizer);
    close_network(&n);
}

/* ---- the large ones: norms --------------------------------------------------------------------------------------- */

static void expect_norms(struct network *n)
{
    size_t count = (size_t)n->model.parameter_count;
    char *flat = flat_read(&n->replica, n->replica.gradients);
    float *norms = malloc(count * sizeof *norms);
    const float *wanted = expected(n, "", "norms", count), *firsts = expected(n, "", "firsts", count);
    assert_non_null(norms);
    for (size_t i = 0; i < count; i++) {
        const float *values = (const float *)(void *)(flat + n->model.parameters[i].offset);
        double sum = 0;
        for (size_t j = 0; j < n->model.parameters[i].count; j++)
            sum += (double)values[j] * (double)values[j];
        if (!(fabs(sqrt(sum) - (double)wanted[i]) <= 1e-4 * (double)wanted[i]) ||
            !(fabs((double)values[0] - (double)firsts[i]) <= 1e-4 * (double)wanted[i]))
            fail_msg("%s: norm %g, first %g; PyTorch's %g, %g", n->model.parameters[i].name, sqrt(sum),
                     (double)values[0], (double)wanted[i], (double)firsts[i]);
    }
    free(norms);
    free(flat);
}

static void expect_whole(const char *name, const struct model_settings *settings, const char *prefix, size_t batch)
{
    struct network n;
    open_network(&n, name, settings, prefix, batch);
    size_t count = batch * n.model.input_count;
    float *input = malloc(count * sizeof *input);
    int32_t labels[8];
    assert_non_null(input);
    noise(input, count, 500, 1.5, 0);
    for (size_t i = 0; i < batch; i++)
        labels[i] = (int32_t)(i % n.model.classes);
    write_parameters(&n, noise_fill);
    device_write(&n.replica, n.replica.input, input, count * sizeof *input);
    device_write(&n.replica, n.replica.labels, labels, batch * sizeof labels[0]);
    forward_backward(&n);
    expect_outputs(&n);
    expect_norms(&n);
    expect_ready_order(&n);
    free(input);
    close_network(&n);
}

static void test_resnet20(void **state)
{
    (void)state;
    const struct model_settings settings = {0};
    expect_whole("resnet20", &settings, "resnet20/", 2);
}

static void test_resnet50(void **state)
{
    (void)state;
    const struct model_settings settings = {.inputs = 3 * 64 * 64, .width = 4, .depth = 2, .classes = 7};
    expect_whole("resnet50", &settings, "tiny50/", 3);
}

static int setup(void **state)
{
    (void)state;
    golden_open(&golden, GOLDEN_FILE);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    golden_close(&golden);
    return 0;
}

int main(void)
{
    log_set_program("test_golden_resnet");
    device_setup();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiny),
        cmocka_unit_test(test_tiny_training),
        cmocka_unit_test(test_resnet20),
        cmocka_unit_test(test_resnet50),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
