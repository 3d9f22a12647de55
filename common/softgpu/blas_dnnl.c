/* SPDX-License-Identifier: MIT
 *
 * Products by oneDNN's matmul primitive (its dnnl_sgemm is slower, and its bits change with the number of threads).
 *
 * oneDNN is row-major: a column-major C = op(A) op(B) is the row-major C^T = op(B)^T op(A)^T, and transposing is a matter of
 * strides. Each thread has its own engine, stream and primitives, found by shape: nothing is shared, locked or allocated once
 * a shape has been seen. oneDNN's own threads are switched off; the soft GPU's cores each compute tiles.
 */
#include "config.h"

#if HAVE_DNNL

#include "blas.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "blas_dnnl_version.h"
#include "dnnl_thread.h"
#include "library_calls.h"

#define BUCKETS 64

/* A primitive for one shape; key.a, .b, .c are NULL. */
struct prepared {
    struct prepared *next;
    struct blas_product key;
    dnnl_primitive_t primitive;
    dnnl_memory_t source, weights, destination;
};

struct thread_state {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    struct prepared *buckets[BUCKETS];
};

static pthread_key_t state_key;
static pthread_once_t state_once = PTHREAD_ONCE_INIT;

static void prepared_free(struct prepared *prepared)
{
    if (prepared->primitive)
        dnnl_primitive_destroy(prepared->primitive);
    if (prepared->source)
        dnnl_memory_destroy(prepared->source);
    if (prepared->weights)
        dnnl_memory_destroy(prepared->weights);
    if (prepared->destination)
        dnnl_memory_destroy(prepared->destination);
    free(prepared);
}

static void state_free(void *pointer)
{
    struct thread_state *state = pointer;
    for (int i = 0; i < BUCKETS; i++) {
        for (struct prepared *p = state->buckets[i], *next; p; p = next) {
            next = p->next;
            prepared_free(p);
        }
    }
    dnnl_thread_close(state->engine, state->stream);
    free(state);
}

static void make_key(void) { pthread_key_create(&state_key, state_free); }

static struct thread_state *state_of_thread(void)
{
    pthread_once(&state_once, make_key);
    struct thread_state *state = pthread_getspecific(state_key);
    if (state)
        return state;
    state = calloc(1, sizeof *state);
    if (!state)
        return NULL;
    if (!dnnl_thread_open(&state->engine, &state->stream) || pthread_setspecific(state_key, state)) {
        state_free(state);
        return NULL;
    }
    return state;
}

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

static dnnl_status_t make_primitive(struct prepared *out, dnnl_engine_t engine)
{
    const struct blas_product *p = &out->key;
    dnnl_layout layouts[3];
    memset(layouts, 0, sizeof layouts);
    dnnl_primitive_desc_t description = NULL;
    dnnl_status_t status = make_layouts(layouts, p);
    if (!status)
        status = describe(&description, engine, p, layouts);
    if (!status)
        status = dnnl_primitive_create(&out->primitive, description);
    if (!status)
        status = dnnl_layout_memory(&out->source, &layouts[0], engine);
    if (!status)
        status = dnnl_layout_memory(&out->weights, &layouts[1], engine);
    if (!status)
        status = dnnl_layout_memory(&out->destination, &layouts[2], engine);
    if (description)
        dnnl_primitive_desc_destroy(description);
    for (int i = 0; i < 3; i++)
        dnnl_layout_destroy(&layouts[i]);
    return status;
}

static bool same_shape(const struct blas_product *p, const struct blas_product *q)
{
    return p->m == q->m && p->n == q->n && p->k == q->k && p->lda == q->lda && p->ldb == q->ldb && p->ldc == q->ldc &&
           p->transpose_a == q->transpose_a && p->transpose_b == q->transpose_b && p->type_ab == q->type_ab &&
           p->type_c == q->type_c && p->alpha == q->alpha && p->beta == q->beta && p->batch == q->batch &&
           p->stride_a == q->stride_a && p->stride_b == q->stride_b && p->stride_c == q->stride_c;
}

/* The primitive for this shape, made on first use; NULL if oneDNN can't. */
static struct prepared *prepare(struct thread_state *state, const struct blas_product *p)
{
    const unsigned hash = ((unsigned)p->m * 31u + (unsigned)p->n) * 31u + (unsigned)p->k;
    struct prepared **bucket = &state->buckets[hash % BUCKETS];
    for (struct prepared *known = *bucket; known; known = known->next)
        if (same_shape(&known->key, p))
            return known;
    struct prepared *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->key = *p;
    made->key.a = made->key.b = made->key.c = NULL;
    if (make_primitive(made, state->engine)) {
        prepared_free(made);
        return NULL;
    }
    made->next = *bucket;
    *bucket = made;
    return made;
}

static const char *run(const struct blas_product *p)
{
    struct thread_state *state = state_of_thread();
    if (!state)
        return "no engine could be made";
    struct prepared *prepared = prepare(state, p);
    if (!prepared)
        return "no primitive could be made for this shape";
    if (dnnl_memory_set_data_handle(prepared->source, (void *)(uintptr_t)p->b) ||
        dnnl_memory_set_data_handle(prepared->weights, (void *)(uintptr_t)p->a) ||
        dnnl_memory_set_data_handle(prepared->destination, p->c))
        return "the buffers were refused";
    const dnnl_exec_arg_t arguments[] = {
        {DNNL_ARG_SRC, prepared->source},
        {DNNL_ARG_WEIGHTS, prepared->weights},
        {DNNL_ARG_DST, prepared->destination},
    };
    if (dnnl_primitive_execute(prepared->primitive, state->stream, 3, arguments) || dnnl_stream_wait(state->stream))
        return "the primitive failed";
    return NULL;
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
    struct thread_state *state = state_of_thread();
    known = state && prepare(state, &small) ? 1 : 2;
    library_look_away(false);
    __atomic_store_n(answer, known, __ATOMIC_RELAXED);
    return known == 1;
}

const struct blas_engine blas_dnnl = {"oneDNN", supports, run};

#endif
