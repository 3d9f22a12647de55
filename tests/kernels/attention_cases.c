/* SPDX-License-Identifier: MIT
 *
 * Causal softmax and its gradient, in place, with garbage above the diagonal; heads and tokens, there and back.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/kernels.h"
#include "typed.h"

struct scores {
    size_t blocks, block_rows, columns, first; /* rows = blocks x block_rows */
};

static const struct scores shapes[] = {
    {0, 4, 4, 0}, {1, 1, 1, 0}, {3, 7, 7, 0}, {2, 5, 31, 26}, {2, 16, 33, 17}, {1, 33, 64, 3}, {5, 64, 64, 0}, {3, 64, 128, 64},
    {1, 3, 1025, 1022}, {1, 130, 1024, 0}, {60, 32, 96, 64},
};

#define SCALE 0.3f

/* What a row sees. */
static size_t seen(const struct scores *s, size_t row) { return s->first + row % s->block_rows + 1; }

/* Scores by row; row 1 has a NaN (if there is one), row 2 is huge, and what must not be read is NaN. */
static void make_scores(const struct scores *s, float *x)
{
    const size_t rows = s->blocks * s->block_rows;
    test_random(x, rows * s->columns, 70);
    for (size_t r = 0; r < rows; r++) {
        for (size_t i = 0; i < s->columns; i++) {
            float *value = &x[r * s->columns + i];
            *value = i >= seen(s, r) ? NAN : r == 1 && i == seen(s, 1) / 2 ? NAN : r == 2 ? *value * 1000 : *value;
        }
    }
}

static void reference_softmax(const struct scores *s, const float *x, double *p)
{
    for (size_t r = 0; r < s->blocks * s->block_rows; r++) {
        double top = -(double)INFINITY, sum = 0;
        for (size_t i = 0; i < seen(s, r); i++)
            top = fmax(top, (double)x[r * s->columns + i]);
        for (size_t i = 0; i < seen(s, r); i++)
            sum += exp(((double)x[r * s->columns + i] - top) * (double)SCALE);
        for (size_t i = 0; i < s->columns; i++)
            p[r * s->columns + i] = i < seen(s, r) ? exp(((double)x[r * s->columns + i] - top) * (double)SCALE) / sum : 0;
    }
}

static void run_forward_shape(enum element_type type, const struct scores *s)
{
    const size_t rows = s->blocks * s->block_rows, n = rows * s->columns;
    float *x = test_memory(n * sizeof *x);
    double *expected = test_memory(n * sizeof *expected);
    char label[64];
    make_scores(s, x);
    void *device = typed_device(type, x, n, 4);
    reference_softmax(s, x, expected);
    LAUNCH(kernel_causal_softmax_forward(type, device, rows, s->columns, s->block_rows, s->first, SCALE, test_stream));
    typed_read(type, x, device, n);
    snprintf(label, sizeof label, "p %zu x %zu first %zu", rows, s->columns, s->first);
    typed_check(type, label, x, expected, n, 1e-4, 1e-7); /* 1e-4: the scores of 1000 are rounded before the exponential */
    free(x);
    free(expected);
    test_release();
}

static void run_backward_shape(enum element_type type, const struct scores *s)
{
    const size_t rows = s->blocks * s->block_rows, n = rows * s->columns;
    float *p = test_memory(n * sizeof *p), *d = test_memory(n * sizeof *d);
    double *expected = test_memory(n * sizeof *expected);
    char label[64];
    make_scores(s, d); /* gradients, NaN where they must not be read */
    test_random(p, n, 71);
    for (size_t i = 0; i < n; i++)
        p[i] = fabsf(p[i]) / (float)s->columns;
    void *device_d = typed_device(type, d, n, 4), *device_p = typed_device(type, p, n, 0);
    for (size_t r = 0; r < rows; r++) {
        double along = 0;
        for (size_t i = r * s->columns; i < r * s->columns + seen(s, r); i++)
            along += (double)p[i] * (double)d[i];
        for (size_t i = 0; i < s->columns; i++) {
            const size_t at = r * s->columns + i;
            expected[at] = i < seen(s, r) ? (double)SCALE * (double)p[at] * ((double)d[at] - along) : 0;
        }
    }
    LAUNCH(kernel_causal_softmax_backward(type, device_d, device_p, rows, s->columns, s->block_rows, s->first, SCALE, test_stream));
    typed_read(type, d, device_d, n);
    snprintf(label, sizeof label, "ds %zu x %zu first %zu", rows, s->columns, s->first);
    typed_check(type, label, d, expected, n, 2e-6, rows > 2 ? 1e-3 / (double)s->columns : 1e-6);
    free(p);
    free(d);
    free(expected);
    test_release();
}

