/* SPDX-License-Identifier: MIT
 *
 * Kernels that treat each element alone: every size, fit and not fit for packs, with NaN, infinities and denormals, in place
 * where that is allowed; and the casts against a plain conversion.
 */
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "typed.h"

/* y, and up to two inputs; `reference` gives the new y from the old one and the inputs. */
struct elementwise {
    const char *name;
    cudaError_t (*launch)(enum element_type type, void *y, const void *a, const void *b, size_t n);
    double (*reference)(double y, double a, double b);
    bool in_place; /* y may be a */
    double relative, absolute;
    bool floats; /* of no other type */
};

static const float FACTOR = 0.3f;

static cudaError_t launch_fill(enum element_type type, void *y, const void *a, const void *b, size_t n)
{
    (void)type;
    (void)a;
    (void)b;
    return kernel_fill(y, FACTOR, n, test_stream);
}
static double fill(double y, double a, double b)
{
    (void)y;
    (void)a;
    (void)b;
    return (double)FACTOR;
}

static cudaError_t launch_scale(enum element_type type, void *y, const void *a, const void *b, size_t n)
{
    (void)a;
    (void)b;
    return kernel_scale(type, y, FACTOR, n, test_stream);
}
static double scale(double y, double a, double b)
{
    (void)a;
    (void)b;
    return y * (double)FACTOR;
}

static cudaError_t launch_copy_scale(enum element_type type, void *y, const void *a, const void *b, size_t n)
{
    (void)b;
    return kernel_copy_scale(type, y, a, FACTOR, n, test_stream);
}
static double copy_scale(double y, double a, double b)
{
    (void)y;
    (void)b;
    return a * (double)FACTOR;
}

static cudaError_t launch_add(enum element_type type, void *y, const void *a, const void *b, size_t n)
{
    (void)b;
    return kernel_add(type, y, a, n, test_stream);
}
static double add(double y, double a, double b)
{
    (void)b;
    return y + a;
}

static cudaError_t launch_relu_forward(enum element_type type, void *y, const void *a, const void *b, size_t n)
{
    (void)b;
    return kernel_relu_forward(type, y, a, n, test_stream);
}
static double relu_forward(double y, double a, double b)
{
    (void)y;
    (void)b;
    return isnan(a) ? a : a > 0 ? a : 0;
}

static cudaError_t launch_relu_backward(enum element_type type, void *y, const void *a, const void *b, size_t n)
{
    return kernel_relu_backward(type, y, a, b, n, test_stream);
}
static double relu_backward(double y, double a, double b)
{
    (void)y;
    return b > 0 ? a : 0;
}

/* PyTorch's formula as it is written; where it says -inf times 0, its limit. */
static const double ROOT_2_PI = 0.79788456080286535588;

static cudaError_t launch_gelu_forward(enum element_type type, void *y, const void *a, const void *b, size_t n)
{
    (void)b;
    return kernel_gelu_forward(type, y, a, n, test_stream);
}
static double gelu_forward(double y, double a, double b)
{
    (void)y;
    (void)b;
    if (isinf(a))
        return a > 0 ? a : -0.0;
    return a / (1 + exp(-2 * ROOT_2_PI * (a + 0.044715 * a * a * a)));
}

static cudaError_t launch_gelu_backward(enum element_type type, void *y, const void *a, const void *b, size_t n)
{
    return kernel_gelu_backward(type, y, a, b, n, test_stream);
}
static double gelu_backward(double y, double a, double b)
{
    (void)y;
    const double x = fabs(b) > 1000 ? copysign(1000, b) : b;
    const double u = ROOT_2_PI * (x + 0.044715 * x * x * x);
    const double t = tanh(u), slope = ROOT_2_PI * (1 + 3 * 0.044715 * x * x);
    return a * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope);
}

