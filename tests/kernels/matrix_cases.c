/* SPDX-License-Identifier: MIT
 *
 * Biases, column sums, sums and random numbers.
 */
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/kernels.h"
#include "typed.h"
#include "sys/random.h"

struct shape {
    size_t rows, columns;
};

/* Rows and columns that tiles, packs and warps divide or not; the last two fill several parts. */
static const struct shape shapes[] = {
    {0, 0}, {0, 5}, {5, 0}, {1, 1}, {1, 7}, {3, 31}, {7, 32}, {4, 33}, {17, 10}, {33, 64}, {5, 255}, {6, 257},
    {31, 1025}, {128, 1024}, {1025, 130},
};
#define SHAPES (sizeof shapes / sizeof shapes[0])

/* ---- biases -------------------------------------------------------------------------------------------------------------- */

struct bias {
    cudaError_t (*launch)(enum element_type type, void *y, const void *bias, size_t rows, size_t columns, cudaStream_t stream);
    bool relu;
};
static const struct bias plain_bias = {kernel_bias, false}, relu_bias = {kernel_bias_relu, true};

static void run_bias_shape(const struct bias *kernel, enum element_type type, struct shape shape, size_t offset)
{
    const size_t n = shape.rows * shape.columns;
    float *y = test_memory(n * sizeof *y), *bias = test_memory(shape.columns * sizeof *bias);
    double *expected = test_memory(n * sizeof *expected);
    test_random(y, n, 10);
    test_random(bias, shape.columns, 11);
    test_specials(y, n);
    void *device_y = typed_device(type, y, n, offset), *device_bias = typed_device(type, bias, shape.columns, offset);
    for (size_t i = 0; i < n; i++) {
        const double sum = (double)y[i] + (double)bias[i % shape.columns];
        expected[i] = kernel->relu && sum < 0 ? 0 : sum;
    }
    LAUNCH(kernel->launch(type, device_y, device_bias, shape.rows, shape.columns, test_stream));
    typed_read(type, y, device_y, n);
    char label[64];
    snprintf(label, sizeof label, "y %zu x %zu offset %zu", shape.rows, shape.columns, offset);
    typed_check(type, label, y, expected, n, 6e-8, 0);
    free(y);
    free(bias);
    free(expected);
    test_release();
}

static void run_bias(const void *argument)
{
    FOR_EACH_TYPE(type) {
        for (size_t i = 0; i < SHAPES; i++) {
            run_bias_shape(argument, type, shapes[i], 0);
            run_bias_shape(argument, type, shapes[i], element_size(type));
        }
    }
}

/* ---- column sums ----------------------------------------------------------------------------------------------------------- */

static void run_column_sums_shape(enum element_type type, struct shape shape, int accumulate)
{
    const size_t n = shape.rows * shape.columns;
    float *x = test_memory(n * sizeof *x), *sums = test_memory(shape.columns * sizeof *sums);
    double *expected = test_memory(shape.columns * sizeof *expected);
    test_random(x, n, 20);
    if (n > 0)
        x[n / 2] = NAN; /* spoils its own column alone */
    void *device_x = typed_device(type, x, n, element_size(type));
    void *device_sums = typed_random(type, sums, shape.columns, 21, 1, 0);
    for (size_t c = 0; c < shape.columns; c++) {
        expected[c] = accumulate ? (double)sums[c] : 0;
        for (size_t r = 0; r < shape.rows; r++)
            expected[c] += (double)x[r * shape.columns + c];
    }
    LAUNCH(kernel_column_sums(type, device_sums, device_x, shape.rows, shape.columns, accumulate, test_stream));
    typed_read(type, sums, device_sums, shape.columns);
    char label[64];
    snprintf(label, sizeof label, "sums %zu x %zu accumulate %d", shape.rows, shape.columns, accumulate);
    typed_check(type, label, sums, expected, shape.columns, 1e-6, 1e-6 * sqrt((double)shape.rows));
    free(x);
    free(sums);
    free(expected);
    test_release();
}

static void run_column_sums(const void *argument)
{
    (void)argument;
    FOR_EACH_TYPE(type) {
        for (size_t i = 0; i < SHAPES; i++) {
            run_column_sums_shape(type, shapes[i], 0);
            run_column_sums_shape(type, shapes[i], 1);
        }
    }
}

/* ---- sum ------------------------------------------------------------------------------------------------------------------ */

static void run_sum_size(size_t n, float special)
{
    float *x = test_memory(n * sizeof *x), sum = 1;
    double expected = 0;
    test_random(x, n, 30);
    if (n > 0)
        x[n - 1] += special;
    for (size_t i = 0; i < n; i++)
        expected += (double)x[i];
    float *device_x = test_device(x, n * sizeof *x, 4), *device_sum = test_device(&sum, sizeof sum, 0);
    LAUNCH(kernel_sum(device_sum, device_x, n, test_stream));
    test_read(&sum, device_sum, sizeof sum);
    char label[64];
    snprintf(label, sizeof label, "sum of %zu plus %g", n, (double)special);
    test_floats(label, &sum, &expected, 1, 1e-6, 1e-6 * sqrt((double)n));
    free(x);
    test_release();
}

static void run_sum(const void *argument)
{
    (void)argument;
    for (size_t i = 0; i < test_size_count; i++) {
        run_sum_size(test_sizes[i], 0);
        run_sum_size(test_sizes[i], NAN);
        run_sum_size(test_sizes[i], -INFINITY);
    }
}

/* ---- random numbers ------------------------------------------------------------------------------------------------------- */

static void run_random(const void *argument)
{
    (void)argument;
    for (size_t s = 0; s < test_size_count; s++) {
        const size_t n = test_sizes[s];
        float *y = test_memory(n * sizeof *y);
        double *expected = test_memory(n * sizeof *expected);
        const uint64_t stream = random_stream(RANDOM_DATA, 7), seed = UINT64_C(0x123456789abcdef0);
        for (size_t i = 0; i < n; i++)
            expected[i] = (double)(0.5f * random_normal(seed, stream, i));
        float *device_y = test_device(y, n * sizeof *y, s % 2 * 4);
        LAUNCH(kernel_random_normal(device_y, n, seed, stream, 0.5f, test_stream));
        test_read(y, device_y, n * sizeof *y);
        test_floats("normal", y, expected, n, 1.2e-7, 0); /* one unit in the last place: two libraries' doubles */
        free(y);
        free(expected);
        test_release();
    }
}

static void run_empty(const void *argument)
{
    (void)argument;
    LAUNCH(kernel_empty(test_stream));
    LAUNCH(cudaStreamSynchronize(test_stream));
}

const struct test_case matrix_cases[] = {
    {"bias", run_bias, &plain_bias},
    {"bias_relu", run_bias, &relu_bias},
    {"column_sums", run_column_sums, NULL},
    {"sum", run_sum, NULL},
    {"random_normal", run_random, NULL},
    {"empty", run_empty, NULL},
    {NULL, NULL, NULL},
};
