/* SPDX-License-Identifier: MIT
 *
 * Convolutions by cuDNN's names: on a GPU cuDNN's, on a soft GPU oneDNN's primitives (common/softgpu/dnn.c). The
 * algorithms are the ones that are deterministic and know NHWC.
 */
#include "nn/convolution.h"

#include "sys/exit_codes.h"

#define FORWARD CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM
#define DATA CUDNN_CONVOLUTION_BWD_DATA_ALGO_1
#define FILTER CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1

static const float one = 1, zero = 0;

int convolution_room_open(struct convolution_room *room, const struct replica *replica)
{
    GPU_TRY(cudnnCreate(&room->handle));
    GPU_TRY(cudnnSetStream(room->handle, replica->compute));
    return EXIT_OK;
}

void convolution_room_close(struct convolution_room *room)
{
    if (room->handle)
        (void)cudnnDestroy(room->handle);
    room->handle = NULL;
}

/* Tells the descriptors the batch. */
static int describe_batch(struct convolution *c, cudnnDataType_t type, size_t batch)
{
    const struct convolution_shape *s = &c->shape;

    if (batch == c->batch)
        return EXIT_OK;
    GPU_TRY(cudnnSetTensor4dDescriptor(c->x, CUDNN_TENSOR_NHWC, type, (int)batch, (int)s->in, (int)s->height,
                                       (int)s->height));
    GPU_TRY(cudnnSetTensor4dDescriptor(c->y, CUDNN_TENSOR_NHWC, type, (int)batch, (int)s->out, (int)s->out_height,
                                       (int)s->out_height));
    c->batch = batch;
    return EXIT_OK;
}

static int describe(struct convolution *c, cudnnDataType_t type, size_t batch)
{
    const struct convolution_shape *s = &c->shape;
    int padding = (int)s->kernel / 2, stride = (int)s->stride;

    GPU_TRY(cudnnCreateTensorDescriptor(&c->x));
    GPU_TRY(cudnnCreateTensorDescriptor(&c->y));
    GPU_TRY(cudnnCreateFilterDescriptor(&c->filter));
    GPU_TRY(cudnnCreateConvolutionDescriptor(&c->by));
    GPU_TRY(cudnnSetFilter4dDescriptor(c->filter, type, CUDNN_TENSOR_NHWC, (int)s->out, (int)s->in, (int)s->kernel,
                                       (int)s->kernel));
    GPU_TRY(cudnnSetConvolution2dDescriptor(c->by, padding, padding, stride, stride, 1, 1, CUDNN_CROSS_CORRELATION,
                                            CUDNN_DATA_FLOAT));
    return describe_batch(c, type, batch);
}

int convolution_open(struct convolution *c, struct convolution_room *room, const struct replica *replica)
{
    size_t bytes[3] = {0};

    if (replica->batch_max == 0)
        return EXIT_OK;
    TRY(describe(c, element_cudnn_type(replica_type(replica)), replica->batch_max));
    GPU_TRY(cudnnGetConvolutionForwardWorkspaceSize(room->handle, c->x, c->filter, c->by, c->y, FORWARD, &bytes[0]));
    GPU_TRY(
        cudnnGetConvolutionBackwardDataWorkspaceSize(room->handle, c->filter, c->y, c->by, c->x, DATA, &bytes[1]));
    GPU_TRY(
        cudnnGetConvolutionBackwardFilterWorkspaceSize(room->handle, c->x, c->y, c->by, c->filter, FILTER, &bytes[2]));
    for (int i = 0; i < 3; i++)
        room->workspace_bytes = bytes[i] > room->workspace_bytes ? bytes[i] : room->workspace_bytes;
    return EXIT_OK;
}

void convolution_close(struct convolution *c)
{
    if (c->x)
        (void)cudnnDestroyTensorDescriptor(c->x);
    if (c->y)
        (void)cudnnDestroyTensorDescriptor(c->y);
    if (c->filter)
        (void)cudnnDestroyFilterDescriptor(c->filter);
    if (c->by)
        (void)cudnnDestroyConvolutionDescriptor(c->by);
    *c = (struct convolution){.shape = c->shape};
}

int convolution_forward(struct convolution *c, const struct convolution_room *room, const struct replica *replica,
                        void *y, const void *x, size_t batch)
{
    if (batch == 0)
        return EXIT_OK;
    TRY(describe_batch(c, element_cudnn_type(replica_type(replica)), batch));
    GPU_TRY(cudnnConvolutionForward(room->handle, &one, c->x, x, c->filter, replica_parameter(replica, c->shape.weight),
                                    c->by, FORWARD, room->workspace, room->workspace_bytes, &zero, c->y, y));
    return EXIT_OK;
}

int convolution_backward_filter(struct convolution *c, const struct convolution_room *room, const struct backward *pass,
                                const void *dy, const void *x)
{
    void *gradient = replica_gradient(pass->replica, c->shape.weight);

    if (pass->batch) {
        TRY(describe_batch(c, element_cudnn_type(replica_type(pass->replica)), pass->batch));
        GPU_TRY(cudnnConvolutionBackwardFilter(room->handle, &one, c->x, x, c->y, dy, c->by, FILTER, room->workspace,
                                               room->workspace_bytes, pass->accumulate ? &one : &zero, c->filter,
                                               gradient));
    }
    return backward_ready(pass, c->shape.weight);
}

int convolution_backward_data(struct convolution *c, const struct convolution_room *room, const struct backward *pass,
                              void *dx, const void *dy)
{
    if (pass->batch == 0)
        return EXIT_OK;
    TRY(describe_batch(c, element_cudnn_type(replica_type(pass->replica)), pass->batch));
    GPU_TRY(cudnnConvolutionBackwardData(room->handle, &one, c->filter,
                                         replica_parameter(pass->replica, c->shape.weight), c->y, dy, c->by, DATA,
                                         room->workspace, room->workspace_bytes, &zero, c->x, dx));
    return EXIT_OK;
}
