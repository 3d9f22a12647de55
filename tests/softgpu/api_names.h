/* SPDX-License-Identifier: MIT
 *
 * One list of the names that host code uses, with CUDA's, cuBLAS's and NCCL's prototypes. api.c is compiled with it
 * against vendors/soft.h and against the toolkit's own headers: a name that one of the two does not have, another
 * parameter, or another number stops the build. API(result, name, parameters); NUMBER(name, value).
 */
#ifndef API
#error "define API and NUMBER"
#endif

/* runtime: errors */
API(const char *, cudaGetErrorName, (cudaError_t))
API(const char *, cudaGetErrorString, (cudaError_t))
API(cudaError_t, cudaGetLastError, (void))
API(cudaError_t, cudaPeekAtLastError, (void))
NUMBER(cudaSuccess, 0)
NUMBER(cudaErrorInvalidValue, 1)
NUMBER(cudaErrorMemoryAllocation, 2)
NUMBER(cudaErrorInvalidDevicePointer, 17)
NUMBER(cudaErrorNoDevice, 100)
NUMBER(cudaErrorInvalidDevice, 101)
NUMBER(cudaErrorInvalidResourceHandle, 400)
NUMBER(cudaErrorNotReady, 600)
NUMBER(cudaErrorIllegalAddress, 700)
NUMBER(cudaErrorPeerAccessAlreadyEnabled, 704)
NUMBER(cudaErrorPeerAccessNotEnabled, 705)
NUMBER(cudaErrorLaunchTimeout, 702)
NUMBER(cudaErrorLaunchFailure, 719)
NUMBER(cudaErrorNotSupported, 801)
NUMBER(cudaErrorUnknown, 999)

/* runtime: devices */
API(cudaError_t, cudaGetDeviceCount, (int *))
API(cudaError_t, cudaSetDevice, (int))
API(cudaError_t, cudaGetDevice, (int *))
API(cudaError_t, cudaGetDeviceProperties, (struct cudaDeviceProp *, int))
API(cudaError_t, cudaDeviceSynchronize, (void))
API(cudaError_t, cudaDeviceCanAccessPeer, (int *, int, int))
API(cudaError_t, cudaDeviceEnablePeerAccess, (int, unsigned))
API(cudaError_t, cudaMemGetInfo, (size_t *, size_t *))

/* runtime: memory */
API(cudaError_t, cudaMalloc, (void **, size_t))
API(cudaError_t, cudaFree, (void *))
API(cudaError_t, cudaMallocHost, (void **, size_t))
API(cudaError_t, cudaFreeHost, (void *))
API(cudaError_t, cudaMallocManaged, (void **, size_t, unsigned))
API(cudaError_t, cudaMemcpyAsync, (void *, const void *, size_t, enum cudaMemcpyKind, cudaStream_t))
API(cudaError_t, cudaMemcpyPeerAsync, (void *, int, const void *, int, size_t, cudaStream_t))
API(cudaError_t, cudaMemsetAsync, (void *, int, size_t, cudaStream_t))
NUMBER(cudaMemcpyHostToDevice, 1)
NUMBER(cudaMemcpyDeviceToHost, 2)
NUMBER(cudaMemcpyDeviceToDevice, 3)
NUMBER(cudaMemAttachGlobal, 1)

/* runtime: streams and events */
API(cudaError_t, cudaStreamCreateWithFlags, (cudaStream_t *, unsigned))
API(cudaError_t, cudaStreamDestroy, (cudaStream_t))
API(cudaError_t, cudaStreamSynchronize, (cudaStream_t))
API(cudaError_t, cudaStreamQuery, (cudaStream_t))
#ifndef SOFTGPU_SKIP_WAITS /* there it is a macro that knows its place */
API(cudaError_t, cudaStreamWaitEvent, (cudaStream_t, cudaEvent_t, unsigned))
#endif
API(cudaError_t, cudaEventCreateWithFlags, (cudaEvent_t *, unsigned))
API(cudaError_t, cudaEventDestroy, (cudaEvent_t))
API(cudaError_t, cudaEventRecord, (cudaEvent_t, cudaStream_t))
API(cudaError_t, cudaEventSynchronize, (cudaEvent_t))
API(cudaError_t, cudaEventQuery, (cudaEvent_t))
API(cudaError_t, cudaEventElapsedTime, (float *, cudaEvent_t, cudaEvent_t))
NUMBER(cudaStreamNonBlocking, 1)
NUMBER(cudaEventDefault, 0)
NUMBER(cudaEventBlockingSync, 1)
NUMBER(cudaEventDisableTiming, 2)

