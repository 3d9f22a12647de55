/* SPDX-License-Identifier: MIT
 *
 * Products through cuBLAS's names: all transposes, odd sizes, leading dimensions beyond the rows (whose gaps must stay
 * untouched), factors, empty products, and what is refused.
 */
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "typed.h"

struct product {
    cublasOperation_t op_a, op_b;
    int m, n, k, pad; /* pad: leading dimension beyond the rows */
    float alpha, beta;
    int pad_c, gap_c; /* more for C alone: beyond the rows, and between the matrices of a batch */
};

static cublasHandle_t open_handle(void)
{
    cublasHandle_t handle = NULL;
    LAUNCH(cublasCreate(&handle));
    LAUNCH(cublasSetStream(handle, test_stream));
    return handle;
}

static size_t stored(int columns, int ld) { return (size_t)columns * (size_t)ld; }

static double entry(const float *matrix, int row, int column, int ld, cublasOperation_t op)
{
    return (double)(op == CUBLAS_OP_T ? matrix[(size_t)column + (size_t)row * (size_t)ld]
                                      : matrix[(size_t)row + (size_t)column * (size_t)ld]);
}

struct operands {
    int lda, ldb, ldc;
    size_t count_a, count_b, count_c;
    float *a, *b, *c;
};

static struct operands make_operands(const struct product *p)
{
    const bool ta = p->op_a == CUBLAS_OP_T, tb = p->op_b == CUBLAS_OP_T;
    struct operands o = {.lda = (ta ? p->k : p->m) + p->pad, .ldb = (tb ? p->n : p->k) + p->pad, .ldc = p->m + p->pad + p->pad_c};
    o.lda = o.lda > 0 ? o.lda : 1;
    o.ldb = o.ldb > 0 ? o.ldb : 1;
    o.ldc = o.ldc > 0 ? o.ldc : 1;
    o.count_a = stored(ta ? p->m : p->k, o.lda);
    o.count_b = stored(tb ? p->k : p->n, o.ldb);
    o.count_c = stored(p->n, o.ldc);
    o.a = test_memory(o.count_a * sizeof(float));
    o.b = test_memory(o.count_b * sizeof(float));
    o.c = test_memory(o.count_c * sizeof(float));
    test_random(o.a, o.count_a, 60);
    test_random(o.b, o.count_b, 61);
    test_random(o.c, o.count_c, 62);
    if (p->beta == 0 && o.count_c > 0)
        o.c[0] = NAN; /* beta = 0: C is not read */
    return o;
}

/* C as it must be; its gaps keep what they hold. */
static double *reference(const struct product *p, const struct operands *o)
{
    double *expected = test_memory(o->count_c * sizeof *expected);
    for (size_t i = 0; i < o->count_c; i++)
        expected[i] = (double)o->c[i];
    for (int column = 0; column < p->n; column++) {
        for (int row = 0; row < p->m; row++) {
            double sum = 0;
            for (int i = 0; i < p->k; i++)
                sum += entry(o->a, row, i, o->lda, p->op_a) * entry(o->b, i, column, o->ldb, p->op_b);
            double *c = &expected[(size_t)row + (size_t)column * (size_t)o->ldc];
            *c = (double)p->alpha * sum + (p->beta == 0 ? 0 : (double)p->beta * *c);
        }
    }
    return expected;
}

