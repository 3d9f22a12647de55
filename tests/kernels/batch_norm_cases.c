/* SPDX-License-Identifier: MIT
 *
 * BatchNorm and pooling against plain loops in double: a mean far from 0, a column of NaN, one row, rows that fill
 * several chunks, columns that fill several tiles.
 */
#include <math.h>
#include <stdio.h>

#include "kernels/kernels.h"
#include "tensor.h"

struct shape {
    size_t rows, columns;
};

static const struct shape shapes[] = {{1, 3},    {2, 1},     {7, 31},   {33, 64},   {64, 257},
                                      {1025, 16}, {2050, 32}, {300, 513}, {20011, 16}, {100, 2048}};
#define SHAPES (sizeof shapes / sizeof shapes[0])
#define MOMENTUM 0.1f
#define EPSILON 1e-5f

enum { X, DY, OTHER, Y, RESIDUAL, WEIGHT, BIAS, TENSORS };

/* A BatchNorm with everything that its kernels read; the host's values and the device's. */
struct norm {
    enum element_type type;
    struct shape shape;
    size_t n;
    float *host[TENSORS];
    void *device[TENSORS];
    double *mean, *deviation;               /* [columns]: the second is 1 / sqrt(variance + epsilon) */
    float *partials, *saved, *sums, *running; /* device; running: mean and variance */
};

static float *random_tensor(size_t n, uint32_t sequence, float offset, float scale)
{
    float *values = test_memory(n * sizeof *values);
    test_random(values, n, sequence);
    for (size_t i = 0; i < n; i++)
        values[i] = offset + scale * values[i];
    return values;
}

static void *zeros(size_t bytes)
{
    void *host = test_memory(bytes), *device = test_device(host, bytes, 0);
    free(host);
    return device;
}

static void open_norm(struct norm *m, enum element_type type, struct shape shape)
{
    const size_t c = shape.columns, chunks = kernel_batch_norm_chunks(shape.rows, c);
    *m = (struct norm){.type = type, .shape = shape, .n = shape.rows * c};
    for (int i = 0; i < TENSORS; i++) {
        const size_t count = i >= WEIGHT ? c : m->n;
        m->host[i] = random_tensor(count, 70 + (uint32_t)i, i == X ? 10 : i == WEIGHT ? 1 : 0, i >= WEIGHT ? 0.3f : 1);
    }
    if (shape.rows > 31)
        m->host[X][3 * c] = NAN; /* column 0 */
    for (int i = 0; i < TENSORS; i++)
        m->device[i] = typed_device(type, m->host[i], i >= WEIGHT ? c : m->n, 0);
    m->partials = zeros(chunks * (2 * c + 1) * sizeof(float));
    m->saved = zeros((2 * c + 1) * sizeof(float));
    m->sums = zeros(2 * c * sizeof(float));
    m->running = zeros(2 * c * sizeof(float));
    m->mean = test_memory(c * sizeof *m->mean);
    m->deviation = test_memory(c * sizeof *m->deviation);
}

static void close_norm(struct norm *m)
{
    for (int i = 0; i < TENSORS; i++)
        free(m->host[i]);
    free(m->mean);
    free(m->deviation);
    test_release();
}

/* Column sums of (x - about)^power. */
static void moments(const struct norm *m, const double *about, int power, double *sums)
{
    const size_t c = m->shape.columns;
    for (size_t column = 0; column < c; column++)
        sums[column] = 0;
    for (size_t i = 0; i < m->n; i++) {
        const double x = (double)m->host[X][i] - (about ? about[i % c] : 0);
        sums[i % c] += power == 1 ? x : x * x;
    }
}

