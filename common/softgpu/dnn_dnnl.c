/* SPDX-License-Identifier: MIT
 *
 * Convolutions by oneDNN's primitives. Tensors stay NHWC, for which oneDNN has kernels of its own; only with filters in
 * the order it likes best does it use them (else its reference, a thousand times slower), so a filter is turned into
 * that order before a convolution, and its gradient out of it after: some percent of a convolution's time.
 *
 * Each thread has its own engine, stream and primitives, found by shape: nothing is shared, locked or allocated once a
 * shape has been seen.
 */
#include "config.h"

#if HAVE_DNNL

#include "dnn.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "dnn_dnnl_version.h"
#include "dnnl_thread.h"
#include "library_calls.h"

#define BUCKETS 64

/* The primitives for one shape; key's pointers are NULL. */
struct prepared {
    struct prepared *next;
    struct dnn_convolution key;
    dnnl_primitive_t convolution, turn; /* turn: our filter to oneDNN's (ours from it for a gradient) */
    dnnl_memory_t x, y, ours, theirs;   /* theirs: in the thread's scratch */
    size_t theirs_bytes;
};

struct thread_state {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    void *scratch; /* a filter in oneDNN's order */
    size_t scratch_bytes;
    struct prepared *buckets[BUCKETS];
};

static pthread_key_t state_key;
static pthread_once_t state_once = PTHREAD_ONCE_INIT;

