/* SPDX-License-Identifier: MIT
 *
 * Products by oneDNN's matmul primitive (its dnnl_sgemm is slower, and its bits change with the number of threads).
 *
 * oneDNN is row-major: a column-major C = op(A) op(B) is the row-major C^T = op(B)^T op(A)^T, and transposing is a matter of
 * strides. The soft GPU's cores each compute tiles, by primitives of their own (dnnl_thread.h).
 */
#include "config.h"

#if HAVE_DNNL

#include "blas.h"

#include <string.h>

#include "blas_dnnl_version.h"
#include "dnnl_thread.h"
#include "library_calls.h"

enum { SOURCE, WEIGHTS, DESTINATION }; /* the prepared memories */

/* oneDNN has two products for AVX-512: one that writes dense matrices only, and one that writes into larger ones and, with
 * few samples and weights that are read along their rows, is slower (64 x 512 x 1024: 72 against 100 GFLOP/s). There a
 * tile is computed by itself and then copied, which costs some 2 %. */
#define FEW_SAMPLES 256
#define LONG_ROW 512

/* ---- a primitive for a shape ----------------------------------------------------------------------------------------- */

static dnnl_data_type_t type_of(softDataType_t type)
{
    return type == SOFT_R_32F ? dnnl_f32 : type == SOFT_R_16BF ? dnnl_bf16 : dnnl_f16;
}

/* How a row-major matrix lies in memory; `entry` elements on lies the next one of its batch (0: the same one serves all). */
struct matrix {
    int rows, columns, row_stride, column_stride;
    long long entry;
    softDataType_t type;
};

static dnnl_status_t make_layout(dnnl_layout *layout, int batch, const struct matrix *m)
{
    if (batch == 1) {
        const dnnl_dims_t dims = {m->rows, m->columns}, strides = {m->row_stride, m->column_stride};
        return dnnl_layout_create(layout, 2, dims, type_of(m->type), strides);
    }
    const dnnl_dims_t dims = {m->entry ? batch : 1, m->rows, m->columns};
    const dnnl_dims_t strides = {m->entry ? m->entry : (dnnl_dim_t)m->rows * m->columns, m->row_stride, m->column_stride};
    return dnnl_layout_create(layout, 3, dims, type_of(m->type), strides);
}

static dnnl_status_t make_layouts(dnnl_layout layouts[3], const struct blas_product *p)
{
    const bool ta = p->transpose_a, tb = p->transpose_b;
    const struct matrix matrices[3] = {
        {p->n, p->k, tb ? 1 : p->ldb, tb ? p->ldb : 1, p->stride_b, p->type_ab},
        {p->k, p->m, ta ? 1 : p->lda, ta ? p->lda : 1, p->stride_a, p->type_ab},
        {p->n, p->m, p->ldc, 1, p->stride_c, p->type_c},
    };
    dnnl_status_t status = dnnl_success;
    for (int i = 0; i < 3 && !status; i++)
        status = make_layout(&layouts[i], p->batch, &matrices[i]);
    return status;
}

/* alpha scales the product, then beta C is added; neither is there when it changes nothing. */
static dnnl_status_t make_attributes(dnnl_primitive_attr_t *attributes, const struct blas_product *p)
{
    dnnl_post_ops_t operations = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(attributes);
    if (!status)
        status = dnnl_post_ops_create(&operations);
    if (!status && p->alpha != 1)
        status = dnnl_append_factor(operations, p->alpha);
    if (!status && p->beta != 0)
        status = dnnl_append_sum(operations, p->beta);
    if (!status)
        status = dnnl_primitive_attr_set_post_ops(*attributes, operations);
    if (operations)
        dnnl_post_ops_destroy(operations);
    return status;
}

static dnnl_status_t describe(dnnl_primitive_desc_t *description, dnnl_engine_t engine, const struct blas_product *p,
                              const dnnl_layout layouts[3])
{
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_status_t status = make_attributes(&attributes, p);
    if (!status)
        status = dnnl_describe_matmul(description, engine, &layouts[0], &layouts[1], &layouts[2], attributes);
    if (attributes)
        dnnl_primitive_attr_destroy(attributes);
    return status;
}

