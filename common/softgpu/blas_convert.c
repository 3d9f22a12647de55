/* SPDX-License-Identifier: MIT
 *
 * 16-bit products where neither the processor nor the library has any: operands become floats piece by piece along k, C stays
 * in floats until the end and is rounded once. What it costs is the copies, not the sums: those are fp32's.
 */
#include "config.h"

#include "blas.h"

#include <pthread.h>
#include <stdlib.h>

#include "widen.h"

#define DEPTH 1024 /* of k in one piece: with tiles of 512 x 512 an operand's piece has 2 MiB, C 1 MiB */

/* Floats of this thread, kept from product to product. */
struct scratch {
    float *memory;
    size_t count;
};

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void scratch_free(void *pointer)
{
    struct scratch *scratch = pointer;
    free(scratch->memory);
    free(scratch);
}

static void make_key(void) { pthread_key_create(&key, scratch_free); }

/* NULL: no memory. */
static float *scratch_of_thread(size_t count)
{
    pthread_once(&once, make_key);
    struct scratch *scratch = pthread_getspecific(key);
    if (!scratch) {
        scratch = calloc(1, sizeof *scratch);
        if (!scratch || pthread_setspecific(key, scratch)) {
            free(scratch);
            return NULL;
        }
    }
    if (scratch->count < count) {
        free(scratch->memory);
        scratch->memory = malloc(count * sizeof(float));
        scratch->count = scratch->memory ? count : 0;
    }
    return scratch->memory;
}

/* Dense floats [columns][rows] of a stored matrix with leading dimension ld, from `first` (elements) on. */
static void widen(float *to, const void *matrix, softDataType_t type, size_t first, int rows, int columns, int ld)
{
    const uint16_t *from = (const uint16_t *)matrix + first;
    for (int column = 0; column < columns; column++) {
        float *dense = to + (size_t)column * (size_t)rows;
        const uint16_t *stored = from + (size_t)column * (size_t)ld;
        if (type == SOFT_R_16BF)
            widen_bfloat16(dense, stored, (size_t)rows);
        else
            widen_float16(dense, stored, (size_t)rows);
    }
}

static void narrow_c(const struct blas_product *p, const float *from)
{
    for (int column = 0; column < p->n; column++) {
        const float *dense = from + (size_t)column * (size_t)p->m;
        uint16_t *stored = (uint16_t *)p->c + (size_t)column * (size_t)p->ldc;
        if (p->type_c == SOFT_R_16BF)
            narrow_bfloat16(stored, dense, (size_t)p->m);
        else
            narrow_float16(stored, dense, (size_t)p->m);
    }
}

/* The piece [at, at + depth) of k, its operands in a and b. */
static struct blas_product piece_of(const struct blas_product *whole, float *a, float *b, int at, int depth)
{
    struct blas_product part = *whole;
    const size_t skip = (size_t)at;
    part.type_ab = part.type_c = SOFT_R_32F;
    part.k = depth;
    part.lda = whole->transpose_a ? depth : whole->m;
    part.ldb = whole->transpose_b ? whole->n : depth;
    if (whole->transpose_a)
        widen(a, whole->a, whole->type_ab, skip, depth, whole->m, whole->lda);
    else
        widen(a, whole->a, whole->type_ab, skip * (size_t)whole->lda, whole->m, depth, whole->lda);
    if (whole->transpose_b)
        widen(b, whole->b, whole->type_ab, skip * (size_t)whole->ldb, whole->n, depth, whole->ldb);
    else
        widen(b, whole->b, whole->type_ab, skip, depth, whole->n, whole->ldb);
    part.a = a;
    part.b = b;
    part.beta = at == 0 ? whole->beta : 1;
    return part;
}

static const char *run_one(const struct blas_product *p)
{
    const bool floats = p->type_c == SOFT_R_32F;
    const int deepest = p->k < DEPTH ? p->k : DEPTH;
    const size_t size_a = (size_t)p->m * (size_t)deepest, size_b = (size_t)deepest * (size_t)p->n;
    float *a = scratch_of_thread(size_a + size_b + (floats ? 0 : (size_t)p->m * (size_t)p->n));
    if (!a)
        return "no memory for operands in floats";
    float *b = a + size_a, *c = floats ? p->c : b + size_b;
    if (!floats && p->beta != 0)
        widen(c, p->c, p->type_c, 0, p->m, p->n, p->ldc);
    for (int at = 0; at < p->k; at += DEPTH) {
        struct blas_product part = piece_of(p, a, b, at, p->k - at < DEPTH ? p->k - at : DEPTH);
        part.c = c;
        part.ldc = floats ? p->ldc : p->m;
        const char *failure = blas_native->run(&part);
        if (failure)
            /* cppcheck-suppress returnDanglingLifetime ; the text has static storage (blas.h) */
            return failure;
    }
    if (!floats)
        narrow_c(p, c);
    return NULL;
}

static const char *run(const struct blas_product *p)
{
    for (int i = 0; i < p->batch; i++) {
        const struct blas_product entry = blas_entries(p, i, 1);
        const char *failure = run_one(&entry);
        if (failure)
            return failure;
    }
    return NULL;
}

static bool supports(softDataType_t type_ab, softDataType_t type_c) { return type_ab != SOFT_R_32F || type_c == SOFT_R_32F; }

const struct blas_engine blas_convert = {"by converting", supports, run};