/* Half a unit in the last place is 6e-8; the smallest denormal 1.4e-45. */
static const struct elementwise kernels[] = {
    {"fill", launch_fill, fill, false, 0, 0, true},
    {"scale", launch_scale, scale, false, 6e-8, 1e-45},
    {"copy_scale", launch_copy_scale, copy_scale, false, 6e-8, 1e-45},
    {"add", launch_add, add, false, 6e-8, 0},
    {"relu_forward", launch_relu_forward, relu_forward, false, 0, 0},
    {"relu_backward", launch_relu_backward, relu_backward, true, 0, 0},
    {"gelu_forward", launch_gelu_forward, gelu_forward, false, 2e-6, 1e-37},
    {"gelu_backward", launch_gelu_backward, gelu_backward, true, 2e-6, 1e-6},
};

/* A pack that does not fit: one element on in 16 bit too. The smallest denormals of bfloat16 are 9e-41 apart. */
static void run_one(const struct elementwise *kernel, enum element_type type, size_t n, bool fit, bool in_place)
{
    const size_t offset = fit ? 0 : element_size(type);
    float *y = test_memory(n * sizeof *y), *a = test_memory(n * sizeof *a), *b = test_memory(n * sizeof *b);
    double *expected = test_memory(n * sizeof *expected);
    test_random(a, n, 2);
    test_random(b, n, 3);
    test_specials(a, n);
    test_specials(b, n / 2); /* so that each meets usual numbers too */
    void *device_a = typed_device(type, a, n, offset), *device_b = typed_device(type, b, n, offset);
    void *device_y = in_place ? device_a : typed_random(type, y, n, 1, 1, offset);
    for (size_t i = 0; i < n; i++)
        expected[i] = kernel->reference(y[i], a[i], b[i]);
    LAUNCH(kernel->launch(type, device_y, device_a, device_b, n));
    typed_read(type, y, device_y, n);
    char label[64];
    snprintf(label, sizeof label, "%s n %zu offset %zu%s", kernel->name, n, offset, in_place ? " in place" : "");
    typed_check(type, label, y, expected, n, kernel->relative, kernel->absolute + (type == ELEMENT_BF16 ? 5e-41 : 0));
    free(y);
    free(a);
    free(b);
    free(expected);
    test_release();
}

static void run_elementwise(const void *argument)
{
    const struct elementwise *kernel = argument;
    FOR_EACH_TYPE(type) {
        for (size_t i = 0; i < test_size_count && (type == ELEMENT_F32 || !kernel->floats); i++) {
            run_one(kernel, type, test_sizes[i], true, false);
            run_one(kernel, type, test_sizes[i], false, false);
            if (kernel->in_place)
                run_one(kernel, type, test_sizes[i], true, true);
        }
    }
}

/* ---- sums in fp32 of numbers of any type ------------------------------------------------------------------------------- */

static void run_sums_size(enum element_type type, size_t n, bool in_place)
{
    const size_t step = element_size(type);
    float *sums = test_memory(n * sizeof *sums), *x = test_memory(n * sizeof *x), *y = test_memory(n * sizeof *y);
    double *expected = test_memory(n * sizeof *expected);
    for (size_t i = 0; i < n; i++)
        sums[i] = NAN; /* the first one does not read them */
    float *device_sums = test_device(sums, n * sizeof *sums, 0);
    void *device_x = typed_random(type, x, n, 5, 1, step);
    LAUNCH(kernel_accumulate(type, device_sums, device_x, 1, n, test_stream));
    LAUNCH(kernel_accumulate(type, device_sums, device_x, 0, n, test_stream));
    test_read(sums, device_sums, n * sizeof *sums);
    for (size_t i = 0; i < n; i++)
        expected[i] = 2 * (double)x[i];
    test_floats("sums", sums, expected, n, 0, 0);
    void *device_y = in_place ? device_x : typed_device(type, y, n, 0);
    LAUNCH(kernel_sum_scale(type, device_y, device_x, device_sums, FACTOR, n, test_stream));
    typed_read(type, y, device_y, n);
    for (size_t i = 0; i < n; i++)
        expected[i] = (double)FACTOR * 3 * (double)x[i];
    typed_check(type, in_place ? "scaled in place" : "scaled", y, expected, n, 2e-7, 0);
    free(sums);
    free(x);
    free(y);
    free(expected);
    test_release();
}

