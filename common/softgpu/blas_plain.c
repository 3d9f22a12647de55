/* SPDX-License-Identifier: MIT
 *
 * Products without a library: op(A) is packed into panels of two vectors of rows that fit the level 1 cache, and a block of
 * two vectors x 4 results stays in registers while it runs along k. fp32. Every build scales its C here when k is 0.
 */
#include "blas.h"

#include <string.h>

#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif
#define VECTORS 2
#define ROWS (LANES * VECTORS)  /* of a register block */
#define COLUMNS 4
#define DEPTH 256               /* of k in one panel */

typedef float vector __attribute__((vector_size(LANES * sizeof(float))));

static inline float *c_column(const struct blas_product *p, int column) { return (float *)p->c + (size_t)column * (size_t)p->ldc; }

/* C = beta C; of other types than float only beta = 0. */
static void scale_c(const struct blas_product *p)
{
    for (int j = 0; j < p->n; j++) {
        if (p->beta == 0) {
            const size_t size = blas_type_size(p->type_c);
            memset((char *)p->c + (size_t)j * (size_t)p->ldc * size, 0, (size_t)p->m * size);
            continue;
        }
        float *c = c_column(p, j);
        for (int i = 0; i < p->m; i++)
            c[i] *= p->beta;
    }
}

/* panel[k][ROWS] = op(A)[first_row ..][first_k ..], rows beyond m as 0. */
static void pack(float panel[DEPTH][ROWS], const struct blas_product *p, int first_row, int first_k, int depth)
{
    const float *a = p->a;
    const int rows = p->m - first_row < ROWS ? p->m - first_row : ROWS;
    for (int k = 0; k < depth; k++) {
        for (int i = 0; i < rows; i++) {
            const size_t row = (size_t)first_row + (size_t)i, at = (size_t)first_k + (size_t)k;
            panel[k][i] = p->transpose_a ? a[at + row * (size_t)p->lda] : a[row + at * (size_t)p->lda];
        }
        for (int i = rows; i < ROWS; i++)
            panel[k][i] = 0;
    }
}

/* C[first_row ..][first_column .. + columns] += alpha panel op(B). */
static void block(const struct blas_product *p, float panel[DEPTH][ROWS], int first_row, int first_column, int first_k,
                  int depth)
{
    const float *b = p->b;
    const size_t step_k = p->transpose_b ? (size_t)p->ldb : 1, step_n = p->transpose_b ? 1 : (size_t)p->ldb;
    const int columns = p->n - first_column < COLUMNS ? p->n - first_column : COLUMNS;
    const float *at[COLUMNS]; /* surplus columns repeat the last one and are not stored */
    for (int j = 0; j < COLUMNS; j++) {
        const size_t column = (size_t)first_column + (size_t)(j < columns ? j : columns - 1);
        at[j] = b + column * step_n + (size_t)first_k * step_k;
    }
    vector sums[COLUMNS][VECTORS] = {{{0}}};
    for (int k = 0; k < depth; k++) {
        vector row[VECTORS];
        memcpy(row, panel[k], sizeof row);
        for (int j = 0; j < COLUMNS; j++) {
            const float factor = at[j][(size_t)k * step_k];
            for (int v = 0; v < VECTORS; v++)
                sums[j][v] += row[v] * factor;
        }
    }
    const int rows = p->m - first_row < ROWS ? p->m - first_row : ROWS;
    for (int j = 0; j < columns; j++) {
        float *c = c_column(p, first_column + j) + first_row;
        float results[ROWS];
        memcpy(results, sums[j], sizeof results);
        for (int i = 0; i < rows; i++)
            c[i] += p->alpha * results[i];
    }
}

static void run_one(const struct blas_product *p)
{
    _Alignas(64) float panel[DEPTH][ROWS];
    if (p->beta != 1)
        scale_c(p);
    for (int first_k = 0; first_k < p->k; first_k += DEPTH) {
        const int depth = p->k - first_k < DEPTH ? p->k - first_k : DEPTH;
        for (int first_row = 0; first_row < p->m; first_row += ROWS) {
            pack(panel, p, first_row, first_k, depth);
            for (int first_column = 0; first_column < p->n; first_column += COLUMNS)
                block(p, panel, first_row, first_column, first_k, depth);
        }
    }
}

static const char *run(const struct blas_product *p)
{
    for (int i = 0; i < p->batch; i++) {
        const struct blas_product entry = blas_entries(p, i, 1);
        run_one(&entry);
    }
    return NULL;
}

static bool supports(softDataType_t type_ab, softDataType_t type_c) { return type_ab == SOFT_R_32F && type_c == SOFT_R_32F; }

const struct blas_engine blas_plain = {"plain loops", supports, run};
