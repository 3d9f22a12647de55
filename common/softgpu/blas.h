/* SPDX-License-Identifier: MIT
 *
 * Between cuBLAS's names (blas.c) and the ways to compute a product: oneDNN (blas_dnnl.c), plain loops (blas_plain.c), and for
 * 16-bit types that these do not have, floats (blas_convert.c).
 */
#ifndef SOFTGPU_BLAS_H
#define SOFTGPU_BLAS_H

#include "softgpu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Column-major C (m x n) = alpha op(A) (m x k) op(B) (k x n) + beta C, at kernel addresses. alpha = 0 or k = 0: A and B are
 * not read; beta = 0: C is not read. `batch` such products, each matrix `stride` elements behind the one before (A and B: or 0,
 * the same one each time). */
struct blas_product {
    const void *a, *b;
    void *c;
    int m, n, k;
    int lda, ldb, ldc;
    int batch;
    long long stride_a, stride_b, stride_c;
    bool transpose_a, transpose_b;
    softDataType_t type_ab, type_c;
    float alpha, beta;
};

/* A way to compute products. Both functions are called from any thread. */
struct blas_engine {
    const char *name;
    bool (*supports)(softDataType_t type_ab, softDataType_t type_c);
    /* In the calling thread alone. Returns NULL, or what failed (static storage). */
    const char *(*run)(const struct blas_product *product);
};

extern const struct blas_engine blas_plain;   /* fp32 */
extern const struct blas_engine blas_convert; /* 16-bit operands */
#if HAVE_DNNL
extern const struct blas_engine blas_dnnl;    /* fp32, and bf16 where the processor has it */
#endif
extern const struct blas_engine *const blas_native; /* what this build has for fp32: blas.c */

static inline size_t blas_type_size(softDataType_t type) { return type == SOFT_R_32F ? 4 : 2; }

/* The products from entry `first` on, `count` of them. A and B may be NULL (k = 0). */
static inline struct blas_product blas_entries(const struct blas_product *whole, int first, int count)
{
    struct blas_product part = *whole;
    const long long size = (long long)blas_type_size(whole->type_ab), size_c = (long long)blas_type_size(whole->type_c);
    part.a = whole->a ? (const char *)whole->a + first * whole->stride_a * size : NULL;
    part.b = whole->b ? (const char *)whole->b + first * whole->stride_b * size : NULL;
    part.c = (char *)whole->c + first * whole->stride_c * size_c;
    part.batch = count;
    return part;
}

#ifdef __cplusplus
}
#endif
#endif