static void run_sums(const void *argument)
{
    (void)argument;
    FOR_EACH_TYPE(type) {
        for (size_t i = 0; i < test_size_count; i++) {
            run_sums_size(type, test_sizes[i], false);
            run_sums_size(type, test_sizes[i], true);
        }
    }
}

/* Each element's bits must not depend on where it stands: a part's beginning, a vector's middle, a loop's rest. */
static void run_position(const void *argument)
{
    (void)argument;
    enum { N = 40000 };
    float *x = test_memory(N * sizeof *x), *whole = test_memory(N * sizeof *x), *piece = test_memory(N * sizeof *x);
    test_random(x, N, 4);
    float *device_x = test_device(x, N * sizeof *x, 0), *device_y = test_device(whole, N * sizeof *x, 0);
    LAUNCH(kernel_gelu_forward(ELEMENT_F32, device_y, device_x, N, test_stream));
    test_read(whole, device_y, N * sizeof *x);
    for (size_t first = 0, n = 1; first < N; first += n, n = n * 3 + 1) {
        const size_t left = N - first < n ? N - first : n;
        LAUNCH(kernel_gelu_forward(ELEMENT_F32, device_y + first, device_x + first, left, test_stream));
    }
    test_read(piece, device_y, N * sizeof *x);
    test_bytes("by pieces", piece, whole, N * sizeof *x);
    free(x);
    free(whole);
    free(piece);
}

/* GELU both ways of each bfloat16, so through all of its bounds. Forward a rounded exponent of up to 88 is an error of so many units. */
static void run_gelu_numbers(const void *argument)
{
    (void)argument;
    enum { N = 65536 };
    float *x = test_memory(N * sizeof *x), *dy = test_memory(N * sizeof *dy), *y = test_memory(N * sizeof *y);
    double *expected = test_memory(N * sizeof *expected);
    FOR_EACH_TYPE(type) {
        for (uint32_t i = 0; i < N; i++) {
            const uint32_t bits = i << 16;
            memcpy(&x[i], &bits, sizeof bits);
        }
        void *device_x = typed_device(type, x, N, 4), *device_dy = typed_random(type, dy, N, 5, 1, 0);
        void *device_y = typed_device(type, y, N, 0);
        LAUNCH(kernel_gelu_forward(type, device_y, device_x, N, test_stream));
        typed_read(type, y, device_y, N);
        for (size_t i = 0; i < N; i++)
            expected[i] = gelu_forward(0, (double)x[i], 0);
        typed_check(type, "forward", y, expected, N, 2e-5, 1e-37);
        LAUNCH(kernel_gelu_backward(type, device_y, device_dy, device_x, N, test_stream));
        typed_read(type, y, device_y, N);
        for (size_t i = 0; i < N; i++)
            expected[i] = gelu_backward(0, (double)dy[i], (double)x[i]);
        typed_check(type, "backward", y, expected, N, 2e-6, 1e-6);
        test_release();
    }
    free(x);
    free(dy);
    free(y);
    free(expected);
}

/* ---- casts ------------------------------------------------------------------------------------------------------------- */

/* A 16-bit format by its numbers of exponent and fraction bits. */
struct format {
    int exponent_bits, fraction_bits;
    enum element_type type;
};
static const struct format bf16 = {8, 7, ELEMENT_BF16}, f16 = {5, 10, ELEMENT_F16};

static double decode(const struct format *format, uint16_t bits)
{
    const int bias = (1 << (format->exponent_bits - 1)) - 1, top = (1 << format->exponent_bits) - 1;
    const int exponent = (bits >> format->fraction_bits) & top, fraction = bits & ((1 << format->fraction_bits) - 1);
    const double sign = bits & 0x8000 ? -1 : 1;
    if (exponent == top)
        return fraction ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, 1 - bias - format->fraction_bits);
    return sign * ldexp(fraction + (1 << format->fraction_bits), exponent - bias - format->fraction_bits);
}