/* In 16 bit operands and C are rounded to the type first; sums are fp32's. */
static void run_product(cublasHandle_t handle, const struct product *p, enum element_type type)
{
    struct operands o = make_operands(p);
    const cudaDataType_t blas_type = element_blas_type(type);
    const void *a = typed_device(type, o.a, o.count_a, 0), *b = typed_device(type, o.b, o.count_b, 4);
    void *c = typed_device(type, o.c, o.count_c, 0);
    double *expected = reference(p, &o);
    LAUNCH(cublasGemmEx(handle, p->op_a, p->op_b, p->m, p->n, p->k, &p->alpha, a, blas_type, o.lda, b, blas_type, o.ldb,
                        &p->beta, c, blas_type, o.ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    typed_read(type, o.c, c, o.count_c);
    char label[96];
    snprintf(label, sizeof label, "%c%c %d x %d x %d pad %d alpha %g beta %g", p->op_a == CUBLAS_OP_T ? 'T' : 'N',
             p->op_b == CUBLAS_OP_T ? 'T' : 'N', p->m, p->n, p->k, p->pad, (double)p->alpha, (double)p->beta);
    typed_check(type, label, o.c, expected, o.count_c, 2e-6, 5e-6 * sqrt((double)p->k) + 1e-6);
    free(o.a);
    free(o.b);
    free(o.c);
    free(expected);
    test_release();
}

/* For each size all transposes, and for each transposes some padding and factors. */
static void run_products(const void *argument)
{
    (void)argument;
    static const int sizes[][3] = {{1, 1, 1}, {7, 5, 3}, {31, 33, 32}, {33, 1, 65}, {1, 31, 33}, {10, 64, 100},
                                   {300, 17, 40}, {257, 515, 9}, {5, 4, 1025}, {17, 3, 2100}, {530, 9, 600}};
    static const float factors[][2] = {{1, 0}, {1, 1}, {0.5f, 0}, {-2, 0.25f}};
    cublasHandle_t handle = open_handle();
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (unsigned variant = 0; variant < 16; variant++) {
            const struct product p = {
                .op_a = variant & 1 ? CUBLAS_OP_T : CUBLAS_OP_N, .op_b = variant & 2 ? CUBLAS_OP_T : CUBLAS_OP_N,
                .m = sizes[s][0], .n = sizes[s][1], .k = sizes[s][2], .pad = variant % 3 == 0 ? 3 : 0,
                .alpha = factors[variant / 4][0], .beta = factors[variant / 4][1]};
            FOR_EACH_TYPE(type)
                run_product(handle, &p, type);
        }
    }
    LAUNCH(cublasDestroy(handle));
}

static void run_empty_products(const void *argument)
{
    (void)argument;
    static const struct product products[] = {
        {CUBLAS_OP_N, CUBLAS_OP_N, 5, 7, 0, 2, 1, 0}, {CUBLAS_OP_T, CUBLAS_OP_N, 5, 7, 0, 0, 1, 0.5f},
        {CUBLAS_OP_N, CUBLAS_OP_N, 5, 7, 0, 0, 1, 1}, {CUBLAS_OP_N, CUBLAS_OP_N, 0, 7, 3, 0, 1, 0},
        {CUBLAS_OP_N, CUBLAS_OP_T, 5, 0, 3, 0, 1, 0}, {CUBLAS_OP_N, CUBLAS_OP_N, 5, 7, 3, 1, 0, 0.5f},
        {CUBLAS_OP_N, CUBLAS_OP_N, 5, 7, 3, 1, 0, 0},
    };
    cublasHandle_t handle = open_handle();
    for (size_t i = 0; i < sizeof products / sizeof products[0]; i++)
        run_product(handle, &products[i], ELEMENT_F32);
    LAUNCH(cublasDestroy(handle));
}

/* A NaN reaches its row alone; with alpha = 0 it reaches nothing (on the soft GPU: cuBLAS does not promise that). */
#ifdef GPU_VENDOR_SOFT
#define NAN_PASSES 2
#else
#define NAN_PASSES 1
#endif

static void run_nan(const void *argument)
{
    (void)argument;
    const struct product p = {CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, 0, 1, 0};
    struct operands o = make_operands(&p);
    o.a[5] = NAN; /* row 1 of A: row 1 of C is NaN, all else is not */
    double *expected = reference(&p, &o);
    cublasHandle_t handle = open_handle();
    const float *a = test_device(o.a, o.count_a * sizeof(float), 0), *b = test_device(o.b, o.count_b * sizeof(float), 0);
    float *c = test_device(o.c, o.count_c * sizeof(float), 0);
    for (int pass = 0; pass < NAN_PASSES; pass++) {
        const float alpha = pass == 0 ? 1 : 0, beta = 0;
        LAUNCH(cublasGemmEx(handle, p.op_a, p.op_b, 4, 4, 4, &alpha, a, CUDA_R_32F, 4, b, CUDA_R_32F, 4, &beta, c, CUDA_R_32F, 4,
                            CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
        test_read(o.c, c, o.count_c * sizeof(float));
        for (int i = 0; i < 16 && pass == 1; i++)
            expected[i] = 0;
        test_floats(pass == 0 ? "a NaN" : "alpha 0", o.c, expected, 16, 1e-6, 1e-6);
    }
    LAUNCH(cublasDestroy(handle));
    free(o.a);
    free(o.b);
    free(o.c);
    free(expected);
}

/* A leading dimension below the rows, and (on the soft GPU, which checks) a matrix that reaches beyond its buffer. */
static void run_refused(const void *argument)
{
    (void)argument;
    const float one = 1, zero = 0, data[16] = {0};
    cublasHandle_t handle = open_handle();
    const float *a = test_device(data, sizeof data, 0);
    float *c = test_device(data, sizeof data, 0);
    cublasStatus_t status = cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, a, CUDA_R_32F, 3, a, CUDA_R_32F, 4, &zero,
                                         c, CUDA_R_32F, 4, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    if (status != CUBLAS_STATUS_INVALID_VALUE)
        test_fail("lda 3 with 4 rows: status %d", (int)status);
#ifdef GPU_VENDOR_SOFT
    status = cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 200, 4, &one, a, CUDA_R_32F, 4, a, CUDA_R_32F, 4, &zero, c,
                          CUDA_R_32F, 4, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    if (status == CUBLAS_STATUS_SUCCESS || cudaGetLastError() == cudaSuccess)
        test_fail("200 columns in a buffer of 4 were accepted");
#endif
    LAUNCH(cublasDestroy(handle));
}

/* bfloat16 in, float out, where the device has it: exact products of small integers. */
static void run_bf16(const void *argument)
{
    (void)argument;
    enum { M = 33, N = 17, K = 64 };
    uint16_t a[M * K], b[K * N];
    float c[M * N] = {0};
    double expected[M * N] = {0};
    const uint16_t integers[] = {0xc000, 0xbf80, 0, 0x3f80, 0x4000}; /* -2 .. 2 */
    for (int i = 0; i < M * K; i++)
        a[i] = integers[i % 5];
    for (int i = 0; i < K * N; i++)
        b[i] = integers[i * 3 % 5];
    for (int row = 0; row < M; row++)
        for (int column = 0; column < N; column++)
            for (int i = 0; i < K; i++)
                expected[row + column * M] += ((row + i * M) % 5 - 2) * ((i + column * K) * 3 % 5 - 2);
    const float one = 1, zero = 0;
    cublasHandle_t handle = open_handle();
    const void *device_a = test_device(a, sizeof a, 0), *device_b = test_device(b, sizeof b, 0);
    float *device_c = test_device(c, sizeof c, 0);
    cublasStatus_t status = cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, M, N, K, &one, device_a, CUDA_R_16BF, M, device_b,
                                         CUDA_R_16BF, K, &zero, device_c, CUDA_R_32F, M, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED)
        printf("    no bfloat16 products here\n");
    else if (status != CUBLAS_STATUS_SUCCESS)
        test_fail("status %d", (int)status);
    else {
        test_read(c, device_c, sizeof c);
        test_floats("bf16", c, expected, M * N, 0, 0);
    }
    LAUNCH(cublasDestroy(handle));
}

/* ---- batches ------------------------------------------------------------------------------------------------------------- */

/* A batch of p, with `gap` elements between matrices; shared: one A serves all. Gaps must stay untouched. */
static void run_batch(cublasHandle_t handle, const struct product *p, int batch, int gap, bool shared, enum element_type type)
{
    const struct operands one = make_operands(p);
    const size_t entries = (size_t)batch, stride_a = shared ? 0 : one.count_a + (size_t)gap;
    const size_t stride_b = one.count_b + (size_t)gap, stride_c = one.count_c + (size_t)(gap + p->gap_c);
    const size_t n_a = stride_a * entries + one.count_a, n_b = stride_b * entries, n_c = stride_c * entries;
    float *a = test_memory(n_a * sizeof *a), *b = test_memory(n_b * sizeof *b), *c = test_memory(n_c * sizeof *c);
    double *expected = test_memory(n_c * sizeof *expected);
    test_random(a, n_a, 63);
    test_random(b, n_b, 64);
    test_random(c, n_c, 65);
    const void *device_a = typed_device(type, a, n_a, 0), *device_b = typed_device(type, b, n_b, 0);
    void *device_c = typed_device(type, c, n_c, 0);
    for (size_t i = 0; i < n_c; i++)
        expected[i] = (double)c[i];
    for (size_t i = 0; i < entries; i++) {
        struct operands entry = one;
        entry.a = a + i * stride_a;
        entry.b = b + i * stride_b;
        entry.c = c + i * stride_c;
        double *result = reference(p, &entry);
        memcpy(expected + i * stride_c, result, one.count_c * sizeof *result);
        free(result);
    }
    const cudaDataType_t blas = element_blas_type(type);
    LAUNCH(cublasGemmStridedBatchedEx(handle, p->op_a, p->op_b, p->m, p->n, p->k, &p->alpha, device_a, blas, one.lda,
                                      (long long)stride_a, device_b, blas, one.ldb, (long long)stride_b, &p->beta, device_c, blas,
                                      one.ldc, (long long)stride_c, batch, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    typed_read(type, c, device_c, n_c);
    char label[112];
    snprintf(label, sizeof label, "%d x (%d x %d x %d) pad %d gap %d ops %d%d", batch, p->m, p->n, p->k, p->pad, gap, p->op_a, p->op_b);
    typed_check(type, label, c, expected, n_c, 1e-6, 2e-6 * sqrt((double)p->k) + 1e-6);
    float *memory[] = {a, b, c, one.a, one.b, one.c};
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++)
        free(memory[i]);
    free(expected);
    test_release();
}

static void run_batches(const void *argument)
{
    (void)argument;
    static const int sizes[][4] = {{1, 1, 1, 1}, {3, 7, 5, 3}, {2, 31, 33, 32}, {5, 33, 1, 65}, {6, 128, 64, 32}, {40, 64, 64, 40}};
    cublasHandle_t handle = open_handle();
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (unsigned variant = 0; variant < 8; variant++) {
            const struct product p = {
                .op_a = variant & 1 ? CUBLAS_OP_T : CUBLAS_OP_N, .op_b = variant & 2 ? CUBLAS_OP_T : CUBLAS_OP_N,
                .m = sizes[s][1], .n = sizes[s][2], .k = sizes[s][3], .pad = variant % 3,
                .alpha = variant & 4 ? 0.5f : 1, .beta = variant & 4 ? 1 : 0};
            for (int type = ELEMENT_F32; type <= ELEMENT_F16; type++)
                run_batch(handle, &p, sizes[s][0], variant % 2 * 7, variant == 3, (enum element_type)type);
        }
    }
    const struct product p = {CUBLAS_OP_N, CUBLAS_OP_N, 5, 7, 0, 1, 1, 0};
    run_batch(handle, &p, 3, 2, false, ELEMENT_F32); /* k = 0: zeros, in the matrices alone */
    run_batch(handle, &p, 0, 2, false, ELEMENT_F32);
    LAUNCH(cublasDestroy(handle));
}

/* One after the other, each like the first but for one thing: what is kept for a shape serves no other one. */
static void run_alike(const void *argument)
{
    (void)argument;
    static const struct product alike[] = {
        {CUBLAS_OP_N, CUBLAS_OP_N, 32, 32, 32, 0, 1, 0},       {CUBLAS_OP_T, CUBLAS_OP_N, 32, 32, 32, 0, 1, 0},
        {CUBLAS_OP_N, CUBLAS_OP_T, 32, 32, 32, 0, 1, 0},       {CUBLAS_OP_N, CUBLAS_OP_N, 32, 32, 32, 0, 0.5f, 0},
        {CUBLAS_OP_N, CUBLAS_OP_N, 32, 32, 32, 0, 1, 1},       {CUBLAS_OP_N, CUBLAS_OP_N, 32, 32, 32, 0, 1, 0.5f},
        {CUBLAS_OP_N, CUBLAS_OP_N, 32, 32, 32, 0, 1, 0, 3},    {CUBLAS_OP_N, CUBLAS_OP_N, 32, 32, 32, 0, 1, 0, 0, 7},
        {CUBLAS_OP_N, CUBLAS_OP_N, 32, 32, 32, 0, 1, 0},
    };
    cublasHandle_t handle = open_handle();
    for (size_t i = 0; i < sizeof alike / sizeof alike[0]; i++) {
        FOR_EACH_TYPE(type) {
            run_product(handle, &alike[i], type);
            for (int batch = 2; batch <= 3; batch++)
                run_batch(handle, &alike[i], batch, 0, false, type);
            run_batch(handle, &alike[i], 2, 0, true, type);
        }
    }
    LAUNCH(cublasDestroy(handle));
}

/* On the soft GPU, which checks: a batch whose last matrix reaches beyond its buffer, and results that would overlap. */
static void run_batch_refused(const void *argument)
{
    (void)argument;
#ifdef GPU_VENDOR_SOFT
    const float one = 1, zero = 0, data[64] = {0};
    cublasHandle_t handle = open_handle();
    const float *a = test_device(data, sizeof data, 0);
    float *c = test_device(data, sizeof data, 0);
    static const int batches[] = {4, 12, 3}; /* fits; reaches beyond buffer and guard; C's stride is too short */
    for (int i = 0; i < 3; i++) {
        cublasStatus_t status = cublasGemmStridedBatchedEx(
            handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, a, CUDA_R_32F, 4, 16, a, CUDA_R_32F, 4, 0, &zero, c, CUDA_R_32F, 4,
            i == 2 ? 8 : 16, batches[i], CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
        if ((status == CUBLAS_STATUS_SUCCESS) != (i == 0))
            test_fail("a batch of %d in a buffer of 4: status %d", batches[i], (int)status);
        (void)cudaGetLastError();
    }
    LAUNCH(cublasDestroy(handle));
#endif
}

const struct test_case product_cases[] = {
    {"products", run_products, NULL},
    {"products_empty", run_empty_products, NULL},
    {"products_nan", run_nan, NULL},
    {"products_refused", run_refused, NULL},
    {"products_bf16", run_bf16, NULL},
    {"products_batched", run_batches, NULL},
    {"products_alike", run_alike, NULL},
    {"products_batch_refused", run_batch_refused, NULL},
    {NULL, NULL, NULL},
};
