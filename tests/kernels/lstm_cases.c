/* SPDX-License-Identifier: MIT
 *
 * The LSTM cell forward and back against the formulas in double, with and without a gradient from the step behind; tokens turned.
 * What lies between the rows of `out`, and behind the last one, must stay as it was.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/kernels.h"
#include "typed.h"

struct shape {
    size_t rows, columns, stride;
};

static const struct shape shapes[] = {{0, 5, 5},    {1, 1, 3},    {3, 7, 7},      {4, 31, 62},      {5, 32, 96},
                                      {3, 33, 33},  {2, 64, 640}, {129, 128, 256}, {2, 1025, 2051}, {160, 256, 256}};

/* All that both kernels read and write; gates [rows][4 columns], outer [rows][stride], else [rows][columns]. */
struct cell {
    struct shape shape;
    size_t n, outer_count;
    float *gates, *found_gates, *c, *before, *h, *outer, *bias_ih, *bias_hh, *d_h, *d_c;
    double *expected_gates, *expected_c, *expected_h, *expected_outer;
};

static struct cell make_cell(struct shape shape)
{
    struct cell m = {.shape = shape, .n = shape.rows * shape.columns, .outer_count = shape.rows * shape.stride};
    float **of_n[] = {&m.c, &m.before, &m.h, &m.d_h, &m.d_c};
    for (size_t i = 0; i < sizeof of_n / sizeof of_n[0]; i++)
        *of_n[i] = test_memory(m.n * sizeof(float));
    m.gates = test_memory(4 * m.n * sizeof(float));
    m.found_gates = test_memory(4 * m.n * sizeof(float));
    m.outer = test_memory(m.outer_count * sizeof(float));
    m.bias_ih = test_memory(4 * shape.columns * sizeof(float));
    m.bias_hh = test_memory(4 * shape.columns * sizeof(float));
    m.expected_gates = test_memory(4 * m.n * sizeof(double));
    m.expected_c = test_memory(m.n * sizeof(double));
    m.expected_h = test_memory(m.n * sizeof(double));
    m.expected_outer = test_memory(m.outer_count * sizeof(double));
    return m;
}