static dnnl_status_t make_primitive(struct dnnl_prepared *made, dnnl_engine_t engine, const void *shape)
{
    const struct blas_product *p = shape;
    dnnl_layout layouts[3];
    memset(layouts, 0, sizeof layouts);
    dnnl_primitive_desc_t description = NULL;
    dnnl_status_t status = make_layouts(layouts, p);
    if (!status)
        status = describe(&description, engine, p, layouts);
    if (!status)
        status = dnnl_primitive_create(&made->primitives[0], description);
    for (int i = 0; i < 3 && !status; i++)
        status = dnnl_layout_memory(&made->memories[i], &layouts[i], engine);
    if (description)
        dnnl_primitive_desc_destroy(description);
    for (int i = 0; i < 3; i++)
        dnnl_layout_destroy(&layouts[i]);
    return status;
}

/* The primitive for this shape, made on first use; NULL if oneDNN can't. */
static struct dnnl_prepared *prepare(struct dnnl_thread *thread, const struct blas_product *p)
{
    struct dnnl_key key = {{DNNL_KIND_PRODUCT, p->m, p->n, p->k, p->lda, p->ldb, p->ldc, p->batch, p->stride_a, p->stride_b,
                            p->stride_c, p->transpose_a, p->transpose_b, p->type_ab, p->type_c}};
    const float factors[] = {p->alpha, p->beta};
    memcpy(&key.words[15], factors, sizeof factors); /* by their bits */
    return dnnl_thread_prepare(thread, &key, make_primitive, p);
}

static const char *execute(struct dnnl_thread *thread, const struct blas_product *p)
{
    struct dnnl_prepared *prepared = prepare(thread, p);
    if (!prepared)
        return "no primitive could be made for this shape";
    if (dnnl_memory_set_data_handle(prepared->memories[SOURCE], (void *)(uintptr_t)p->b) ||
        dnnl_memory_set_data_handle(prepared->memories[WEIGHTS], (void *)(uintptr_t)p->a) ||
        dnnl_memory_set_data_handle(prepared->memories[DESTINATION], p->c))
        return "the buffers were refused";
    const dnnl_exec_arg_t arguments[] = {
        {DNNL_ARG_SRC, prepared->memories[SOURCE]},
        {DNNL_ARG_WEIGHTS, prepared->memories[WEIGHTS]},
        {DNNL_ARG_DST, prepared->memories[DESTINATION]},
    };
    dnnl_stream_t stream = dnnl_thread_stream(thread);
    if (dnnl_primitive_execute(prepared->primitives[0], stream, 3, arguments) || dnnl_stream_wait(stream))
        return "the primitive failed";
    return NULL;
}

static bool apart(const struct blas_product *p)
{
    return p->batch == 1 && p->transpose_a && p->ldc > p->m && p->beta == 0 && p->n <= FEW_SAMPLES && p->k >= LONG_ROW;
}

static const char *execute_apart(struct dnnl_thread *thread, const struct blas_product *p)
{
    const size_t size = blas_type_size(p->type_c), column = (size_t)p->m * size;
    struct blas_product dense = *p;
    dense.c = dnnl_thread_scratch(thread, column * (size_t)p->n);
    dense.ldc = p->m;
    if (!dense.c)
        return "no memory for a tile";
    const char *failure = execute(thread, &dense);
    for (size_t i = 0; i < (size_t)p->n && !failure; i++)
        memcpy((char *)p->c + i * (size_t)p->ldc * size, (const char *)dense.c + i * column, column);
    return failure;
}

static const char *run(const struct blas_product *p)
{
    struct dnnl_thread *thread = dnnl_thread_get();
    if (!thread)
        return "no engine could be made";
    return apart(p) ? execute_apart(thread, p) : execute(thread, p);
}

/* Asks oneDNN once for each pair of types. 0: not asked yet, 1: yes, 2: no. */
static bool supports(softDataType_t type_ab, softDataType_t type_c)
{
    if (type_ab == SOFT_R_32F && type_c == SOFT_R_32F)
        return true;
    static int answers[SOFT_R_16BF + 1][SOFT_R_16BF + 1];
    int *answer = &answers[type_ab][type_c];
    int known = __atomic_load_n(answer, __ATOMIC_RELAXED);
    if (known)
        return known == 1;
    const struct blas_product small = {
        .m = 32, .n = 32, .k = 32, .lda = 32, .ldb = 32, .ldc = 32, .batch = 1, .type_ab = type_ab, .type_c = type_c,
        .alpha = 1};
    library_look_away(true); /* a host thread may ask, with others at the same time */
    struct dnnl_thread *thread = dnnl_thread_get();
    known = thread && prepare(thread, &small) ? 1 : 2;
    library_look_away(false);
    __atomic_store_n(answer, known, __ATOMIC_RELAXED);
    return known == 1;
}

const struct blas_engine blas_dnnl = {"oneDNN", supports, run};

#endif
