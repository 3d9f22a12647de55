/* SPDX-License-Identifier: MIT
 *
 * cuDNN's names on the soft GPU: descriptors, checks, and the launch of a convolution.
 *
 * The batch is cut into pieces of at most PIECE images, whatever the device has of cores: pieces that stay in the
 * second level cache are some 10 % faster than a whole batch, and the cores share them. The gradient of a filter is a
 * sum over the batch: the pieces make PARTS sums of their own in the workspace, in fp32, and a second launch adds those
 * up in order. So bits depend on the shape alone.
 */
#include "config.h"

#include "dnn.h"

#include <stdlib.h>
#include <string.h>

#include "dnn_types.h"
#include "internal.h"
#include "launch.h"
#include "library_calls.h"

#if HAVE_DNNL
static const struct dnn_engine *const fast = &dnn_dnnl;
#else
static const struct dnn_engine *const fast = &dnn_plain;
#endif

#define PIECE 16                   /* images */
#define PARTS 8                    /* sums of a filter's gradient */
#define FOLD_ELEMENTS ((size_t)4096) /* of a filter, added up by one core */

struct softDnn {
    softStream_t stream;
};

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

/* A launch's arguments. */
struct work {
    struct dnn_convolution convolution; /* its filter's gradient: in the workspace */
    void *gradient;                     /* and at last here, in the convolution's type */
    struct soft_device *device;
    bool add;
};

static int pieces_of(const struct dnn_convolution *p)
{
    return (p->n + PIECE - 1) / PIECE;
}

/* Sums that a filter's gradient is made of. */
static int parts_of(const struct dnn_convolution *p)
{
    int pieces = pieces_of(p);
    return pieces < PARTS ? pieces : PARTS;
}

/* Images [first, first + count) of the whole. */
static struct dnn_convolution slice(const struct dnn_convolution *whole, int first, int count)
{
    struct dnn_convolution part = *whole;
    const size_t size = dnn_type_size(whole->type);
    part.n = count;
    part.x = (char *)whole->x + dnn_x_count(whole) / (size_t)whole->n * (size_t)first * size;
    part.y = (char *)whole->y + dnn_y_count(whole) / (size_t)whole->n * (size_t)first * size;
    return part;
}

static void annotate(const struct dnn_convolution *p)
{
    const size_t size = dnn_type_size(p->type);
    library_touches(p->x, dnn_x_count(p) * size, p->pass == DNN_BACKWARD_DATA);
    library_touches(p->y, dnn_y_count(p) * size, p->pass == DNN_FORWARD);
    library_touches(p->filter, dnn_filter_count(p) * (p->pass == DNN_BACKWARD_FILTER ? sizeof(float) : size),
                    p->pass == DNN_BACKWARD_FILTER);
}

static void run_part(const struct work *work, const struct dnn_convolution *part)
{
    const struct dnn_engine *able = fast->supports(part->type) ? fast : &dnn_plain;
    annotate(part);
    library_look_away(true);
    const char *failure = able->run(part);
    library_look_away(false);
    if (failure)
        soft_device_fail(work->device, softErrorLaunchFailure, "convolution of %d x %d x %d x %d to %d: %s: %s", part->n,
                         part->h, part->w, part->c, part->k, able->name, failure);
}

/* Parts [begin, end) of `parts` for a block of `blocks`. */
static int share(int parts, unsigned block, unsigned blocks)
{
    return (int)((uint64_t)parts * block / blocks);
}

static void convolution_body(const void *arguments, unsigned block, unsigned blocks)
{
    const struct work *work = arguments;
    const struct dnn_convolution *whole = &work->convolution;
    const int pieces = pieces_of(whole);
    for (int i = share(pieces, block, blocks); i < share(pieces, block + 1, blocks); i++) {
        const int first = i * PIECE, left = whole->n - first;
        const struct dnn_convolution part = slice(whole, first, left < PIECE ? left : PIECE);
        run_part(work, &part);
    }
}

static void filter_body(const void *arguments, unsigned block, unsigned blocks)
{
    const struct work *work = arguments;
    const struct dnn_convolution *whole = &work->convolution;
    const int parts = parts_of(whole);
    for (int i = share(parts, block, blocks); i < share(parts, block + 1, blocks); i++) {
        const int first = whole->n / parts * i + whole->n % parts * i / parts;
        const int end = whole->n / parts * (i + 1) + whole->n % parts * (i + 1) / parts;
        struct dnn_convolution part = slice(whole, first, end - first);
        part.filter = (float *)whole->filter + dnn_filter_count(whole) * (size_t)i;
        run_part(work, &part);
    }
}