static void free_cell(struct cell *m)
{
    float *all[] = {m->gates, m->found_gates, m->c, m->before, m->h, m->outer, m->bias_ih, m->bias_hh, m->d_h, m->d_c};
    double *expected[] = {m->expected_gates, m->expected_c, m->expected_h, m->expected_outer};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        free(expected[i]);
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* Outer rows keep what stands between them. */
static void expect_forward(struct cell *m)
{
    const size_t columns = m->shape.columns;
    for (size_t i = 0; i < m->outer_count; i++)
        m->expected_outer[i] = (double)m->outer[i];
    for (size_t at = 0; at < m->n; at++) {
        const size_t row = at / columns, k = at % columns;
        double *gate = m->expected_gates + 4 * row * columns + k;
        for (size_t g = 0; g < 4; g++) {
            const double a = (double)m->gates[(4 * row + g) * columns + k] + (double)m->bias_ih[g * columns + k] +
                             (double)m->bias_hh[g * columns + k];
            gate[g * columns] = g == 2 ? tanh(a) : sigmoid(a);
        }
        m->expected_c[at] = gate[columns] * (double)m->before[at] + gate[0] * gate[2 * columns];
        m->expected_h[at] = gate[3 * columns] * tanh(m->expected_c[at]);
        m->expected_outer[row * m->shape.stride + k] = m->expected_h[at];
    }
}

static void check(enum element_type type, const char *what, const struct cell *m, const float *found, const double *expected,
                  size_t n, double relative)
{
    char label[96];
    snprintf(label, sizeof label, "%s %zu x %zu", what, m->shape.rows, m->shape.columns);
    typed_check(type, label, found, expected, n, relative, 2e-6);
}

/* NaN in a gate and in a state; infinite and huge gates give the functions' limits. */
static void spoil(struct cell *m)
{
    if (m->shape.rows < 3)
        return;
    const size_t columns = m->shape.columns;
    m->gates[4 * columns + columns / 2] = NAN;
    m->before[2 * columns] = NAN;
    m->gates[0] = INFINITY;
    m->gates[columns + 1] = -INFINITY;
    m->gates[2 * columns + 2] = -200;
    m->gates[3 * columns + 3] = 300;
}

static void run_forward_shape(enum element_type type, struct shape shape)
{
    struct cell m = make_cell(shape);
    test_random(m.gates, 4 * m.n, 100);
    test_random(m.before, m.n, 101);
    spoil(&m);
    void *gates = typed_device(type, m.gates, 4 * m.n, 4), *h = typed_random(type, m.h, m.n, 102, 1, 0);
    void *outer = typed_random(type, m.outer, m.outer_count, 103, 1, 4);
    void *bias_ih = typed_random(type, m.bias_ih, 4 * shape.columns, 104, 1, 0);
    void *bias_hh = typed_random(type, m.bias_hh, 4 * shape.columns, 105, 1, 4);
    float *c = test_device(m.c, m.n * sizeof(float), 4), *before = test_device(m.before, m.n * sizeof(float), 0);
    expect_forward(&m);
    LAUNCH(kernel_lstm_forward(type, gates, c, h, outer, before, bias_ih, bias_hh, shape.rows, shape.columns, shape.stride,
                               test_stream));
    typed_read(type, m.found_gates, gates, 4 * m.n);
    typed_read(type, m.h, h, m.n);
    typed_read(type, m.outer, outer, m.outer_count);
    test_read(m.c, c, m.n * sizeof(float));
    check(type, "gates", &m, m.found_gates, m.expected_gates, 4 * m.n, 1e-6);
    check(ELEMENT_F32, "c", &m, m.c, m.expected_c, m.n, 1e-6); /* fp32 whatever the type */
    check(type, "h", &m, m.h, m.expected_h, m.n, 1e-6);
    check(type, "out", &m, m.outer, m.expected_outer, m.outer_count, 1e-6);
    free_cell(&m);
    test_release();
}

static void expect_backward(struct cell *m, bool last)
{
    const size_t columns = m->shape.columns;
    for (size_t at = 0; at < m->n; at++) {
        const size_t row = at / columns, k = at % columns, first = 4 * row * columns + k;
        const double i = (double)m->gates[first], f = (double)m->gates[first + columns];
        const double g = (double)m->gates[first + 2 * columns], o = (double)m->gates[first + 3 * columns];
        const double dh = (double)m->outer[row * m->shape.stride + k] + (last ? 0 : (double)m->d_h[at]);
        const double t = tanh((double)m->c[at]), s = (last ? 0 : (double)m->d_c[at]) + dh * o * (1 - t * t);
        m->expected_gates[first] = s * g * i * (1 - i);
        m->expected_gates[first + columns] = s * (double)m->before[at] * f * (1 - f);
        m->expected_gates[first + 2 * columns] = s * i * (1 - g * g);
        m->expected_gates[first + 3 * columns] = dh * t * o * (1 - o);
        m->expected_c[at] = s * f;
    }
}

/* The gates as a forward pass leaves them, of the given type. Of the last step d_c holds NaN, which nobody may read. */
static void run_backward_shape(enum element_type type, struct shape shape, bool last)
{
    struct cell m = make_cell(shape);
    const size_t bytes = m.n * sizeof(float);
    test_random(m.gates, 4 * m.n, 110);
    for (size_t i = 0; i < 4 * m.n; i++)
        m.gates[i] = i / shape.columns % 4 == 2 ? tanhf(m.gates[i]) : (float)sigmoid((double)m.gates[i]);
    test_random(m.before, m.n, 111);
    test_random(m.c, m.n, 112);
    test_random(m.d_c, m.n, 113);
    for (size_t i = 0; i < m.n && last; i++)
        m.d_c[i] = NAN;
    if (shape.rows > 2)
        m.c[shape.columns] = m.gates[8 * shape.columns] = NAN;
    void *gates = typed_device(type, m.gates, 4 * m.n, 0), *d_h = typed_random(type, m.d_h, m.n, 114, 1, 4);
    void *d_out = typed_random(type, m.outer, m.outer_count, 115, 1, 0);
    float *c = test_device(m.c, bytes, 0), *before = test_device(m.before, bytes, 4), *d_c = test_device(m.d_c, bytes, 0);
    expect_backward(&m, last);
    LAUNCH(kernel_lstm_backward(type, gates, d_c, c, before, d_out, last ? NULL : d_h, shape.rows, shape.columns, shape.stride,
                                test_stream));
    typed_read(type, m.found_gates, gates, 4 * m.n);
    test_read(m.d_c, d_c, bytes);
    check(type, last ? "d gates, last" : "d gates", &m, m.found_gates, m.expected_gates, 4 * m.n, 2e-6);
    check(ELEMENT_F32, last ? "d c, last" : "d c", &m, m.d_c, m.expected_c, m.n, 2e-6);
    free_cell(&m);
    test_release();
}

static void run_forward(const void *argument)
{
    (void)argument;
    FOR_EACH_TYPE(type)
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
            run_forward_shape(type, shapes[i]);
}

static void run_backward(const void *argument)
{
    (void)argument;
    FOR_EACH_TYPE(type) {
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            run_backward_shape(type, shapes[i], false);
            run_backward_shape(type, shapes[i], true);
        }
    }
}

static void run_turn(const void *argument)
{
    (void)argument;
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        const size_t rows = shapes[s].rows, columns = shapes[s].columns, bytes = rows * columns * sizeof(int32_t);
        int32_t *x = test_memory(bytes), *y = test_memory(bytes), *expected = test_memory(bytes);
        char label[64];
        for (size_t i = 0; i < rows * columns; i++) {
            x[i] = (int32_t)(i * 7919 % 1000003);
            expected[i % columns * rows + i / columns] = x[i];
        }
        int32_t *device_x = test_device(x, bytes, 4), *device_y = test_device(y, bytes, 0);
        LAUNCH(kernel_turn_tokens(device_y, device_x, rows, columns, test_stream));
        test_read(y, device_y, bytes);
        snprintf(label, sizeof label, "tokens %zu x %zu", rows, columns);
        test_bytes(label, y, expected, bytes);
        free(x);
        free(y);
        free(expected);
        test_release();
    }
}

const struct test_case lstm_cases[] = {
    {"lstm forward", run_forward, NULL},
    {"lstm backward", run_backward, NULL},
    {"turn tokens", run_turn, NULL},
    {NULL, NULL, NULL},
};