/* The nearest value by its spacing there; nearbyint rounds ties to even. */
static double round_to(const struct format *format, double x)
{
    if (isnan(x) || isinf(x) || x == 0)
        return x;
    const int bias = (1 << (format->exponent_bits - 1)) - 1;
    int exponent;
    frexp(x, &exponent); /* |x| in [2^(exponent - 1), 2^exponent) */
    exponent = exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
    const double spacing = ldexp(1, exponent - format->fraction_bits), rounded = nearbyint(x / spacing) * spacing;
    return fabs(rounded) >= ldexp(1, bias + 1) ? copysign((double)INFINITY, x) : rounded;
}

/* All 65,536 values decoded; each of them, what lies a little beside and just between them, encoded. */
static void run_cast(const void *argument)
{
    const struct format *format = argument;
    enum { N = 65536 };
    uint16_t *bits = test_memory(N * sizeof *bits);
    float *x = test_memory(N * sizeof *x), *decoded = test_memory(N * sizeof *decoded);
    double *expected = test_memory(N * sizeof *expected);
    for (size_t i = 0; i < N; i++) {
        bits[i] = (uint16_t)i;
        expected[i] = decode(format, (uint16_t)i);
    }
    uint16_t *device_bits = test_device(bits, N * sizeof *bits, 0);
    float *device_x = test_device(x, N * sizeof *x, 0);
    LAUNCH(kernel_cast(ELEMENT_F32, device_x, format->type, device_bits, N, test_stream));
    test_read(x, device_x, N * sizeof *x);
    test_floats("decoded", x, expected, N, 0, 0);

    for (int shift = -1; shift <= 3; shift++) {
        for (size_t i = 0; i < N; i++) {
            const double next = decode(format, (uint16_t)(i + 1));
            double y = x[i];
            if (shift == 2 && isfinite(x[i]) && isfinite(next))
                y = 0.5 * (y + next); /* a tie */
            else if (shift != 0)
                y *= 1 + shift * 1e-3;
            decoded[i] = (float)y;
            expected[i] = round_to(format, decoded[i]);
        }
        /* The first one's fraction lies in bits that a 16-bit format drops; the others are where a sum carries furthest. */
        const uint32_t nans[] = {0x7f800001, 0x7fffffff, 0xffffffff};
        memcpy(decoded, nans, sizeof nans);
        expected[0] = expected[1] = expected[2] = NAN;
        float *device_y = test_device(decoded, N * sizeof *decoded, 0);
        LAUNCH(kernel_cast(format->type, device_bits, ELEMENT_F32, device_y, N, test_stream));
        test_read(bits, device_bits, N * sizeof *bits);
        for (size_t i = 0; i < N; i++)
            decoded[i] = (float)decode(format, bits[i]);
        test_floats("encoded", decoded, expected, N, 0, 0);
    }
    free(bits);
    free(x);
    free(decoded);
    free(expected);
}

const struct test_case elementwise_cases[] = {
    {"fill", run_elementwise, &kernels[0]},
    {"scale", run_elementwise, &kernels[1]},
    {"copy_scale", run_elementwise, &kernels[2]},
    {"add", run_elementwise, &kernels[3]},
    {"relu_forward", run_elementwise, &kernels[4]},
    {"relu_backward", run_elementwise, &kernels[5]},
    {"gelu_forward", run_elementwise, &kernels[6]},
    {"gelu_backward", run_elementwise, &kernels[7]},
    {"gelu_numbers", run_gelu_numbers, NULL},
    {"sums_of_any_type", run_sums, NULL},
    {"position", run_position, NULL},
    {"cast_bf16", run_cast, &bf16},
    {"cast_f16", run_cast, &f16},
    {NULL, NULL, NULL},
};
