/* SPDX-License-Identifier: MIT
 *
 * LayerNorm with and without the sum before it, its gradients; embeddings with repeated tokens and tokens outside the table;
 * bias and GELU together.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/kernels.h"
#include "typed.h"

struct shape {
    size_t rows, columns;
};

static const struct shape shapes[] = {{0, 5}, {1, 1}, {3, 7}, {4, 31}, {5, 32}, {3, 33}, {129, 128}, {2, 1025}, {33, 768}, {515, 100}};

#define EPSILON 1e-5f

/* All that the three kernels read and write; rows x columns unless said otherwise. */
struct norm {
    struct shape shape;
    size_t n;
    float *x, *residual, *bias, *gamma, *beta, *y, *dy, *dx, *dgamma, *dbeta, *mean, *rstd;
    double *expected;
};

static struct norm make_norm(struct shape shape)
{
    struct norm m = {.shape = shape, .n = shape.rows * shape.columns};
    float **matrices[] = {&m.x, &m.residual, &m.y, &m.dy, &m.dx};
    float **rows[] = {&m.bias, &m.gamma, &m.beta, &m.dgamma, &m.dbeta};
    for (size_t i = 0; i < 5; i++) {
        *matrices[i] = test_memory(m.n * sizeof(float));
        *rows[i] = test_memory(shape.columns * sizeof(float));
    }
    m.mean = test_memory(shape.rows * sizeof(float));
    m.rstd = test_memory(shape.rows * sizeof(float));
    m.expected = test_memory((m.n + shape.columns) * sizeof *m.expected);
    return m;
}

static void free_norm(struct norm *m)
{
    float *all[] = {m->x, m->residual, m->y, m->dy, m->dx, m->bias, m->gamma, m->beta, m->dgamma, m->dbeta, m->mean, m->rstd};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    free(m->expected);
}

/* Mean and 1 / deviation of row r of x, in double. */
static double row_statistics(const struct norm *m, size_t r, double *rstd)
{
    const size_t c = m->shape.columns;
    double mean = 0, squares = 0;
    for (size_t i = 0; i < c; i++)
        mean += (double)m->x[r * c + i] / (double)c;
    for (size_t i = 0; i < c; i++)
        squares += ((double)m->x[r * c + i] - mean) * ((double)m->x[r * c + i] - mean);
    *rstd = 1 / sqrt(squares / (double)c + (double)EPSILON);
    return mean;
}

static void check_forward(enum element_type type, struct norm *m, const void *y)
{
    const size_t c = m->shape.columns;
    char label[64];
    for (size_t r = 0; r < m->shape.rows; r++) {
        double rstd;
        const double mean = row_statistics(m, r, &rstd);
        for (size_t i = 0; i < c; i++)
            m->expected[r * c + i] = ((double)m->x[r * c + i] - mean) * rstd * (double)m->gamma[i] + (double)m->beta[i];
    }
    typed_read(type, m->y, y, m->n);
    snprintf(label, sizeof label, "y %zu x %zu", m->shape.rows, c);
    typed_check(type, label, m->y, m->expected, m->n, 1e-5, 1e-5);
}

static void check_gradient(enum element_type type, struct norm *m, const void *dx, bool added)
{
    const size_t c = m->shape.columns;
    char label[64];
    for (size_t r = 0; r < m->shape.rows; r++) {
        double rstd, g = 0, along = 0;
        const double mean = row_statistics(m, r, &rstd);
        for (size_t i = r * c; i < (r + 1) * c; i++) {
            const double d = (double)m->gamma[i - r * c] * (double)m->dy[i];
            g += d / (double)c;
            along += d * ((double)m->x[i] - mean) * rstd / (double)c;
        }
        for (size_t i = r * c; i < (r + 1) * c; i++)
            m->expected[i] = (added ? (double)m->dx[i] : 0) +
                             rstd * ((double)m->gamma[i - r * c] * (double)m->dy[i] - g - ((double)m->x[i] - mean) * rstd * along);
    }
    typed_read(type, m->dx, dx, m->n);
    snprintf(label, sizeof label, "dx %zu x %zu added %d", m->shape.rows, c, added);
    typed_check(type, label, m->dx, m->expected, m->n, 1e-5, m->shape.columns == 1 ? 1e-3 : 2e-5);
}