/* The parts' sums, in order, and what was there before if that is wanted. */
static void fold_body(const void *arguments, unsigned block, unsigned blocks)
{
    const struct work *work = arguments;
    const struct dnn_convolution *whole = &work->convolution;
    const size_t count = dnn_filter_count(whole), size = dnn_type_size(whole->type);
    const int parts = parts_of(whole);
    const size_t begin = (size_t)((__uint128_t)count * block / blocks);
    const size_t end = (size_t)((__uint128_t)count * (block + 1) / blocks);
    for (size_t at = begin; at < end;) {
        float sums[256];
        const size_t n = end - at < 256 ? end - at : 256;
        memcpy(sums, (float *)whole->filter + at, n * sizeof(float));
        for (int part = 1; part < parts; part++) {
            const float *other = (float *)whole->filter + (size_t)part * count + at;
            for (size_t i = 0; i < n; i++)
                sums[i] += other[i];
        }
        char *to = (char *)work->gradient + at * size;
        if (work->add)
            dnn_add_floats(sums, to, whole->type, n);
        dnn_from_floats(to, sums, whole->type, n);
        at += n;
    }
}

/* ---- descriptors and handles ---------------------------------------------------------------------------------------- */

struct softDnnTensor {
    softDnnDataType_t type;
    int n, c, h, w;
};
struct softDnnFilter {
    softDnnDataType_t type;
    int k, c, r, s;
};
struct softDnnConvolution {
    int pad_h, pad_w, stride_h, stride_w;
};

const char *softDnnGetErrorString(softDnnStatus_t status)
{
    switch (status) {
    case SOFTDNN_STATUS_SUCCESS: return "the operation completed successfully";
    case SOFTDNN_STATUS_NOT_INITIALIZED: return "the handle is not initialized";
    case SOFTDNN_STATUS_BAD_PARAM: return "an unsupported value or parameter was passed";
    case SOFTDNN_STATUS_NOT_SUPPORTED: return "the functionality requested is not supported";
    case SOFTDNN_STATUS_INTERNAL_ERROR: return "an internal operation failed";
    case SOFTDNN_STATUS_EXECUTION_FAILED: return "the convolution could not be launched";
    }
    return "unknown status";
}

#define CREATE(pointer) \
    (!(pointer) ? SOFTDNN_STATUS_BAD_PARAM \
                : (*(pointer) = calloc(1, sizeof **(pointer))) ? SOFTDNN_STATUS_SUCCESS : SOFTDNN_STATUS_INTERNAL_ERROR)

softDnnStatus_t softDnnCreate(softDnnHandle_t *handle) { return CREATE(handle); }
softDnnStatus_t softDnnCreateTensorDescriptor(softDnnTensorDescriptor_t *tensor) { return CREATE(tensor); }
softDnnStatus_t softDnnCreateFilterDescriptor(softDnnFilterDescriptor_t *filter) { return CREATE(filter); }
softDnnStatus_t softDnnCreateConvolutionDescriptor(softDnnConvolutionDescriptor_t *c) { return CREATE(c); }

static softDnnStatus_t destroy(void *object)
{
    free(object);
    return object ? SOFTDNN_STATUS_SUCCESS : SOFTDNN_STATUS_NOT_INITIALIZED;
}

softDnnStatus_t softDnnDestroy(softDnnHandle_t handle) { return destroy(handle); }
softDnnStatus_t softDnnDestroyTensorDescriptor(softDnnTensorDescriptor_t tensor) { return destroy(tensor); }
softDnnStatus_t softDnnDestroyFilterDescriptor(softDnnFilterDescriptor_t filter) { return destroy(filter); }
softDnnStatus_t softDnnDestroyConvolutionDescriptor(softDnnConvolutionDescriptor_t c) { return destroy(c); }

softDnnStatus_t softDnnSetStream(softDnnHandle_t handle, softStream_t stream)
{
    if (!handle)
        return SOFTDNN_STATUS_NOT_INITIALIZED;
    handle->stream = stream;
    return SOFTDNN_STATUS_SUCCESS;
}