static void check_statistics(struct norm *m)
{
    const size_t c = m->shape.columns;
    const double rows = (double)m->shape.rows;
    double *saved = test_memory((2 * c + 1) * sizeof *saved), *running = test_memory(2 * c * sizeof *running);
    float *got = test_memory((2 * c + 1) * sizeof *got);

    moments(m, NULL, 1, m->mean);
    for (size_t i = 0; i < c; i++)
        m->mean[i] /= rows;
    moments(m, m->mean, 2, m->deviation);
    for (size_t i = 0; i < c; i++) {
        saved[i] = m->mean[i];
        running[i] = (double)MOMENTUM * m->mean[i];
        running[c + i] = (double)MOMENTUM * m->deviation[i] / (rows > 1 ? rows - 1 : 1);
        m->deviation[i] = saved[c + i] = 1 / sqrt(m->deviation[i] / rows + (double)EPSILON);
    }
    saved[2 * c] = rows;
    LAUNCH(kernel_batch_norm_statistics(m->type, m->partials, m->device[X], m->shape.rows, c, test_stream));
    LAUNCH(kernel_batch_norm_finish(m->saved, m->running, m->running + c, m->partials,
                                    kernel_batch_norm_chunks(m->shape.rows, c), c, MOMENTUM, EPSILON, test_stream));
    test_read(got, m->saved, (2 * c + 1) * sizeof *got);
    test_floats("saved", got, saved, 2 * c + 1, 2e-6, 0);
    test_read(got, m->running, 2 * c * sizeof *got);
    test_floats("running", got, running, 2 * c, 4e-6, 0);
    free(saved), free(running), free(got);
}

static double normal(const struct norm *m, size_t i)
{
    const size_t column = i % m->shape.columns;
    return ((double)m->host[X][i] - m->mean[column]) * m->deviation[column] * (double)m->host[WEIGHT][column] +
           (double)m->host[BIAS][column];
}

static double relu(double x) { return x < 0 ? 0 : x; }

/* variant 0: plain, 1: ReLU, 2: residual and ReLU */
static void check_normalise(struct norm *m, int variant)
{
    double *expected = test_memory(m->n * sizeof *expected);
    void *y = zeros(m->n * element_size(m->type));
    for (size_t i = 0; i < m->n; i++) {
        const double x = normal(m, i);
        expected[i] = variant == 0 ? x : variant == 1 ? relu(x) : relu(x + (double)m->host[RESIDUAL][i]);
    }
    LAUNCH(kernel_batch_norm_normalise(m->type, y, m->device[X], variant == 2 ? m->device[RESIDUAL] : NULL, m->saved,
                                       m->device[WEIGHT], m->device[BIAS], m->shape.rows, m->shape.columns, variant > 0,
                                       test_stream));
    tensor_expect("normalise", m->type, y, expected, m->n, 1e-5, 2e-5);
    free(expected);
}

/* The gradient behind the gate, as the kernels see it. gate 0: none, 1: from x, 2: from y, 3: from y with a second one */
static double gated(const struct norm *m, int gate, size_t i)
{
    const double dy = (double)m->host[DY][i];
    if (gate == 1)
        return normal(m, i) > 0 ? dy : 0;
    if (gate >= 2) {
        /* the sum is rounded to the type when it is written, and the sums take what was not */
        return m->host[Y][i] > 0 ? dy + (gate == 3 ? (double)m->host[OTHER][i] : 0) : 0;
    }
    return dy;
}

/* Into sums: of g and of g (x - mean), and magnitudes for the tolerance. */
static void gradient_sums(const struct norm *m, int gate, double *sums, double *sizes)
{
    const size_t c = m->shape.columns;
    for (size_t i = 0; i < 2 * c; i++)
        sums[i] = sizes[i] = 0;
    for (size_t i = 0; i < m->n; i++) {
        const double g = gated(m, gate, i), far = (double)m->host[X][i] - m->mean[i % c];
        sums[i % c] += g;
        sums[c + i % c] += g * far;
        sizes[i % c] += fabs(g);
        sizes[c + i % c] += fabs(g * far);
    }
}