/* NVTX */
API(int, nvtxRangePushA, (const char *))
API(int, nvtxRangePop, (void))

/* cuBLAS */
API(cublasStatus_t, cublasCreate, (cublasHandle_t *))
API(cublasStatus_t, cublasDestroy, (cublasHandle_t))
API(cublasStatus_t, cublasSetStream, (cublasHandle_t, cudaStream_t))
API(const char *, cublasGetStatusString, (cublasStatus_t))
API(cublasStatus_t, cublasGemmEx,
    (cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const void *, const void *, cudaDataType_t,
     int, const void *, cudaDataType_t, int, const void *, void *, cudaDataType_t, int, cublasComputeType_t,
     cublasGemmAlgo_t))
API(cublasStatus_t, cublasGemmStridedBatchedEx,
    (cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const void *, const void *, cudaDataType_t,
     int, long long, const void *, cudaDataType_t, int, long long, const void *, void *, cudaDataType_t, int, long long,
     int, cublasComputeType_t, cublasGemmAlgo_t))
NUMBER(CUBLAS_STATUS_SUCCESS, 0)
NUMBER(CUBLAS_STATUS_INVALID_VALUE, 7)
NUMBER(CUBLAS_STATUS_NOT_SUPPORTED, 15)
NUMBER(CUBLAS_OP_N, 0)
NUMBER(CUBLAS_OP_T, 1)
NUMBER(CUDA_R_32F, 0)
NUMBER(CUDA_R_16F, 2)
NUMBER(CUDA_R_16BF, 14)
NUMBER(CUBLAS_COMPUTE_32F, 68)
NUMBER(CUBLAS_GEMM_DEFAULT, -1)

#if GPU_HAS_CUDNN
/* cuDNN */
API(const char *, cudnnGetErrorString, (cudnnStatus_t))
API(cudnnStatus_t, cudnnCreate, (cudnnHandle_t *))
API(cudnnStatus_t, cudnnDestroy, (cudnnHandle_t))
API(cudnnStatus_t, cudnnSetStream, (cudnnHandle_t, cudaStream_t))
API(cudnnStatus_t, cudnnCreateTensorDescriptor, (cudnnTensorDescriptor_t *))
API(cudnnStatus_t, cudnnSetTensor4dDescriptor, (cudnnTensorDescriptor_t, cudnnTensorFormat_t, cudnnDataType_t, int, int, int, int))
API(cudnnStatus_t, cudnnDestroyTensorDescriptor, (cudnnTensorDescriptor_t))
API(cudnnStatus_t, cudnnCreateFilterDescriptor, (cudnnFilterDescriptor_t *))
API(cudnnStatus_t, cudnnSetFilter4dDescriptor, (cudnnFilterDescriptor_t, cudnnDataType_t, cudnnTensorFormat_t, int, int, int, int))
API(cudnnStatus_t, cudnnDestroyFilterDescriptor, (cudnnFilterDescriptor_t))
API(cudnnStatus_t, cudnnCreateConvolutionDescriptor, (cudnnConvolutionDescriptor_t *))
API(cudnnStatus_t, cudnnSetConvolution2dDescriptor,
    (cudnnConvolutionDescriptor_t, int, int, int, int, int, int, cudnnConvolutionMode_t, cudnnDataType_t))
API(cudnnStatus_t, cudnnDestroyConvolutionDescriptor, (cudnnConvolutionDescriptor_t))
API(cudnnStatus_t, cudnnGetConvolutionForwardWorkspaceSize,
    (cudnnHandle_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t, cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t, cudnnConvolutionFwdAlgo_t,
     size_t *))
API(cudnnStatus_t, cudnnGetConvolutionBackwardDataWorkspaceSize,
    (cudnnHandle_t, cudnnFilterDescriptor_t, cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t, cudnnConvolutionBwdDataAlgo_t,
     size_t *))
API(cudnnStatus_t, cudnnGetConvolutionBackwardFilterWorkspaceSize,
    (cudnnHandle_t, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t, cudnnFilterDescriptor_t, cudnnConvolutionBwdFilterAlgo_t,
     size_t *))