static softDnnStatus_t check(softDnnTensorFormat_t format, softDnnDataType_t type, int a, int b, int c, int d)
{
    if (a < 1 || b < 1 || c < 1 || d < 1)
        return SOFTDNN_STATUS_BAD_PARAM;
    bool known = type == SOFTDNN_DATA_FLOAT || type == SOFTDNN_DATA_HALF || type == SOFTDNN_DATA_BFLOAT16;
    return known && format == SOFTDNN_TENSOR_NHWC ? SOFTDNN_STATUS_SUCCESS : SOFTDNN_STATUS_NOT_SUPPORTED;
}

softDnnStatus_t softDnnSetTensor4dDescriptor(softDnnTensorDescriptor_t tensor, softDnnTensorFormat_t format,
                                             softDnnDataType_t type, int n, int c, int h, int w)
{
    const softDnnStatus_t status = tensor ? check(format, type, n, c, h, w) : SOFTDNN_STATUS_BAD_PARAM;
    if (!status)
        *tensor = (struct softDnnTensor){type, n, c, h, w};
    return status;
}

softDnnStatus_t softDnnSetFilter4dDescriptor(softDnnFilterDescriptor_t filter, softDnnDataType_t type,
                                             softDnnTensorFormat_t format, int k, int c, int h, int w)
{
    const softDnnStatus_t status = filter ? check(format, type, k, c, h, w) : SOFTDNN_STATUS_BAD_PARAM;
    if (!status)
        *filter = (struct softDnnFilter){type, k, c, h, w};
    return status;
}

softDnnStatus_t softDnnSetConvolution2dDescriptor(softDnnConvolutionDescriptor_t convolution, int pad_h, int pad_w,
                                                  int stride_h, int stride_w, int dilation_h, int dilation_w,
                                                  softDnnConvolutionMode_t mode, softDnnDataType_t compute)
{
    if (!convolution || pad_h < 0 || pad_w < 0 || stride_h < 1 || stride_w < 1)
        return SOFTDNN_STATUS_BAD_PARAM;
    if (dilation_h != 1 || dilation_w != 1 || mode != SOFTDNN_CROSS_CORRELATION || compute != SOFTDNN_DATA_FLOAT)
        return SOFTDNN_STATUS_NOT_SUPPORTED;
    *convolution = (struct softDnnConvolution){pad_h, pad_w, stride_h, stride_w};
    return SOFTDNN_STATUS_SUCCESS;
}

/* ---- calls -------------------------------------------------------------------------------------------------------- */

/* The shape of a call, if its descriptors fit each other. */
static softDnnStatus_t shape_of(struct dnn_convolution *shape, enum dnn_pass pass, const struct softDnnTensor *x,
                                const struct softDnnFilter *w, const struct softDnnConvolution *by,
                                const struct softDnnTensor *y)
{
    if (!x || !w || !by || !y || x->type != w->type || x->type != y->type || x->c != w->c || y->c != w->k ||
        x->n != y->n || x->h + 2 * by->pad_h < w->r || x->w + 2 * by->pad_w < w->s)
        return SOFTDNN_STATUS_BAD_PARAM;
    *shape = (struct dnn_convolution){
        .pass = pass, .type = x->type, .n = x->n, .h = x->h, .w = x->w, .c = x->c, .k = w->k, .r = w->r, .s = w->s,
        .out_h = (x->h + 2 * by->pad_h - w->r) / by->stride_h + 1, .out_w = (x->w + 2 * by->pad_w - w->s) / by->stride_w + 1,
        .pad_h = by->pad_h, .pad_w = by->pad_w, .stride_h = by->stride_h, .stride_w = by->stride_w};
    return shape->out_h == y->h && shape->out_w == y->w ? SOFTDNN_STATUS_SUCCESS : SOFTDNN_STATUS_BAD_PARAM;
}