static void prepared_free(struct prepared *prepared)
{
    dnnl_memory_t memories[] = {prepared->x, prepared->y, prepared->ours, prepared->theirs};
    for (size_t i = 0; i < sizeof memories / sizeof memories[0]; i++)
        if (memories[i])
            dnnl_memory_destroy(memories[i]);
    if (prepared->convolution)
        dnnl_primitive_destroy(prepared->convolution);
    if (prepared->turn)
        dnnl_primitive_destroy(prepared->turn);
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
    free(state->scratch);
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

/* ---- primitives for a shape -------------------------------------------------------------------------------------- */

static dnnl_data_type_t type_of(softDnnDataType_t type)
{
    return type == SOFTDNN_DATA_FLOAT ? dnnl_f32 : type == SOFTDNN_DATA_BFLOAT16 ? dnnl_bf16 : dnnl_f16;
}

/* oneDNN's dims are n c h w and k c r s whatever the order in memory is. */
static dnnl_status_t make_layouts(struct dnnl_convolution *c, dnnl_layout *ours, const struct dnn_convolution *p)
{
    const dnnl_dims_t x = {p->n, p->c, p->h, p->w}, y = {p->n, p->k, p->out_h, p->out_w}, filter = {p->k, p->c, p->r, p->s};
    const dnnl_data_type_t type = type_of(p->type), filter_type = p->pass == DNN_BACKWARD_FILTER ? dnnl_f32 : type;
    c->strides[0] = p->stride_h;
    c->strides[1] = p->stride_w;
    c->padding[0] = p->pad_h;
    c->padding[1] = p->pad_w;
    dnnl_status_t status = dnnl_layout_tagged(&c->x, x, type, dnnl_nhwc);
    if (!status)
        status = dnnl_layout_tagged(&c->y, y, type, dnnl_nhwc);
    if (!status)
        status = dnnl_layout_tagged(&c->filter, filter, filter_type, dnnl_format_tag_any);
    if (!status)
        status = dnnl_layout_tagged(ours, filter, filter_type, dnnl_ohwi);
    return status;
}

/* A backward pass is described with its forward pass as a hint; that one's filter has the tensors' type. */
static dnnl_status_t describe(dnnl_primitive_desc_t *description, dnnl_engine_t engine, const struct dnn_convolution *p,
                              const struct dnnl_convolution *c)
{
    dnnl_primitive_desc_t forward = NULL;
    struct dnnl_convolution plain = *c;
    dnnl_layout ours;
    struct dnn_convolution as_forward = *p;
    if (p->pass == DNN_FORWARD)
        return dnnl_describe_forward(description, engine, c);
    as_forward.pass = DNN_FORWARD;
    memset(&ours, 0, sizeof ours);
    memset(&plain, 0, sizeof plain);
    dnnl_status_t status = make_layouts(&plain, &ours, &as_forward);
    if (!status)
        status = dnnl_describe_forward(&forward, engine, &plain);
    if (!status)
        status = p->pass == DNN_BACKWARD_DATA ? dnnl_describe_data(description, engine, c, forward)
                                              : dnnl_describe_filter(description, engine, c, forward);
    if (forward)
        dnnl_primitive_desc_destroy(forward);
    dnnl_layout *layouts[] = {&plain.x, &plain.y, &plain.filter, &ours};
    for (int i = 0; i < 4; i++)
        dnnl_layout_destroy(layouts[i]);
    return status;
}

static dnnl_status_t make_turn(struct prepared *out, dnnl_engine_t engine, dnnl_layout_view ours, dnnl_layout_view theirs)
{
    dnnl_primitive_desc_t description = NULL;
    const bool gradient = out->key.pass == DNN_BACKWARD_FILTER;
    dnnl_status_t status = dnnl_reorder_primitive_desc_create(&description, gradient ? theirs : ours, engine,
                                                              gradient ? ours : theirs, engine, NULL);
    if (!status)
        status = dnnl_primitive_create(&out->turn, description);
    if (description)
        dnnl_primitive_desc_destroy(description);
    if (!status)
        status = dnnl_view_memory(&out->theirs, theirs, engine);
    out->theirs_bytes = dnnl_memory_desc_get_size(theirs);
    return status;
}

static dnnl_status_t make_memories(struct prepared *out, dnnl_engine_t engine, const struct dnnl_convolution *c,
                                   const dnnl_layout *ours)
{
    dnnl_status_t status = dnnl_layout_memory(&out->x, &c->x, engine);
    if (!status)
        status = dnnl_layout_memory(&out->y, &c->y, engine);
    return status ? status : dnnl_layout_memory(&out->ours, ours, engine);
}

static dnnl_status_t make_primitives(struct prepared *out, dnnl_engine_t engine)
{
    struct dnnl_convolution c;
    dnnl_layout ours;
    dnnl_primitive_desc_t description = NULL;
    memset(&c, 0, sizeof c);
    memset(&ours, 0, sizeof ours);
    dnnl_status_t status = make_layouts(&c, &ours, &out->key);
    if (!status)
        status = describe(&description, engine, &out->key, &c);
    if (!status)
        status = dnnl_primitive_create(&out->convolution, description);
    if (!status)
        status = make_memories(out, engine, &c, &ours);
    if (!status) {
        const dnnl_query_t query = out->key.pass == DNN_BACKWARD_FILTER ? dnnl_query_diff_weights_md : dnnl_query_weights_md;
        status = make_turn(out, engine, dnnl_layout_look(&ours), dnnl_primitive_desc_query_md(description, query, 0));
    }
    if (description)
        dnnl_primitive_desc_destroy(description);
    dnnl_layout *layouts[] = {&c.x, &c.y, &c.filter, &ours};
    for (int i = 0; i < 4; i++)
        dnnl_layout_destroy(layouts[i]);
    return status;
}

static bool same_shape(const struct dnn_convolution *p, const struct dnn_convolution *q)
{
    return p->pass == q->pass && p->type == q->type && p->n == q->n && p->h == q->h && p->w == q->w && p->c == q->c &&
           p->k == q->k && p->r == q->r && p->s == q->s && p->pad_h == q->pad_h && p->pad_w == q->pad_w &&
           p->stride_h == q->stride_h && p->stride_w == q->stride_w;
}

/* The primitives for this shape, made on first use; NULL if oneDNN can't. */
static struct prepared *prepare(struct thread_state *state, const struct dnn_convolution *p)
{
    unsigned hash = (unsigned)p->pass;
    const int sizes[] = {p->n, p->h, p->c, p->k, p->r, p->stride_h};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        hash = hash * 31u + (unsigned)sizes[i];
    struct prepared **bucket = &state->buckets[hash % BUCKETS];
    for (struct prepared *known = *bucket; known; known = known->next)
        if (same_shape(&known->key, p))
            return known;
    struct prepared *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->key = *p;
    made->key.x = made->key.filter = made->key.y = NULL;
    if (make_primitives(made, state->engine)) {
        prepared_free(made);
        return NULL;
    }
    made->next = *bucket;
    *bucket = made;
    return made;
}

static bool reserve(struct thread_state *state, size_t bytes)
{
    if (bytes <= state->scratch_bytes)
        return true;
    free(state->scratch);
    state->scratch = aligned_alloc(64, (bytes + 63) / 64 * 64);
    state->scratch_bytes = state->scratch ? bytes : 0;
    return state->scratch != NULL;
}

/* ---- a run ------------------------------------------------------------------------------------------------------- */

static dnnl_status_t turn(const struct prepared *prepared, dnnl_stream_t stream)
{
    const bool gradient = prepared->key.pass == DNN_BACKWARD_FILTER;
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, gradient ? prepared->theirs : prepared->ours},
                                         {DNNL_ARG_TO, gradient ? prepared->ours : prepared->theirs}};
    return dnnl_primitive_execute(prepared->turn, stream, 2, arguments);
}