API(cudnnStatus_t, cudnnConvolutionForward,
    (cudnnHandle_t, const void *, cudnnTensorDescriptor_t, const void *, cudnnFilterDescriptor_t, const void *, cudnnConvolutionDescriptor_t,
     cudnnConvolutionFwdAlgo_t, void *, size_t, const void *, cudnnTensorDescriptor_t, void *))
API(cudnnStatus_t, cudnnConvolutionBackwardData,
    (cudnnHandle_t, const void *, cudnnFilterDescriptor_t, const void *, cudnnTensorDescriptor_t, const void *, cudnnConvolutionDescriptor_t,
     cudnnConvolutionBwdDataAlgo_t, void *, size_t, const void *, cudnnTensorDescriptor_t, void *))
API(cudnnStatus_t, cudnnConvolutionBackwardFilter,
    (cudnnHandle_t, const void *, cudnnTensorDescriptor_t, const void *, cudnnTensorDescriptor_t, const void *, cudnnConvolutionDescriptor_t,
     cudnnConvolutionBwdFilterAlgo_t, void *, size_t, const void *, cudnnFilterDescriptor_t, void *))
NUMBER(CUDNN_STATUS_SUCCESS, 0)
NUMBER(CUDNN_DATA_FLOAT, 0)
NUMBER(CUDNN_DATA_HALF, 2)
NUMBER(CUDNN_DATA_BFLOAT16, 9)
NUMBER(CUDNN_TENSOR_NCHW, 0)
NUMBER(CUDNN_TENSOR_NHWC, 1)
NUMBER(CUDNN_CROSS_CORRELATION, 1)
NUMBER(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, 1)
NUMBER(CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, 1)
NUMBER(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, 1)
#if !defined(CUDNN_MAJOR) || CUDNN_MAJOR >= 9 /* numbered anew */
NUMBER(CUDNN_STATUS_BAD_PARAM, 2000)
NUMBER(CUDNN_STATUS_NOT_SUPPORTED, 3000)
#endif
#endif

/* NCCL */
API(ncclResult_t, ncclGetUniqueId, (ncclUniqueId *))
API(ncclResult_t, ncclCommInitRank, (ncclComm_t *, int, ncclUniqueId, int))
API(ncclResult_t, ncclCommInitAll, (ncclComm_t *, int, const int *))
API(ncclResult_t, ncclCommDestroy, (ncclComm_t))
API(ncclResult_t, ncclCommAbort, (ncclComm_t))
API(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t, ncclResult_t *))
API(ncclResult_t, ncclCommCount, (ncclComm_t, int *))
API(ncclResult_t, ncclCommUserRank, (ncclComm_t, int *))
API(const char *, ncclGetErrorString, (ncclResult_t))
API(const char *, ncclGetLastError, (ncclComm_t))
API(ncclResult_t, ncclGroupStart, (void))
API(ncclResult_t, ncclGroupEnd, (void))
API(ncclResult_t, ncclAllReduce, (const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t))
API(ncclResult_t, ncclBroadcast, (const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t))
API(ncclResult_t, ncclReduce,
    (const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t, cudaStream_t))
API(ncclResult_t, ncclAllGather, (const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t))
API(ncclResult_t, ncclReduceScatter,
    (const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t))
NUMBER(NCCL_UNIQUE_ID_BYTES, 128)
NUMBER(ncclSuccess, 0)
NUMBER(ncclUnhandledCudaError, 1)
NUMBER(ncclSystemError, 2)
NUMBER(ncclInternalError, 3)
NUMBER(ncclInvalidArgument, 4)
NUMBER(ncclInvalidUsage, 5)
NUMBER(ncclRemoteError, 6)
NUMBER(ncclInProgress, 7)
NUMBER(ncclInt8, 0)
NUMBER(ncclUint8, 1)
NUMBER(ncclInt32, 2)
NUMBER(ncclUint32, 3)
NUMBER(ncclInt64, 4)
NUMBER(ncclUint64, 5)
NUMBER(ncclFloat16, 6)
NUMBER(ncclFloat32, 7)
NUMBER(ncclFloat64, 8)
NUMBER(ncclBfloat16, 9)
NUMBER(ncclSum, 0)
NUMBER(ncclProd, 1)
NUMBER(ncclMax, 2)
NUMBER(ncclMin, 3)
