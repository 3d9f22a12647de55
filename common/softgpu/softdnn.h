/* SPDX-License-Identifier: MIT
 *
 * cuDNN's convolution on the soft GPU: the few names of cuDNN's version 7 interface (which later ones still have) that
 * convolutions need. common/gpu/vendors/soft.h maps cuDNN's names here; numbers are cuDNN's.
 *
 * Layout NHWC only: tensors [n][h][w][c], filters [k][r][s][c] (k outputs, r x s window, c inputs), dense. What is not
 * NHWC, dilated, or a true convolution instead of a cross-correlation is refused with SOFTDNN_STATUS_NOT_SUPPORTED.
 */
#ifndef SOFTDNN_H
#define SOFTDNN_H

#include "softgpu.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum softDnnStatus {
    SOFTDNN_STATUS_SUCCESS = 0,
    SOFTDNN_STATUS_NOT_INITIALIZED = 1001,
    SOFTDNN_STATUS_BAD_PARAM = 2000,
    SOFTDNN_STATUS_NOT_SUPPORTED = 3000,
    SOFTDNN_STATUS_INTERNAL_ERROR = 4000,
    SOFTDNN_STATUS_EXECUTION_FAILED = 5000,
} softDnnStatus_t;

typedef enum softDnnDataType { SOFTDNN_DATA_FLOAT = 0, SOFTDNN_DATA_HALF = 2, SOFTDNN_DATA_BFLOAT16 = 9 } softDnnDataType_t;
typedef enum softDnnTensorFormat { SOFTDNN_TENSOR_NCHW = 0, SOFTDNN_TENSOR_NHWC = 1 } softDnnTensorFormat_t;
typedef enum softDnnConvolutionMode { SOFTDNN_CONVOLUTION = 0, SOFTDNN_CROSS_CORRELATION = 1 } softDnnConvolutionMode_t;
typedef enum softDnnForwardAlgo { SOFTDNN_FORWARD_ALGO_1 = 1 } softDnnForwardAlgo_t;
typedef enum softDnnDataAlgo { SOFTDNN_DATA_ALGO_1 = 1 } softDnnDataAlgo_t;
typedef enum softDnnFilterAlgo { SOFTDNN_FILTER_ALGO_1 = 1 } softDnnFilterAlgo_t;

typedef struct softDnn *softDnnHandle_t;
typedef struct softDnnTensor *softDnnTensorDescriptor_t;
typedef struct softDnnFilter *softDnnFilterDescriptor_t;
typedef struct softDnnConvolution *softDnnConvolutionDescriptor_t;

const char *softDnnGetErrorString(softDnnStatus_t status);
softDnnStatus_t softDnnCreate(softDnnHandle_t *handle);
softDnnStatus_t softDnnDestroy(softDnnHandle_t handle);
softDnnStatus_t softDnnSetStream(softDnnHandle_t handle, softStream_t stream);

softDnnStatus_t softDnnCreateTensorDescriptor(softDnnTensorDescriptor_t *tensor);
softDnnStatus_t softDnnSetTensor4dDescriptor(softDnnTensorDescriptor_t tensor, softDnnTensorFormat_t format,
                                             softDnnDataType_t type, int n, int c, int h, int w);
softDnnStatus_t softDnnDestroyTensorDescriptor(softDnnTensorDescriptor_t tensor);
softDnnStatus_t softDnnCreateFilterDescriptor(softDnnFilterDescriptor_t *filter);
softDnnStatus_t softDnnSetFilter4dDescriptor(softDnnFilterDescriptor_t filter, softDnnDataType_t type,
                                             softDnnTensorFormat_t format, int k, int c, int h, int w);
softDnnStatus_t softDnnDestroyFilterDescriptor(softDnnFilterDescriptor_t filter);
softDnnStatus_t softDnnCreateConvolutionDescriptor(softDnnConvolutionDescriptor_t *convolution);
softDnnStatus_t softDnnSetConvolution2dDescriptor(softDnnConvolutionDescriptor_t convolution, int pad_h, int pad_w,
                                                  int stride_h, int stride_w, int dilation_h, int dilation_w,
                                                  softDnnConvolutionMode_t mode, softDnnDataType_t compute);
softDnnStatus_t softDnnDestroyConvolutionDescriptor(softDnnConvolutionDescriptor_t convolution);

/* Bytes of device memory that the call of the same shape needs. Forward and data: 0. Filter: the parts of the batch
 * each have a sum of their own there, in fp32. */
softDnnStatus_t softDnnGetForwardWorkspaceSize(softDnnHandle_t handle, softDnnTensorDescriptor_t x,
                                               softDnnFilterDescriptor_t w, softDnnConvolutionDescriptor_t convolution,
                                               softDnnTensorDescriptor_t y, softDnnForwardAlgo_t algorithm,
                                               size_t *bytes);
softDnnStatus_t softDnnGetDataWorkspaceSize(softDnnHandle_t handle, softDnnFilterDescriptor_t w,
                                            softDnnTensorDescriptor_t dy, softDnnConvolutionDescriptor_t convolution,
                                            softDnnTensorDescriptor_t dx, softDnnDataAlgo_t algorithm, size_t *bytes);
softDnnStatus_t softDnnGetFilterWorkspaceSize(softDnnHandle_t handle, softDnnTensorDescriptor_t x,
                                              softDnnTensorDescriptor_t dy, softDnnConvolutionDescriptor_t convolution,
                                              softDnnFilterDescriptor_t dw, softDnnFilterAlgo_t algorithm,
                                              size_t *bytes);

/* y = convolution of x with w; dx, dw: the gradients. alpha must be 1; beta 0, for dw 0 or 1 (added to). A sum over the
 * batch has an order that depends on the shape alone. */
softDnnStatus_t softDnnConvolutionForward(softDnnHandle_t handle, const void *alpha, softDnnTensorDescriptor_t x_shape,
                                          const void *x, softDnnFilterDescriptor_t w_shape, const void *w,
                                          softDnnConvolutionDescriptor_t convolution, softDnnForwardAlgo_t algorithm,
                                          void *workspace, size_t workspace_bytes, const void *beta,
                                          softDnnTensorDescriptor_t y_shape, void *y);
softDnnStatus_t softDnnConvolutionBackwardData(softDnnHandle_t handle, const void *alpha,
                                               softDnnFilterDescriptor_t w_shape, const void *w,
                                               softDnnTensorDescriptor_t dy_shape, const void *dy,
                                               softDnnConvolutionDescriptor_t convolution, softDnnDataAlgo_t algorithm,
                                               void *workspace, size_t workspace_bytes, const void *beta,
                                               softDnnTensorDescriptor_t dx_shape, void *dx);
softDnnStatus_t softDnnConvolutionBackwardFilter(softDnnHandle_t handle, const void *alpha,
                                                 softDnnTensorDescriptor_t x_shape, const void *x,
                                                 softDnnTensorDescriptor_t dy_shape, const void *dy,
                                                 softDnnConvolutionDescriptor_t convolution,
                                                 softDnnFilterAlgo_t algorithm, void *workspace,
                                                 size_t workspace_bytes, const void *beta,
                                                 softDnnFilterDescriptor_t dw_shape, void *dw);

#ifdef __cplusplus
}
#endif
#endif
