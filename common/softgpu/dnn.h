/* SPDX-License-Identifier: MIT
 *
 * Between cuDNN's names (dnn.c) and the two ways to compute a convolution: oneDNN (dnn_dnnl.c), plain loops
 * (dnn_plain.c).
 */
#ifndef SOFTGPU_DNN_H
#define SOFTGPU_DNN_H

#include "softdnn.h"

enum dnn_pass { DNN_FORWARD, DNN_BACKWARD_DATA, DNN_BACKWARD_FILTER };

/* x [n][h][w][c], filter [k][r][s][c], y [n][out_h][out_w][k] at kernel addresses. The pass writes y, x or the filter
 * and reads the other two; the gradient of the filter is always fp32. */
struct dnn_convolution {
    void *x, *filter, *y;
    enum dnn_pass pass;
    softDnnDataType_t type;
    int n, h, w, c, k, r, s, out_h, out_w;
    int pad_h, pad_w, stride_h, stride_w;
};

/* A way to compute convolutions. Both functions are called from any thread. */
struct dnn_engine {
    const char *name;
    bool (*supports)(softDnnDataType_t type);
    /* In the calling thread alone. Returns NULL, or what failed (static storage). */
    const char *(*run)(const struct dnn_convolution *convolution);
};

extern const struct dnn_engine dnn_plain; /* all types, converted to fp32 and back */
#if HAVE_DNNL
extern const struct dnn_engine dnn_dnnl; /* fp32, and bf16 where the processor has it */
#endif

static inline size_t dnn_type_size(softDnnDataType_t type)
{
    return type == SOFTDNN_DATA_FLOAT ? 4 : 2;
}

static inline size_t dnn_x_count(const struct dnn_convolution *p)
{
    return (size_t)p->n * (size_t)p->h * (size_t)p->w * (size_t)p->c;
}
static inline size_t dnn_y_count(const struct dnn_convolution *p)
{
    return (size_t)p->n * (size_t)p->out_h * (size_t)p->out_w * (size_t)p->k;
}
static inline size_t dnn_filter_count(const struct dnn_convolution *p)
{
    return (size_t)p->k * (size_t)p->r * (size_t)p->s * (size_t)p->c;
}

#endif