static void check_parameters(enum element_type type, struct norm *m, const void *dgamma, const void *dbeta, bool added)
{
    const size_t c = m->shape.columns;
    char label[64];
    for (int which = 0; which < 2; which++) {
        float *sums = which ? m->dbeta : m->dgamma;
        for (size_t i = 0; i < c; i++)
            m->expected[i] = added ? (double)sums[i] : 0;
        for (size_t r = 0; r < m->shape.rows; r++) {
            double rstd;
            const double mean = row_statistics(m, r, &rstd);
            for (size_t i = 0; i < c; i++)
                m->expected[i] += (double)m->dy[r * c + i] * (which ? 1 : ((double)m->x[r * c + i] - mean) * rstd);
        }
        typed_read(type, sums, which ? dbeta : dgamma, c);
        snprintf(label, sizeof label, "%s %zu x %zu added %d", which ? "dbeta" : "dgamma", m->shape.rows, c, added);
        typed_check(type, label, sums, m->expected, c, 1e-5, 1e-5 * (1 + sqrt((double)m->shape.rows)));
    }
}

/* The sum is checked first; then x is what the kernel made of it, rounded as it is. Row 1 has a NaN. */
static void run_layernorm_shape(enum element_type type, struct shape shape, bool summed)
{
    struct norm m = make_norm(shape);
    const size_t c = shape.columns;
    test_random(m.x, m.n, 80);
    if (shape.rows > 2)
        m.x[c + c / 2] = NAN;
    void *x = typed_device(type, m.x, m.n, 4), *residual = typed_random(type, m.residual, m.n, 81, 2, 0);
    void *bias = typed_random(type, m.bias, c, 82, 1, 0), *gamma = typed_random(type, m.gamma, c, 83, 1, 4);
    void *beta = typed_random(type, m.beta, c, 84, 1, 0), *y = typed_device(type, m.y, m.n, 0);
    void *dy = typed_random(type, m.dy, m.n, 85, 1, 0), *dx = typed_random(type, m.dx, m.n, 86, 1, 0);
    void *dgamma = typed_random(type, m.dgamma, c, 87, 1, 0), *dbeta = typed_random(type, m.dbeta, c, 88, 1, 4);
    float *mean = test_device(m.mean, shape.rows * sizeof(float), 0), *rstd = test_device(m.rstd, shape.rows * sizeof(float), 4);
    for (size_t i = 0; i < m.n; i++)
        m.expected[i] = (double)m.x[i] + (summed ? (double)m.bias[i % c] + (double)m.residual[i] : 0);
    LAUNCH(kernel_layernorm_forward(type, y, mean, rstd, x, summed ? residual : NULL, summed ? bias : NULL, gamma, beta, shape.rows,
                                    c, EPSILON, test_stream));
    LAUNCH(kernel_layernorm_parameters(type, dgamma, dbeta, dy, x, mean, rstd, shape.rows, c, summed, test_stream));
    LAUNCH(kernel_layernorm_backward(type, dx, dy, x, mean, rstd, gamma, shape.rows, c, summed, test_stream));
    typed_read(type, m.x, x, m.n);
    typed_check(type, "x", m.x, m.expected, m.n, 1e-7, 1e-6);
    check_forward(type, &m, y);
    check_gradient(type, &m, dx, summed);
    check_parameters(type, &m, dgamma, dbeta, summed);
    free_norm(&m);
    test_release();
}

static void run_layernorm(const void *argument)
{
    (void)argument;
    FOR_EACH_TYPE(type) {
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            run_layernorm_shape(type, shapes[i], false);
            run_layernorm_shape(type, shapes[i], true);
        }
    }
}

/* ---- embeddings ---------------------------------------------------------------------------------------------------------------- */

#define PERIOD 5

/* Few different tokens (long runs) or many; the first two lie outside the table. */
static int32_t *make_tokens(size_t n, size_t vocabulary)
{
    int32_t *tokens = test_memory(n * sizeof *tokens);
    for (size_t i = 0; i < n; i++)
        tokens[i] = (int32_t)(i * i * 7919 % 1000003 % vocabulary);
    if (n > 2) {
        tokens[0] = -1;
        tokens[1] = (int32_t)vocabulary;
    }
    return tokens;
}

static bool in_table(int32_t token, size_t vocabulary) { return token >= 0 && (size_t)token < vocabulary; }

