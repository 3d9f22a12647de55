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
 * not read; beta = 0: C is not read. */
struct blas_product {
    const void *a, *b;
    void *c;
    int m, n, k;
    int lda, ldb, ldc;
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

#ifdef __cplusplus
}
#endif
#endif