static void expect_sums(const char *label, const float *got, const double *expected, const double *sizes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (isnan(expected[i]) ? !isnan(got[i]) : !(fabs((double)got[i] - expected[i]) <= 1e-5 * sizes[i] + 1e-6)) {
            test_fail("%s[%zu of %zu]: got %.9g, expected %.9g", label, i, n, (double)got[i], expected[i]);
            return;
        }
}

static void check_backward(struct norm *m, int gate)
{
    const size_t c = m->shape.columns, rows = m->shape.rows;
    double *sums = test_memory(2 * c * sizeof *sums), *sizes = test_memory(2 * c * sizeof *sizes);
    double *expected = test_memory(m->n * sizeof *expected), *gradient = test_memory(2 * c * sizeof *gradient);
    float *got = test_memory(2 * c * sizeof *got), *dy = test_memory(m->n * sizeof *dy);
    void *d_weight = zeros(c * element_size(m->type)), *d_bias = zeros(c * element_size(m->type));

    memcpy(dy, m->host[DY], m->n * sizeof *dy);
    void *g = typed_device(m->type, dy, m->n, 0), *dx = zeros(m->n * element_size(m->type));
    gradient_sums(m, gate, sums, sizes);
    if (gate >= 2)
        LAUNCH(kernel_batch_norm_gated_sums(m->type, m->partials, g, gate == 3 ? m->device[OTHER] : NULL, m->device[Y],
                                            m->device[X], m->saved, rows, c, test_stream));
    else
        LAUNCH(kernel_batch_norm_sums(m->type, m->partials, g, m->device[X], m->saved, m->device[WEIGHT],
                                      gate ? m->device[BIAS] : NULL, rows, c, test_stream));
    LAUNCH(kernel_batch_norm_fold(m->type, m->sums, d_weight, d_bias, m->partials, rows, m->saved, c, 0, test_stream));
    test_read(got, m->sums, 2 * c * sizeof *got);
    /* 16 bit: the sum of two gradients is rounded before it is used */
    for (size_t i = 0; i < 2 * c; i++)
        sizes[i] *= 1 + 1e5 * (gate == 3 ? tensor_rounding(m->type) : 0);
    expect_sums("sums", got, sums, sizes, 2 * c);

    for (size_t i = 0; i < c; i++) {
        gradient[i] = sums[c + i] * m->deviation[i];
        gradient[c + i] = sums[i];
    }
    if (m->type == ELEMENT_F32) {
        tensor_expect("d_weight", m->type, d_weight, gradient, c, 1e-4, 1e-3);
        tensor_expect("d_bias", m->type, d_bias, gradient + c, c, 1e-4, 1e-3);
    }
    for (size_t i = 0; i < m->n; i++) {
        const size_t k = i % c;
        const double s = m->deviation[k], far = (double)m->host[X][i] - m->mean[k];
        expected[i] = (double)m->host[WEIGHT][k] * s *
                      (gated(m, gate, i) - sums[k] / (double)rows - far * s * s * sums[c + k] / (double)rows);
    }
    LAUNCH(kernel_batch_norm_coefficients(m->type, m->sums, m->saved, m->device[WEIGHT], c, test_stream));
    LAUNCH(kernel_batch_norm_apply(m->type, dx, g, m->device[X], m->saved, m->device[WEIGHT],
                                   gate == 1 ? m->device[BIAS] : NULL, m->sums, rows, c, test_stream));
    if (rows > 2) /* else 1 / deviation is huge and all is rounding */
        tensor_expect("dx", m->type, dx, expected, m->n, 1e-4, 1e-4 + 8 * tensor_rounding(m->type));
    if (gate >= 2) {
        for (size_t i = 0; i < m->n; i++)
            expected[i] = gated(m, gate, i);
        tensor_expect("g", m->type, g, expected, m->n, 1e-6, 0);
    }
    free(sums), free(sizes), free(expected), free(gradient), free(got), free(dy);
}

