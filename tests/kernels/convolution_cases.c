/* SPDX-License-Identifier: MIT
 *
 * Convolutions through cuDNN's names against plain loops in double: the shapes of the residual networks and odd ones,
 * gradients added to what is there, batches of one and of several pieces; and what is refused.
 */
#include <math.h>
#include <stdio.h>

#include "tensor.h"

#if GPU_HAS_CUDNN

struct shape {
    int n, h, c, k, window, stride;
};

static const struct shape shapes[] = {{1, 1, 1, 1, 1, 1},   {2, 5, 3, 4, 3, 1},    {3, 9, 7, 5, 3, 2},  {17, 8, 16, 16, 3, 1},
                                      {33, 8, 16, 32, 3, 2}, {35, 8, 16, 32, 1, 2}, {5, 7, 64, 64, 3, 1}, {2, 23, 3, 16, 7, 2}};
#define SHAPES (sizeof shapes / sizeof shapes[0])

struct trial {
    enum element_type type;
    struct shape s;
    int pad, out;
    size_t x_count, w_count, y_count;
    float *x, *w, *y; /* y: also the gradient of the output */
    void *x_device, *w_device, *y_device, *workspace;
    size_t workspace_bytes;
    cudnnHandle_t handle;
    cudnnTensorDescriptor_t x_shape, y_shape;
    cudnnFilterDescriptor_t w_shape;
    cudnnConvolutionDescriptor_t by;
};

static float *random_tensor(size_t n, uint32_t sequence)
{
    float *values = test_memory(n * sizeof *values);
    test_random(values, n, sequence);
    return values;
}

static void open_descriptors(struct trial *t)
{
    const struct shape *s = &t->s;
    const cudnnDataType_t type = element_cudnn_type(t->type);
    LAUNCH(cudnnCreate(&t->handle));
    LAUNCH(cudnnSetStream(t->handle, test_stream));
    LAUNCH(cudnnCreateTensorDescriptor(&t->x_shape));
    LAUNCH(cudnnCreateTensorDescriptor(&t->y_shape));
    LAUNCH(cudnnCreateFilterDescriptor(&t->w_shape));
    LAUNCH(cudnnCreateConvolutionDescriptor(&t->by));
    LAUNCH(cudnnSetTensor4dDescriptor(t->x_shape, CUDNN_TENSOR_NHWC, type, s->n, s->c, s->h, s->h));
    LAUNCH(cudnnSetTensor4dDescriptor(t->y_shape, CUDNN_TENSOR_NHWC, type, s->n, s->k, t->out, t->out));
    LAUNCH(cudnnSetFilter4dDescriptor(t->w_shape, type, CUDNN_TENSOR_NHWC, s->k, s->c, s->window, s->window));
    LAUNCH(cudnnSetConvolution2dDescriptor(t->by, t->pad, t->pad, s->stride, s->stride, 1, 1, CUDNN_CROSS_CORRELATION,
                                           CUDNN_DATA_FLOAT));
}

static void open_trial(struct trial *t, enum element_type type, const struct shape *s)
{
    size_t bytes[3] = {0};
    *t = (struct trial){.type = type, .s = *s, .pad = s->window / 2};
    t->out = (s->h + 2 * t->pad - s->window) / s->stride + 1;
    t->x_count = (size_t)(s->n * s->h * s->h * s->c);
    t->y_count = (size_t)(s->n * t->out * t->out * s->k);
    t->w_count = (size_t)(s->k * s->window * s->window * s->c);
    t->x = random_tensor(t->x_count, 90);
    t->w = random_tensor(t->w_count, 91);
    t->y = random_tensor(t->y_count, 92);
    t->x_device = typed_device(type, t->x, t->x_count, 0);
    t->w_device = typed_device(type, t->w, t->w_count, 0);
    t->y_device = typed_device(type, t->y, t->y_count, 0);
    open_descriptors(t);
    LAUNCH(cudnnGetConvolutionForwardWorkspaceSize(t->handle, t->x_shape, t->w_shape, t->by, t->y_shape,
                                                   CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, &bytes[0]));
    LAUNCH(cudnnGetConvolutionBackwardDataWorkspaceSize(t->handle, t->w_shape, t->y_shape, t->by, t->x_shape,
                                                        CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, &bytes[1]));
    LAUNCH(cudnnGetConvolutionBackwardFilterWorkspaceSize(t->handle, t->x_shape, t->y_shape, t->by, t->w_shape,
                                                          CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, &bytes[2]));
    for (int i = 0; i < 3; i++)
        t->workspace_bytes = bytes[i] > t->workspace_bytes ? bytes[i] : t->workspace_bytes;
    void *nothing = test_memory(t->workspace_bytes);
    t->workspace = test_device(nothing, t->workspace_bytes, 0);
    free(nothing);
}

static void close_trial(struct trial *t)
{
    LAUNCH(cudnnDestroyTensorDescriptor(t->x_shape));
    LAUNCH(cudnnDestroyTensorDescriptor(t->y_shape));
    LAUNCH(cudnnDestroyFilterDescriptor(t->w_shape));
    LAUNCH(cudnnDestroyConvolutionDescriptor(t->by));
    LAUNCH(cudnnDestroy(t->handle));
    free(t->x), free(t->w), free(t->y);
    test_release();
}