static void run_embedding_shape(enum element_type type, struct shape shape, size_t vocabulary, bool positions)
{
    const size_t c = shape.columns, n = shape.rows * c;
    float *table = test_memory(vocabulary * c * sizeof *table), *y = test_memory(n * sizeof *y);
    float *position = test_memory(PERIOD * c * sizeof *position);
    double *expected = test_memory((n + vocabulary * c) * sizeof *expected);
    int32_t *tokens = make_tokens(shape.rows, vocabulary), *order = test_memory(shape.rows * sizeof *order);
    char label[64];
    void *device_table = typed_random(type, table, vocabulary * c, 90, 1, 4), *device_y = typed_device(type, y, n, 0);
    void *device_position = typed_random(type, position, PERIOD * c, 91, 1, 0);
    int32_t *device_tokens = test_device(tokens, shape.rows * sizeof *tokens, 0);
    int32_t *device_order = test_device(order, shape.rows * sizeof *order, 4);
    for (size_t i = 0; i < n; i++)
        expected[i] = !in_table(tokens[i / c], vocabulary)
                          ? (double)NAN
                          : (double)table[(size_t)tokens[i / c] * c + i % c] + (positions ? (double)position[i % (PERIOD * c)] : 0);
    LAUNCH(kernel_embedding_forward(type, device_y, device_table, positions ? device_position : NULL, device_tokens, shape.rows, c,
                                    vocabulary, PERIOD, test_stream));
    typed_read(type, y, device_y, n);
    snprintf(label, sizeof label, "y %zu x %zu of %zu", shape.rows, c, vocabulary);
    typed_check(type, label, y, expected, n, 1e-7, 0);

    void *dy = typed_random(type, y, n, 92, 1, 0);
    for (size_t i = 0; i < vocabulary * c; i++)
        expected[i] = (double)table[i];
    for (size_t i = 0; i < n; i++)
        if (in_table(tokens[i / c], vocabulary))
            expected[(size_t)tokens[i / c] * c + i % c] += (double)y[i];
    LAUNCH(kernel_embedding_order(device_order, device_tokens, shape.rows, test_stream));
    LAUNCH(kernel_embedding_backward(type, device_table, dy, device_tokens, device_order, shape.rows, c, vocabulary, test_stream));
    typed_read(type, table, device_table, vocabulary * c);
    snprintf(label, sizeof label, "d table %zu x %zu of %zu", shape.rows, c, vocabulary);
    typed_check(type, label, table, expected, vocabulary * c, 1e-6, 1e-6 * sqrt((double)shape.rows));
    free(table);
    free(y);
    free(position);
    free(expected);
    free(tokens);
    free(order);
    test_release();
}

static void run_embedding(const void *argument)
{
    (void)argument;
    static const size_t vocabularies[] = {1, 3, 257};
    FOR_EACH_TYPE(type)
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
            for (size_t v = 0; v < 3; v++)
                run_embedding_shape(type, shapes[i], vocabularies[v], v % 2 == 0);
}

/* ---- bias and GELU ----------------------------------------------------------------------------------------------------------------- */

static double gelu(double x)
{
    return x / (1 + exp(-2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

static void run_bias_gelu_shape(enum element_type type, struct shape shape)
{
    const size_t n = shape.rows * shape.columns;
    float *x = test_memory(n * sizeof *x), *y = test_memory(n * sizeof *y), *bias = test_memory(shape.columns * sizeof *bias);
    double *expected = test_memory(n * sizeof *expected);
    char label[64];
    test_random(x, n, 95);
    if (n > 2)
        x[n / 2] = NAN;
    void *device_x = typed_device(type, x, n, 4), *device_y = typed_device(type, y, n, 0);
    void *device_bias = typed_random(type, bias, shape.columns, 96, 2, 0);
    for (size_t i = 0; i < n; i++)
        expected[i] = (double)x[i] + (double)bias[i % shape.columns];
    LAUNCH(kernel_bias_gelu(type, device_y, device_x, device_bias, shape.rows, shape.columns, test_stream));
    typed_read(type, x, device_x, n);
    typed_read(type, y, device_y, n);
    snprintf(label, sizeof label, "x %zu x %zu", shape.rows, shape.columns);
    typed_check(type, label, x, expected, n, 1e-7, 1e-7);
    for (size_t i = 0; i < n; i++) /* of the sum as it was rounded */
        expected[i] = gelu((double)x[i]);
    snprintf(label, sizeof label, "gelu %zu x %zu", shape.rows, shape.columns);
    typed_check(type, label, y, expected, n, 2e-6, 1e-7);
    free(x);
    free(y);
    free(bias);
    free(expected);
    test_release();
}

static void run_bias_gelu(const void *argument)
{
    (void)argument;
    FOR_EACH_TYPE(type)
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
            run_bias_gelu_shape(type, shapes[i]);
}

const struct test_case layer_cases[] = {
    {"layernorm", run_layernorm, NULL},
    {"embedding", run_embedding, NULL},
    {"bias_gelu", run_bias_gelu, NULL},
    {NULL, NULL, NULL},
};