static void run_batch_norm(const void *argument)
{
    const enum element_type type = *(const enum element_type *)argument;
    for (size_t s = 0; s < SHAPES; s++) {
        for (int variant = 0; variant < 3; variant++) {
            struct norm m;
            open_norm(&m, type, shapes[s]);
            check_statistics(&m);
            check_normalise(&m, variant);
            close_norm(&m);
        }
        for (int gate = 0; gate < 4; gate++) {
            struct norm m;
            open_norm(&m, type, shapes[s]);
            check_statistics(&m);
            check_backward(&m, gate);
            close_norm(&m);
        }
    }
}

/* The parts of three devices, one of them without rows: {0, 0, 0} and {4} (semantics of SyncBatchNorm): mean 1, biased
 * variance 3, unbiased 4, running (0.1, 1.3) from (0, 1). And no part at all: nothing moves. */
static void run_combine(const void *argument)
{
    (void)argument;
    const float parts[3][3] = {{0, 0, 3}, {7, 7, 0}, {4, 0, 1}}, before[2] = {0, 1};
    const double whole[3] = {1, 12, 4}, saved[3] = {1, 1 / sqrt(3 + (double)EPSILON), 4}, running[2] = {0.1, 1.3};
    float got[3];
    float *device = test_device(parts, sizeof parts, 0), *to = zeros(sizeof got), *moved = test_device(before, sizeof before, 0);
    LAUNCH(kernel_batch_norm_combine(to, device, 3, 1, test_stream));
    test_read(got, to, sizeof got);
    test_floats("combined", got, whole, 3, 1e-6, 0);
    LAUNCH(kernel_batch_norm_finish(to, moved, moved + 1, device, 3, 1, MOMENTUM, EPSILON, test_stream));
    test_read(got, to, sizeof got);
    test_floats("saved", got, saved, 3, 1e-6, 0);
    LAUNCH(kernel_batch_norm_finish(to, moved, moved + 1, device, 0, 1, MOMENTUM, EPSILON, test_stream));
    test_read(got, moved, 2 * sizeof *got);
    test_floats("running", got, running, 2, 1e-6, 0);
}

/* ---- pooling ----------------------------------------------------------------------------------------------------- */

static void run_average_pool(const void *argument)
{
    const enum element_type type = *(const enum element_type *)argument;
    static const size_t sizes[][3] = {{1, 1, 1}, {3, 49, 31}, {7, 64, 64}, {2, 5, 600}};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        const size_t images = sizes[s][0], pixels = sizes[s][1], c = sizes[s][2], n = images * pixels * c;
        float *x = random_tensor(n, 80, 0, 1), *dy = random_tensor(images * c, 81, 0, 1);
        double *means = test_memory(images * c * sizeof *means), *dx = test_memory(n * sizeof *dx);
        x[0] = NAN;
        const void *x_device = typed_device(type, x, n, 0), *dy_device = typed_device(type, dy, images * c, 0);
        void *y_device = zeros(images * c * element_size(type)), *dx_device = zeros(n * element_size(type));
        for (size_t i = 0; i < n; i++) {
            const size_t at = i / (pixels * c) * c + i % c;
            means[at] += (double)x[i] / (double)pixels;
            dx[i] = (double)dy[at] / (double)pixels;
        }
        LAUNCH(kernel_average_pool(type, y_device, x_device, images, pixels, c, test_stream));
        LAUNCH(kernel_average_pool_backward(type, dx_device, dy_device, images, pixels, c, test_stream));
        tensor_expect("means", type, y_device, means, images * c, 1e-6, 1e-6);
        tensor_expect("dx", type, dx_device, dx, n, 1e-6, 1e-6);
        free(x), free(dy), free(means), free(dx);
        test_release();
    }
}

struct pool {
    size_t images, height, width, columns;
};