static softDnnStatus_t workspace(size_t *bytes, enum dnn_pass pass, softDnnTensorDescriptor_t x,
                                 softDnnFilterDescriptor_t w, softDnnConvolutionDescriptor_t by,
                                 softDnnTensorDescriptor_t y)
{
    struct dnn_convolution shape;
    const softDnnStatus_t status = bytes ? shape_of(&shape, pass, x, w, by, y) : SOFTDNN_STATUS_BAD_PARAM;
    if (status)
        return status;
    *bytes = pass == DNN_BACKWARD_FILTER ? dnn_filter_count(&shape) * (size_t)parts_of(&shape) * sizeof(float) : 0;
    return SOFTDNN_STATUS_SUCCESS;
}

softDnnStatus_t softDnnGetForwardWorkspaceSize(softDnnHandle_t handle, softDnnTensorDescriptor_t x,
                                               softDnnFilterDescriptor_t w, softDnnConvolutionDescriptor_t convolution,
                                               softDnnTensorDescriptor_t y, softDnnForwardAlgo_t algorithm,
                                               size_t *bytes)
{
    (void)handle, (void)algorithm;
    return workspace(bytes, DNN_FORWARD, x, w, convolution, y);
}

softDnnStatus_t softDnnGetDataWorkspaceSize(softDnnHandle_t handle, softDnnFilterDescriptor_t w,
                                            softDnnTensorDescriptor_t dy, softDnnConvolutionDescriptor_t convolution,
                                            softDnnTensorDescriptor_t dx, softDnnDataAlgo_t algorithm, size_t *bytes)
{
    (void)handle, (void)algorithm;
    return workspace(bytes, DNN_BACKWARD_DATA, dx, w, convolution, dy);
}

softDnnStatus_t softDnnGetFilterWorkspaceSize(softDnnHandle_t handle, softDnnTensorDescriptor_t x,
                                              softDnnTensorDescriptor_t dy, softDnnConvolutionDescriptor_t convolution,
                                              softDnnFilterDescriptor_t dw, softDnnFilterAlgo_t algorithm,
                                              size_t *bytes)
{
    (void)handle, (void)algorithm;
    return workspace(bytes, DNN_BACKWARD_FILTER, x, dw, convolution, dy);
}

static softError_t translate(softStream_t stream, void **address, const void *pointer, size_t bytes, bool written)
{
    const struct soft_span span = {pointer, bytes, written};
    return softTranslate(stream, "convolution", &span, address);
}

/* Kernel addresses: of x, y, the filter (or the sums of its gradient, in the workspace, and the gradient). */
static softError_t translate_all(softStream_t stream, struct work *work, const void *x, const void *filter,
                                 const void *y, void *sums)
{
    struct dnn_convolution *p = &work->convolution;
    const size_t size = dnn_type_size(p->type), count = dnn_filter_count(p);
    const bool gradient = p->pass == DNN_BACKWARD_FILTER;
    softError_t error = translate(stream, &p->x, x, dnn_x_count(p) * size, p->pass == DNN_BACKWARD_DATA);
    if (!error)
        error = translate(stream, &p->y, y, dnn_y_count(p) * size, p->pass == DNN_FORWARD);
    if (!error)
        error = translate(stream, gradient ? &work->gradient : &p->filter, filter, count * size, gradient);
    if (!error && gradient)
        error = translate(stream, &p->filter, sums, count * (size_t)parts_of(p) * sizeof(float), true);
    return error;
}

static softDnnStatus_t enqueue(softStream_t stream, const struct work *work)
{
    const struct dnn_convolution *p = &work->convolution;
    const size_t size = dnn_type_size(p->type), filter = dnn_filter_count(p);
    const bool gradient = p->pass == DNN_BACKWARD_FILTER;
    const double flops = 2 * (double)dnn_y_count(p) * (double)(filter / (size_t)p->k);
    const struct soft_cost cost = {.name = gradient ? "convolution_filter" : p->pass == DNN_FORWARD ? "convolution" : "convolution_data",
                                   .flops = flops, .product = true,
                                   .type = 1 + (uint32_t)(p->type == SOFTDNN_DATA_FLOAT  ? SOFT_R_32F
                                                          : p->type == SOFTDNN_DATA_HALF ? SOFT_R_16F
                                                                                         : SOFT_R_16BF),
                                   .bytes = (double)((dnn_x_count(p) + dnn_y_count(p) + filter) * size)};
    const int parts = gradient ? parts_of(p) : pieces_of(p);
    softError_t error = softLaunch(stream, &cost, gradient ? filter_body : convolution_body, work, sizeof *work, (unsigned)parts);
    if (!error && gradient) {
        const double sums = (double)filter * parts;
        const struct soft_cost fold = {.name = "filter_fold", .flops = sums, .bytes = sums * sizeof(float) + (double)(filter * size)};
        error = softLaunch(stream, &fold, fold_body, work, sizeof *work, (unsigned)(filter / FOLD_ELEMENTS + 1));
    }
    return error ? SOFTDNN_STATUS_EXECUTION_FAILED : SOFTDNN_STATUS_SUCCESS;
}

