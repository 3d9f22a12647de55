/* SPDX-License-Identifier: MIT
 *
 * The convolution layer: square windows, NHWC, no bias. Two ways, of which a build has one per vendor: cuDNN's names
 * (convolution_cudnn.c), or im2col and cuBLAS (convolution_im2col.c). Tensors: x [batch][height][height][in],
 * filter [out][kernel][kernel][in] = parameter `weight`, y [batch][out_height][out_height][out].
 */
#ifndef NN_CONVOLUTION_H
#define NN_CONVOLUTION_H

#include "nn/layers.h"

struct convolution_shape {
    size_t in, out, kernel, stride, height, out_height; /* padding: kernel / 2 */
    int weight;
};

static inline size_t convolution_out_height(size_t height, size_t kernel, size_t stride)
{
    return (height + kernel / 2 * 2 - kernel) / stride + 1;
}

struct convolution {
    struct convolution_shape shape;
#if GPU_HAS_CUDNN
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t filter;
    cudnnConvolutionDescriptor_t by;
    size_t batch; /* that x and y describe */
#else
    size_t piece; /* images whose patches are made at once */
#endif
};

/* What a model's convolutions share. */
struct convolution_room {
    void *workspace; /* device: enough for each of them */
    size_t workspace_bytes;
#if GPU_HAS_CUDNN
    cudnnHandle_t handle; /* on the replica's compute stream */
#else
    size_t sums_bytes; /* the workspace begins with a filter's gradient in fp32; patches follow */
#endif
};

int convolution_room_open(struct convolution_room *room, const struct replica *replica);
void convolution_room_close(struct convolution_room *room); /* a zeroed one is allowed */

/* Makes what the way needs and lets room->workspace_bytes grow to what a batch of replica->batch_max needs; the caller
 * allocates it when all are open. shape stays as it is. */
int convolution_open(struct convolution *convolution, struct convolution_room *room, const struct replica *replica);
void convolution_close(struct convolution *convolution);

/* A batch of 0 enqueues nothing. */
int convolution_forward(struct convolution *convolution, const struct convolution_room *room,
                        const struct replica *replica, void *y, const void *x, size_t batch);
/* The filter's gradient, and ready. */
int convolution_backward_filter(struct convolution *convolution, const struct convolution_room *room,
                                const struct backward *pass, const void *dy, const void *x);
int convolution_backward_data(struct convolution *convolution, const struct convolution_room *room,
                              const struct backward *pass, void *dx, const void *dy);

#endif
