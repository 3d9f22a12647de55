/* SPDX-License-Identifier: MIT
 *
 * Convolutions by oneDNN's primitives. Tensors stay NHWC, for which oneDNN has kernels of its own; only with filters in
 * the order it likes best does it use them (else its reference, a thousand times slower), so a filter is turned into
 * that order before a convolution, and its gradient out of it after: some percent of a convolution's time. Each core has
 * primitives of its own (dnnl_thread.h).
 */
#include "config.h"

#if HAVE_DNNL

#include "dnn.h"

#include <string.h>

#include "dnn_dnnl_version.h"
#include "dnnl_thread.h"
#include "library_calls.h"

/* What is prepared: the convolution, and the turn of our filter to oneDNN's order (of a gradient: from it to ours). Theirs lies
 * in the thread's scratch. */
enum { CONVOLUTION, TURN };
enum { X, Y, OURS, THEIRS };

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

static dnnl_status_t make_turn(struct dnnl_prepared *made, dnnl_engine_t engine, bool gradient, dnnl_layout_view ours,
                               dnnl_layout_view theirs)
{
    dnnl_primitive_desc_t description = NULL;
    dnnl_status_t status = dnnl_reorder_primitive_desc_create(&description, gradient ? theirs : ours, engine,
                                                              gradient ? ours : theirs, engine, NULL);
    if (!status)
        status = dnnl_primitive_create(&made->primitives[TURN], description);
    if (description)
        dnnl_primitive_desc_destroy(description);
    if (!status)
        status = dnnl_view_memory(&made->memories[THEIRS], theirs, engine);
    made->scratch_bytes = dnnl_memory_desc_get_size(theirs);
    return status;
}

static dnnl_status_t make_memories(struct dnnl_prepared *made, dnnl_engine_t engine, const struct dnnl_convolution *c,
                                   const dnnl_layout *ours)
{
    dnnl_status_t status = dnnl_layout_memory(&made->memories[X], &c->x, engine);
    if (!status)
        status = dnnl_layout_memory(&made->memories[Y], &c->y, engine);
    return status ? status : dnnl_layout_memory(&made->memories[OURS], ours, engine);
}

static dnnl_status_t make_primitives(struct dnnl_prepared *made, dnnl_engine_t engine, const void *shape)
{
    const struct dnn_convolution *p = shape;
    const bool gradient = p->pass == DNN_BACKWARD_FILTER;
    struct dnnl_convolution c;
    dnnl_layout ours;
    dnnl_primitive_desc_t description = NULL;
    memset(&c, 0, sizeof c);
    memset(&ours, 0, sizeof ours);
    dnnl_status_t status = make_layouts(&c, &ours, p);
    if (!status)
        status = describe(&description, engine, p, &c);
    if (!status)
        status = dnnl_primitive_create(&made->primitives[CONVOLUTION], description);
    if (!status)
        status = make_memories(made, engine, &c, &ours);
    if (!status) {
        const dnnl_query_t query = gradient ? dnnl_query_diff_weights_md : dnnl_query_weights_md;
        status = make_turn(made, engine, gradient, dnnl_layout_look(&ours), dnnl_primitive_desc_query_md(description, query, 0));
    }
    if (description)
        dnnl_primitive_desc_destroy(description);
    dnnl_layout *layouts[] = {&c.x, &c.y, &c.filter, &ours};
    for (int i = 0; i < 4; i++)
        dnnl_layout_destroy(layouts[i]);
    return status;
}

/* The primitives for this shape, made on first use; NULL if oneDNN can't. */
static struct dnnl_prepared *prepare(struct dnnl_thread *thread, const struct dnn_convolution *p)
{
    const struct dnnl_key key = {{DNNL_KIND_CONVOLUTION, p->pass, p->type, p->n, p->h, p->w, p->c, p->k, p->r, p->s, p->out_h,
                                  p->out_w, p->pad_h, p->pad_w, p->stride_h, p->stride_w}};
    return dnnl_thread_prepare(thread, &key, make_primitives, p);
}

/* ---- a run ------------------------------------------------------------------------------------------------------- */

static dnnl_status_t turn(const struct dnnl_prepared *prepared, bool gradient, dnnl_stream_t stream)
{
    const dnnl_memory_t ours = prepared->memories[OURS], theirs = prepared->memories[THEIRS];
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, gradient ? theirs : ours}, {DNNL_ARG_TO, gradient ? ours : theirs}};
    return dnnl_primitive_execute(prepared->primitives[TURN], stream, 2, arguments);
}

static dnnl_status_t convolve(const struct dnnl_prepared *prepared, enum dnn_pass pass, dnnl_stream_t stream)
{
    const dnnl_exec_arg_t arguments[] = {
        {pass == DNN_BACKWARD_DATA ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, prepared->memories[X]},
        {pass == DNN_BACKWARD_FILTER ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, prepared->memories[THEIRS]},
        {pass == DNN_FORWARD ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, prepared->memories[Y]},
    };
    return dnnl_primitive_execute(prepared->primitives[CONVOLUTION], stream, 3, arguments);
}

static const char *run(const struct dnn_convolution *p)
{
    struct dnnl_thread *thread = dnnl_thread_get();
    if (!thread)
        return "no engine could be made";
    struct dnnl_prepared *prepared = prepare(thread, p);
    if (!prepared)
        return "no primitive could be made for this shape";
    void *scratch = dnnl_thread_scratch(thread, prepared->scratch_bytes);
    if (!scratch)
        return "no memory for a filter";
    if (dnnl_memory_set_data_handle(prepared->memories[X], p->x) || dnnl_memory_set_data_handle(prepared->memories[Y], p->y) ||
        dnnl_memory_set_data_handle(prepared->memories[OURS], p->filter) ||
        dnnl_memory_set_data_handle(prepared->memories[THEIRS], scratch))
        return "the buffers were refused";
    const bool gradient = p->pass == DNN_BACKWARD_FILTER;
    dnnl_stream_t stream = dnnl_thread_stream(thread);
    dnnl_status_t status = gradient ? convolve(prepared, p->pass, stream) : turn(prepared, gradient, stream);
    if (!status)
        status = gradient ? turn(prepared, gradient, stream) : convolve(prepared, p->pass, stream);
    return status || dnnl_stream_wait(stream) ? "a primitive failed" : NULL;
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
    struct dnnl_thread *thread = dnnl_thread_get();
    known = thread && prepare(thread, &small) ? 1 : 2;
    library_look_away(false);
    __atomic_store_n(&answers[type], known, __ATOMIC_RELAXED);
    return known == 1;
}

const struct dnn_engine dnn_dnnl = {"oneDNN", supports, run};

#endif