/* y, the place in the window, and dx, by the definition. */
static void reference_max_pool(const struct pool *p, const float *x, const float *dy, double *y, unsigned char *places,
                               double *dx)
{
    const size_t oh = (p->height + 1) / 2, ow = (p->width + 1) / 2;
    for (size_t out = 0; out < p->images * oh * ow * p->columns; out++) {
        const size_t c = out % p->columns, column = out / p->columns % ow, row = out / p->columns / ow % oh;
        const size_t image = out / (p->columns * ow * oh);
        size_t best = 0;
        bool any = false;
        for (int place = 0; place < 9; place++) {
            const long h = (long)(2 * row) + place / 3 - 1, w = (long)(2 * column) + place % 3 - 1;
            if (h < 0 || w < 0 || h >= (long)p->height || w >= (long)p->width)
                continue;
            const size_t at = ((image * p->height + (size_t)h) * p->width + (size_t)w) * p->columns + c;
            if (any && !isnan(x[at]) && !(x[at] > x[best]))
                continue;
            best = at;
            any = true;
            places[out] = (unsigned char)place;
        }
        y[out] = (double)x[best];
        dx[best] += (double)dy[out];
    }
}

static void run_max_pool(const void *argument)
{
    const enum element_type type = *(const enum element_type *)argument;
    static const struct pool pools[] = {{1, 1, 1, 1}, {2, 7, 5, 3}, {3, 8, 8, 33}, {2, 32, 31, 64}};
    for (size_t s = 0; s < sizeof pools / sizeof pools[0]; s++) {
        const struct pool *p = &pools[s];
        const size_t n = p->images * p->height * p->width * p->columns;
        const size_t out = p->images * ((p->height + 1) / 2) * ((p->width + 1) / 2) * p->columns;
        float *x = random_tensor(n, 82, 0, 1), *dy = random_tensor(out, 83, 0, 1);
        double *y = test_memory(out * sizeof *y), *dx = test_memory(n * sizeof *dx);
        unsigned char *places = test_memory(out), *got = test_memory(out);
        for (size_t i = 0; i < n; i += 5)
            x[i] = 0.5f; /* ties */
        x[n / 2] = NAN;
        const void *x_device = typed_device(type, x, n, 0), *dy_device = typed_device(type, dy, out, 0);
        void *y_device = zeros(out * element_size(type)), *dx_device = zeros(n * element_size(type));
        uint8_t *places_device = zeros(out);
        reference_max_pool(p, x, dy, y, places, dx);
        LAUNCH(kernel_max_pool(type, y_device, places_device, x_device, p->images, p->height, p->width, p->columns,
                               test_stream));
        LAUNCH(kernel_max_pool_backward(type, dx_device, dy_device, places_device, p->images, p->height, p->width,
                                        p->columns, test_stream));
        tensor_expect("y", type, y_device, y, out, 0, 0);
        test_read(got, places_device, out);
        test_bytes("places", got, places, out);
        tensor_expect("dx", type, dx_device, dx, n, 1e-6, 1e-6);
        free(x), free(dy), free(y), free(dx), free(places), free(got);
        test_release();
    }
}

static const enum element_type f32 = ELEMENT_F32, bf16 = ELEMENT_BF16, f16 = ELEMENT_F16;

const struct test_case batch_norm_cases[] = {
    {"batch_norm_fp32", run_batch_norm, &f32},
    {"batch_norm_bf16", run_batch_norm, &bf16},
    {"batch_norm_fp16", run_batch_norm, &f16},
    {"batch_norm_combine", run_combine, NULL},
    {"average_pool_fp32", run_average_pool, &f32},
    {"average_pool_bf16", run_average_pool, &bf16},
    {"average_pool_fp16", run_average_pool, &f16},
    {"max_pool_fp32", run_max_pool, &f32},
    {"max_pool_bf16", run_max_pool, &bf16},
    {"max_pool_fp16", run_max_pool, &f16},
    {NULL, NULL, NULL},
};
