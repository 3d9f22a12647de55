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

/* Scores by row, or their gradients; row 1 has a NaN (if there is one), row 2 is `large` times as large, and what must not be read
 * is NaN. */
static void make_scores(const struct scores *s, float *x, uint32_t sequence, float large)
{
    const size_t rows = s->blocks * s->block_rows;
    test_random(x, rows * s->columns, sequence);
    for (size_t r = 0; r < rows; r++) {
        for (size_t i = 0; i < s->columns; i++) {
            float *value = &x[r * s->columns + i];
            *value = i >= seen(s, r) ? NAN : r == 1 && i == seen(s, 1) / 2 ? NAN : r == 2 ? *value * large : *value;
        }
    }
}

/* The largest number is taken of those that are none; a row with a NaN is NaN by its sum. */
static void reference_softmax(const struct scores *s, const float *x, double *p, double *tops, double *factors)
{
    for (size_t r = 0; r < s->blocks * s->block_rows; r++) {
        double top = -(double)INFINITY, sum = 0;
        for (size_t i = 0; i < seen(s, r); i++)
            top = fmax(top, (double)x[r * s->columns + i]);
        for (size_t i = 0; i < seen(s, r); i++)
            sum += exp(((double)x[r * s->columns + i] - top) * (double)SCALE);
        for (size_t i = 0; i < s->columns; i++)
            p[r * s->columns + i] = i < seen(s, r) ? exp(((double)x[r * s->columns + i] - top) * (double)SCALE) / sum : 0;
        tops[r] = top;
        factors[r] = 1 / sum;
    }
}

/* One shape's way forward and back. */
struct softmax {
    enum element_type type;
    const struct scores *shape;
    size_t rows, n;
    float *x, *row;             /* scores; room for one number a row */
    double *p, *tops, *factors; /* expected; p from the forward pass on: found */
    void *device, *device_tops, *device_factors;
};

/* The forward pass's against the reference; what came out is then what the backward pass must make again, to the bit. */
static void check_probabilities(struct softmax *t, bool again)
{
    const struct scores *s = t->shape;
    char label[64];
    float *p = test_memory(t->n * sizeof *p);
    typed_read(t->type, p, t->device, t->n);
    snprintf(label, sizeof label, "p%s %zu x %zu first %zu", again ? " again" : "", t->rows, s->columns, s->first);
    if (again)
        test_floats(label, p, t->p, t->n, 0, 0);
    else
        typed_check(t->type, label, p, t->p, t->n, 1e-4, 1e-7); /* 1e-4: the scores of 1000 are rounded before the exponential */
    for (size_t i = 0; i < t->n; i++)
        t->p[i] = (double)p[i];
    free(p);
}

static void run_forward(struct softmax *t)
{
    const struct scores *s = t->shape;
    make_scores(s, t->x, 70, 1000);
    t->device = typed_device(t->type, t->x, t->n, 4);
    reference_softmax(s, t->x, t->p, t->tops, t->factors);
    test_random(t->row, t->rows, 72); /* what the kernel must overwrite */
    t->device_tops = test_device(t->row, t->rows * sizeof *t->row, 4);
    t->device_factors = test_device(t->row, t->rows * sizeof *t->row, 4);
    LAUNCH(kernel_causal_softmax_forward(t->type, t->device, t->device_tops, t->device_factors, t->rows, s->columns,
                                         s->block_rows, s->first, SCALE, test_stream));
    check_probabilities(t, false);
    test_read(t->row, t->device_tops, t->rows * sizeof *t->row);
    test_floats("tops", t->row, t->tops, t->rows, 0, 0);
    test_read(t->row, t->device_factors, t->rows * sizeof *t->row);
    test_floats("factors", t->row, t->factors, t->rows, 1e-4, 0);
}

/* From the scores and the numbers that the forward pass left: the probabilities once more, and the gradient. The gradient's
 * reference begins with the probabilities as they came out. */
static void run_backward(struct softmax *t)
{
    const struct scores *s = t->shape;
    float *d = test_memory(t->n * sizeof *d);
    const double *p = t->p;
    double *expected = test_memory(t->n * sizeof *expected);
    char label[64];
    make_scores(s, d, 71, 1);
    void *device_d = typed_device(t->type, d, t->n, 4);
    t->device = typed_device(t->type, t->x, t->n, 4);
    LAUNCH(kernel_causal_softmax_backward(t->type, device_d, t->device, t->device_tops, t->device_factors, t->rows, s->columns,
                                          s->block_rows, s->first, SCALE, test_stream));
    check_probabilities(t, true);
    for (size_t r = 0; r < t->rows; r++) {
        double along = 0;
        for (size_t i = r * s->columns; i < r * s->columns + seen(s, r); i++)
            along += p[i] * (double)d[i];
        for (size_t i = 0; i < s->columns; i++) {
            const size_t at = r * s->columns + i;
            expected[at] = i < seen(s, r) ? (double)SCALE * p[at] * ((double)d[at] - along) : 0;
        }
    }
    typed_read(t->type, d, device_d, t->n);
    snprintf(label, sizeof label, "ds %zu x %zu first %zu", t->rows, s->columns, s->first);
    typed_check(t->type, label, d, expected, t->n, 2e-6, t->rows > 2 ? 1e-3 / (double)s->columns : 1e-6);
    free(d);
    free(expected);
}

static void run_softmax_shape(enum element_type type, const struct scores *s)
{
    struct softmax t = {.type = type, .shape = s, .rows = s->blocks * s->block_rows};
    t.n = t.rows * s->columns;
    t.x = test_memory(t.n * sizeof *t.x);
    t.row = test_memory(t.rows * sizeof *t.row);
    double *memory = test_memory((t.n + 2 * t.rows) * sizeof *memory);
    t.p = memory;
    t.tops = memory + t.n;
    t.factors = t.tops + t.rows;
    run_forward(&t);
    run_backward(&t);
    free(t.x);
    free(t.row);
    free(memory);
    test_release();
}

static void run_softmax(const void *argument)
{
    (void)argument;
    FOR_EACH_TYPE(type)
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
            run_softmax_shape(type, &shapes[i]);
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