/* The checks that the three calls have in common. */
static softDnnStatus_t call(softDnnHandle_t handle, const struct dnn_convolution *shape, const float *alpha,
                            const float *beta, const void *x, const void *filter, const void *y, void *sums,
                            size_t sum_bytes)
{
    struct work work = {.convolution = *shape};
    const bool gradient = shape->pass == DNN_BACKWARD_FILTER;
    if (!handle)
        return SOFTDNN_STATUS_NOT_INITIALIZED;
    if (!alpha || !beta || (gradient && sum_bytes < dnn_filter_count(shape) * (size_t)parts_of(shape) * sizeof(float)))
        return SOFTDNN_STATUS_BAD_PARAM;
    if (*alpha != 1 || (*beta != 0 && !(gradient && *beta == 1)))
        return SOFTDNN_STATUS_NOT_SUPPORTED;
    work.add = *beta != 0;
    work.device = soft_stream_device(handle->stream);
    if (!work.device || translate_all(handle->stream, &work, x, filter, y, sums))
        return SOFTDNN_STATUS_EXECUTION_FAILED;
    return enqueue(handle->stream, &work);
}

softDnnStatus_t softDnnConvolutionForward(softDnnHandle_t handle, const void *alpha, softDnnTensorDescriptor_t x_shape,
                                          const void *x, softDnnFilterDescriptor_t w_shape, const void *w,
                                          softDnnConvolutionDescriptor_t convolution, softDnnForwardAlgo_t algorithm,
                                          void *sums, size_t sum_bytes, const void *beta,
                                          softDnnTensorDescriptor_t y_shape, void *y)
{
    SOFT_HOST_CALL("cudnnConvolutionForward");
    struct dnn_convolution shape;
    const softDnnStatus_t status = shape_of(&shape, DNN_FORWARD, x_shape, w_shape, convolution, y_shape);
    (void)algorithm;
    return status ? status : call(handle, &shape, alpha, beta, x, w, y, sums, sum_bytes);
}

softDnnStatus_t softDnnConvolutionBackwardData(softDnnHandle_t handle, const void *alpha,
                                               softDnnFilterDescriptor_t w_shape, const void *w,
                                               softDnnTensorDescriptor_t dy_shape, const void *dy,
                                               softDnnConvolutionDescriptor_t convolution, softDnnDataAlgo_t algorithm,
                                               void *sums, size_t sum_bytes, const void *beta,
                                               softDnnTensorDescriptor_t dx_shape, void *dx)
{
    SOFT_HOST_CALL("cudnnConvolutionBackwardData");
    struct dnn_convolution shape;
    const softDnnStatus_t status = shape_of(&shape, DNN_BACKWARD_DATA, dx_shape, w_shape, convolution, dy_shape);
    (void)algorithm;
    return status ? status : call(handle, &shape, alpha, beta, dx, w, dy, sums, sum_bytes);
}

softDnnStatus_t softDnnConvolutionBackwardFilter(softDnnHandle_t handle, const void *alpha,
                                                 softDnnTensorDescriptor_t x_shape, const void *x,
                                                 softDnnTensorDescriptor_t dy_shape, const void *dy,
                                                 softDnnConvolutionDescriptor_t convolution,
                                                 softDnnFilterAlgo_t algorithm, void *sums, size_t sum_bytes,
                                                 const void *beta, softDnnFilterDescriptor_t dw_shape, void *dw)
{
    SOFT_HOST_CALL("cudnnConvolutionBackwardFilter");
    struct dnn_convolution shape;
    const softDnnStatus_t status = shape_of(&shape, DNN_BACKWARD_FILTER, x_shape, dw_shape, convolution, dy_shape);
    (void)algorithm;
    return status ? status : call(handle, &shape, alpha, beta, x, dw, dy, sums, sum_bytes);
}