static dnnl_status_t convolve(const struct prepared *prepared, dnnl_stream_t stream)
{
    const enum dnn_pass pass = prepared->key.pass;
    const dnnl_exec_arg_t arguments[] = {
        {pass == DNN_BACKWARD_DATA ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, prepared->x},
        {pass == DNN_BACKWARD_FILTER ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, prepared->theirs},
        {pass == DNN_FORWARD ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, prepared->y},
    };
    return dnnl_primitive_execute(prepared->convolution, stream, 3, arguments);
}

static const char *run(const struct dnn_convolution *p)
{
    struct thread_state *state = state_of_thread();
    if (!state)
        return "no engine could be made";
    struct prepared *prepared = prepare(state, p);
    if (!prepared)
        return "no primitive could be made for this shape";
    if (!reserve(state, prepared->theirs_bytes))
        return "no memory for a filter";
    if (dnnl_memory_set_data_handle(prepared->x, p->x) || dnnl_memory_set_data_handle(prepared->y, p->y) ||
        dnnl_memory_set_data_handle(prepared->ours, p->filter) ||
        dnnl_memory_set_data_handle(prepared->theirs, state->scratch))
        return "the buffers were refused";
    const bool gradient = p->pass == DNN_BACKWARD_FILTER;
    dnnl_status_t status = gradient ? convolve(prepared, state->stream) : turn(prepared, state->stream);
    if (!status)
        status = gradient ? turn(prepared, state->stream) : convolve(prepared, state->stream);
    return status || dnnl_stream_wait(state->stream) ? "a primitive failed" : NULL;
}

/* Asks oneDNN once for each type. 0: not asked yet, 1: yes, 2: no. */
static bool supports(softDnnDataType_t type)
{
    static int answers[SOFTDNN_DATA_BFLOAT16 + 1];
    int known = __atomic_load_n(&answers[type], __ATOMIC_RELAXED);
    if (known)
        return known == 1;
    const struct dnn_convolution small = {.pass = DNN_FORWARD, .type = type, .n = 1, .h = 8, .w = 8, .c = 16, .k = 16,
        .r = 3, .s = 3, .out_h = 8, .out_w = 8, .pad_h = 1, .pad_w = 1, .stride_h = 1, .stride_w = 1};
    library_look_away(true); /* a host thread may ask, with others at the same time */
    struct thread_state *state = state_of_thread();
    known = state && prepare(state, &small) ? 1 : 2;
    library_look_away(false);
    __atomic_store_n(&answers[type], known, __ATOMIC_RELAXED);
    return known == 1;
}

const struct dnn_engine dnn_dnnl = {"oneDNN", supports, run};

#endif
