/* SPDX-License-Identifier: MIT
 *
 * Softmax cross-entropy with and without gradient, in place, with labels out of range and rows of NaN and infinity; the count
 * of right answers with ties and NaN.
 */
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "typed.h"

struct shape {
    size_t rows, classes;
};

/* Rows short and long enough for a warp and for a block on a GPU; the last one fills several parts. */
static const struct shape shapes[] = {
    {0, 10}, {1, 1}, {7, 2}, {5, 7}, {33, 10}, {3, 31}, {4, 32}, {3, 33}, {2, 256}, {3, 1023}, {3, 1024}, {2, 1025}, {2, 32768}, {1025, 65},
};
#define SHAPES (sizeof shapes / sizeof shapes[0])

struct batch {
    struct shape shape;
    size_t n;
    float *logits, *losses, *gradient;
    int32_t *labels;
    double *expected_losses, *expected_gradient;
};

/* Rows 0, 1, 2 (if there are more than 4): a NaN, a +inf, huge logits; row 3: all -inf but one. Labels of the last two rows are
 * out of range. */
static struct batch make_batch(struct shape shape)
{
    struct batch b = {.shape = shape, .n = shape.rows * shape.classes};
    b.logits = test_memory(b.n * sizeof *b.logits);
    b.losses = test_memory(shape.rows * sizeof *b.losses);
    b.gradient = test_memory(b.n * sizeof *b.gradient);
    b.labels = test_memory(shape.rows * sizeof *b.labels);
    b.expected_losses = test_memory(shape.rows * sizeof *b.expected_losses);
    b.expected_gradient = test_memory(b.n * sizeof *b.expected_gradient);
    test_random(b.logits, b.n, 40);
    for (size_t row = 0; row < shape.rows; row++)
        b.labels[row] = (int32_t)(row * 7919 % shape.classes);
    if (shape.rows <= 4)
        return b;
    const size_t c = shape.classes;
    b.logits[0 * c + c / 2] = NAN;
    b.logits[1 * c] = INFINITY;
    for (size_t i = 0; i < c; i++) {
        b.logits[2 * c + i] *= 1e4f;
        b.logits[3 * c + i] = i == c - 1 ? 3.0f : -INFINITY;
    }
    b.labels[shape.rows - 1] = -1;
    b.labels[shape.rows - 2] = (int32_t)c;
    return b;
}

static void free_batch(struct batch *b)
{
    free(b->logits);
    free(b->losses);
    free(b->gradient);
    free(b->labels);
    free(b->expected_losses);
    free(b->expected_gradient);
}

static void reference_row(const struct batch *b, size_t row, double scale)
{
    const size_t c = b->shape.classes;
    const float *x = b->logits + row * c;
    const int32_t label = b->labels[row];
    const bool valid = label >= 0 && (size_t)label < c;
    double top = -(double)INFINITY, sum = 0;
    for (size_t i = 0; i < c; i++)
        top = (double)x[i] > top ? (double)x[i] : top;
    for (size_t i = 0; i < c; i++)
        sum += exp((double)x[i] - top);
    b->expected_losses[row] = valid ? log(sum) + top - (double)x[label] : (double)NAN;
    for (size_t i = 0; i < c; i++) {
        const double softmax = exp((double)x[i] - top) / sum;
        b->expected_gradient[row * c + i] = valid ? (softmax - ((int32_t)i == label ? 1 : 0)) * scale : 0;
    }
}

enum output { LOSS_ONLY, APART, IN_PLACE };