/* Adds every product x w to y, or y w to x, or x y to w, whichever `to` is. */
static void reference(const struct trial *t, double *to_x, double *to_w, double *to_y)
{
    const struct shape *s = &t->s;
    for (size_t at = 0; at < t->y_count; at++) {
        const int k = (int)(at % (size_t)s->k), pixel = (int)(at / (size_t)s->k);
        const int ow = pixel % t->out, oh = pixel / t->out % t->out, n = pixel / (t->out * t->out);
        for (int tap = 0; tap < s->window * s->window; tap++) {
            const int h = oh * s->stride - t->pad + tap / s->window, w = ow * s->stride - t->pad + tap % s->window;
            if (h < 0 || w < 0 || h >= s->h || w >= s->h)
                continue;
            const size_t x = (size_t)(((n * s->h + h) * s->h + w) * s->c);
            const size_t f = (size_t)((k * s->window * s->window + tap) * s->c);
            for (size_t c = 0; c < (size_t)s->c; c++) {
                if (to_y)
                    to_y[at] += (double)t->x[x + c] * (double)t->w[f + c];
                if (to_x)
                    to_x[x + c] += (double)t->y[at] * (double)t->w[f + c];
                if (to_w)
                    to_w[f + c] += (double)t->y[at] * (double)t->x[x + c];
            }
        }
    }
}

static void check_passes(struct trial *t)
{
    const float one = 1, zero = 0;
    double *x = test_memory(t->x_count * sizeof *x), *w = test_memory(t->w_count * sizeof *w);
    double *y = test_memory(t->y_count * sizeof *y);
    const size_t size = element_size(t->type);
    void *results = test_memory((t->x_count + t->y_count + t->w_count) * size);
    void *to_x = test_device(results, t->x_count * size, 0), *to_y = test_device(results, t->y_count * size, 0);
    void *to_w = test_device(results, t->w_count * size, 0);

    reference(t, x, w, y);
    LAUNCH(cudnnConvolutionForward(t->handle, &one, t->x_shape, t->x_device, t->w_shape, t->w_device, t->by,
                                   CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, t->workspace, t->workspace_bytes,
                                   &zero, t->y_shape, to_y));
    LAUNCH(cudnnConvolutionBackwardData(t->handle, &one, t->w_shape, t->w_device, t->y_shape, t->y_device, t->by,
                                        CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, t->workspace, t->workspace_bytes, &zero,
                                        t->x_shape, to_x));
    tensor_expect("y", t->type, to_y, y, t->y_count, 1e-5, 2e-5 * sqrt(t->s.c * 9.0));
    tensor_expect("dx", t->type, to_x, x, t->x_count, 1e-5, 2e-5 * sqrt(t->s.k * 9.0));
    for (int times = 1; times <= 2; times++) { /* overwritten, then added to */
        LAUNCH(cudnnConvolutionBackwardFilter(t->handle, &one, t->x_shape, t->x_device, t->y_shape, t->y_device, t->by,
                                              CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, t->workspace, t->workspace_bytes,
                                              times == 1 ? &zero : &one, t->w_shape, to_w));
        for (size_t i = 0; i < t->w_count && times == 2; i++)
            w[i] *= 2;
        tensor_expect("dw", t->type, to_w, w, t->w_count, 1e-5,
                     times * (1e-5 + tensor_rounding(t->type)) * sqrt((double)t->y_count));
    }
    free(x), free(w), free(y), free(results);
}

static void run_convolutions(const void *argument)
{
    for (size_t s = 0; s < SHAPES; s++) {
        struct trial t;
        open_trial(&t, *(const enum element_type *)argument, &shapes[s]);
        check_passes(&t);
        close_trial(&t);
    }
}

static void refuse(int status, const char *what)
{
    if (status == CUDNN_STATUS_SUCCESS)
        test_fail("%s was not refused", what);
}

static void run_refusals(const void *argument)
{
    (void)argument;
    const float one = 1, zero = 0;
    struct trial t;
    open_trial(&t, ELEMENT_F32, &shapes[3]);
    LAUNCH(cudnnSetTensor4dDescriptor(t.y_shape, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, t.s.n, t.s.k, t.out + 1, t.out));
    refuse((int)cudnnConvolutionForward(t.handle, &one, t.x_shape, t.x_device, t.w_shape, t.w_device, t.by,
                                        CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, t.workspace,
                                        t.workspace_bytes, &zero, t.y_shape, t.y_device),
           "an output of another height");
    refuse((int)cudnnSetTensor4dDescriptor(t.x_shape, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, -1, 3, 8, 8), "a batch of -1");
    close_trial(&t);
}

static const enum element_type f32 = ELEMENT_F32, bf16 = ELEMENT_BF16, f16 = ELEMENT_F16;

const struct test_case convolution_cases[] = {
    {"convolution_fp32", run_convolutions, &f32},
    {"convolution_bf16", run_convolutions, &bf16},
    {"convolution_fp16", run_convolutions, &f16},
    {"convolution_refused", run_refusals, NULL},
    {NULL, NULL, NULL},
};

#else

const struct test_case convolution_cases[] = {{NULL, NULL, NULL}};

#endif