static void run_softmax(const void *argument)
{
    (void)argument;
    FOR_EACH_TYPE(type) {
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            run_forward_shape(type, &shapes[i]);
            run_backward_shape(type, &shapes[i]);
        }
    }
}

/* ---- heads ------------------------------------------------------------------------------------------------------------------- */

struct heads {
    size_t batch, tokens, heads, width, parts;
    bool bias;
};

static size_t place_of(const struct heads *h, size_t b, size_t t, size_t p, size_t head, size_t i)
{
    return (((p * h->batch + b) * h->heads + head) * h->tokens + t) * h->width + i;
}

/* x by tokens: number of sample, token, then column; f(column of x, place among heads) for each. */
static void expect_heads(const struct heads *h, const float *x, const float *bias, double *expected)
{
    const size_t columns = h->parts * h->heads * h->width;
    for (size_t row = 0; row < h->batch * h->tokens; row++)
        for (size_t column = 0; column < columns; column++)
            expected[place_of(h, row / h->tokens, row % h->tokens, column / (h->heads * h->width),
                              column / h->width % h->heads, column % h->width)] =
                (double)x[row * columns + column] + (h->bias ? (double)bias[column] : 0);
}

static void run_heads_shape(enum element_type type, const struct heads *h)
{
    const size_t columns = h->parts * h->heads * h->width, n = h->batch * h->tokens * columns;
    float *x = test_memory(n * sizeof *x), *heads = test_memory(n * sizeof *heads), *bias = test_memory(columns * sizeof *bias);
    float *back = test_memory(n * sizeof *back);
    double *expected = test_memory(n * sizeof *expected);
    char label[64];
    void *device_x = typed_random(type, x, n, 72, 1, 4), *device_bias = typed_random(type, bias, columns, 73, 1, 0);
    void *device_heads = typed_device(type, heads, n, 0), *device_back = typed_device(type, back, n, 0);
    expect_heads(h, x, bias, expected);
    LAUNCH(kernel_heads_split(type, device_heads, device_x, h->bias ? device_bias : NULL, h->batch, h->tokens, h->heads, h->width,
                              h->parts, test_stream));
    LAUNCH(kernel_heads_merge(type, device_back, device_heads, h->batch, h->tokens, h->heads, h->width, h->parts, test_stream));
    typed_read(type, heads, device_heads, n);
    typed_read(type, back, device_back, n);
    snprintf(label, sizeof label, "heads %zu x %zu x %zu x %zu x %zu", h->parts, h->batch, h->heads, h->tokens, h->width);
    typed_check(type, label, heads, expected, n, 1e-7, 0);
    for (size_t i = 0; i < n; i++) /* the way back: the same numbers, each in its place */
        expected[i] = (double)x[i] + (h->bias ? (double)bias[i % columns] : 0);
    snprintf(label, sizeof label, "back %zu x %zu x %zu x %zu x %zu", h->parts, h->batch, h->heads, h->tokens, h->width);
    typed_check(type, label, back, expected, n, 1e-7, 0);
    float *memory[] = {x, heads, bias, back};
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++)
        free(memory[i]);
    free(expected);
    test_release();
}

static void run_heads(const void *argument)
{
    (void)argument;
    static const struct heads all[] = {{0, 7, 2, 3, 3, true},   {1, 1, 1, 1, 1, false},  {2, 7, 3, 4, 3, true},
                                       {3, 5, 1, 33, 1, false}, {2, 64, 4, 32, 3, true}, {5, 31, 2, 17, 3, false}};
    FOR_EACH_TYPE(type)
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
            run_heads_shape(type, &all[i]);
}

const struct test_case attention_cases[] = {
    {"causal_softmax", run_softmax, NULL},
    {"heads", run_heads, NULL},
    {NULL, NULL, NULL},
};