static void run_softmax_shape(enum element_type type, struct shape shape, enum output output)
{
    struct batch b = make_batch(shape);
    const float scale = 1.0f / 128, loss_scale = 2;
    const bool scaled = output == IN_PLACE;
    void *logits = typed_device(type, b.logits, b.n, element_size(type));
    for (size_t row = 0; row < shape.rows; row++)
        reference_row(&b, row, (double)scale * (scaled ? (double)loss_scale : 1));
    float *losses = test_device(b.losses, shape.rows * sizeof(float), 0);
    int32_t *labels = test_device(b.labels, shape.rows * sizeof(int32_t), 0);
    void *gradient = output == LOSS_ONLY ? NULL : output == IN_PLACE ? logits : typed_device(type, b.gradient, b.n, 0);
    const float *on_device = scaled ? test_device(&loss_scale, sizeof loss_scale, 0) : NULL;
    LAUNCH(kernel_softmax_cross_entropy(type, losses, gradient, logits, labels, shape.rows, shape.classes, scale, on_device,
                                        test_stream));
    test_read(b.losses, losses, shape.rows * sizeof(float));
    char label[64];
    snprintf(label, sizeof label, "losses %zu x %zu output %d of %s", shape.rows, shape.classes, (int)output, element_name(type));
    test_floats(label, b.losses, b.expected_losses, shape.rows, 1e-6, 1e-6);
    if (gradient) {
        typed_read(type, b.gradient, gradient, b.n);
        snprintf(label, sizeof label, "gradient %zu x %zu output %d", shape.rows, shape.classes, (int)output);
        typed_check(type, label, b.gradient, b.expected_gradient, b.n, 2e-6, 2e-6 * (double)scale);
    }
    free_batch(&b);
    test_release();
}

static void run_softmax(const void *argument)
{
    (void)argument;
    FOR_EACH_TYPE(type) {
        for (size_t i = 0; i < SHAPES; i++) {
            run_softmax_shape(type, shapes[i], LOSS_ONLY);
            run_softmax_shape(type, shapes[i], APART);
            run_softmax_shape(type, shapes[i], IN_PLACE);
        }
    }
}

/* ---- count of right answers ------------------------------------------------------------------------------------------------ */

static int32_t reference_count(const struct batch *b)
{
    int32_t correct = 0;
    for (size_t row = 0; row < b->shape.rows; row++) {
        const float *x = b->logits + row * b->shape.classes;
        size_t best = SIZE_MAX;
        for (size_t i = 0; i < b->shape.classes; i++)
            if (!isnan(x[i]) && (best == SIZE_MAX || x[i] > x[best]))
                best = i;
        correct += best != SIZE_MAX && b->labels[row] == (int32_t)best;
    }
    return correct;
}

/* Every third row is right; every fourth has its largest logit twice. */
static void run_count_shape(enum element_type type, struct shape shape)
{
    struct batch b = make_batch(shape);
    for (size_t row = 0; row < shape.rows; row++) {
        float *x = b.logits + row * shape.classes;
        if (row % 3 == 0 && b.labels[row] >= 0 && (size_t)b.labels[row] < shape.classes)
            x[b.labels[row]] = 9;
        if (row % 4 == 0)
            x[row % shape.classes] = 9;
    }
    int32_t correct = 77;
    void *logits = typed_device(type, b.logits, b.n, element_size(type));
    const int32_t expected = reference_count(&b);
    int32_t *labels = test_device(b.labels, shape.rows * sizeof(int32_t), 0);
    int32_t *device_correct = test_device(&correct, sizeof correct, 0);
    LAUNCH(kernel_count_correct(type, device_correct, logits, labels, shape.rows, shape.classes, test_stream));
    test_read(&correct, device_correct, sizeof correct);
    if (correct != expected)
        test_fail("%zu x %zu: %d rows are right, counted %d", shape.rows, shape.classes, (int)expected, (int)correct);
    test_bytes("correct", &correct, &expected, sizeof correct);
    free_batch(&b);
    test_release();
}

static void run_count(const void *argument)
{
    (void)argument;
    FOR_EACH_TYPE(type)
        for (size_t i = 0; i < SHAPES; i++)
            run_count_shape(type, shapes[i]);
}

const struct test_case softmax_cases[] = {
    {"softmax_cross_entropy", run_softmax, NULL},
    {"count_correct", run_count, NULL},
    {NULL, NULL, NULL},
};
