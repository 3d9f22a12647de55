/* SPDX-License-Identifier: MIT
 *
 * CUDA's names on the soft GPU: the names that we use, and no others, one a line. A name missing here is a name that
 * the project does not use; add it here, in softgpu.h and in tests/softgpu/api_names.h together.
 */
#ifndef GPU_VENDORS_SOFT_H
#define GPU_VENDORS_SOFT_H

#include "config.h"

#include "../../softgpu/softdnn.h"
#include "../../softgpu/softgpu.h"

#define GPU_VENDOR_NAME "soft"

/* runtime: types and constants */
#define cudaError_t softError_t
#define cudaSuccess softSuccess
#define cudaErrorInvalidValue softErrorInvalidValue
#define cudaErrorMemoryAllocation softErrorMemoryAllocation
#define cudaErrorInvalidDevicePointer softErrorInvalidDevicePointer
#define cudaErrorNoDevice softErrorNoDevice
#define cudaErrorInvalidDevice softErrorInvalidDevice
#define cudaErrorInvalidResourceHandle softErrorInvalidResourceHandle
#define cudaErrorNotReady softErrorNotReady
#define cudaErrorIllegalAddress softErrorIllegalAddress
#define cudaErrorPeerAccessAlreadyEnabled softErrorPeerAccessAlreadyEnabled
#define cudaErrorPeerAccessNotEnabled softErrorPeerAccessNotEnabled
#define cudaErrorLaunchTimeout softErrorLaunchTimeout
#define cudaErrorLaunchFailure softErrorLaunchFailure
#define cudaErrorNotSupported softErrorNotSupported
#define cudaErrorUnknown softErrorUnknown
#define cudaDeviceProp softDeviceProp
#define cudaMemcpyKind softMemcpyKind
#define cudaMemcpyHostToDevice softMemcpyHostToDevice
#define cudaMemcpyDeviceToHost softMemcpyDeviceToHost
#define cudaMemcpyDeviceToDevice softMemcpyDeviceToDevice
#define cudaMemAttachGlobal softMemAttachGlobal
#define cudaStream_t softStream_t
#define cudaEvent_t softEvent_t
#define cudaStreamNonBlocking softStreamNonBlocking
#define cudaEventDefault softEventDefault
#define cudaEventBlockingSync softEventBlockingSync
#define cudaEventDisableTiming softEventDisableTiming

/* runtime: functions */
#define cudaGetErrorName softGetErrorName
#define cudaGetErrorString softGetErrorString
#define cudaGetLastError softGetLastError
#define cudaPeekAtLastError softPeekAtLastError
#define cudaGetDeviceCount softGetDeviceCount
#define cudaSetDevice softSetDevice
#define cudaGetDevice softGetDevice
#define cudaGetDeviceProperties softGetDeviceProperties
#define cudaDeviceSynchronize softDeviceSynchronize
#define cudaDeviceCanAccessPeer softDeviceCanAccessPeer
#define cudaDeviceEnablePeerAccess softDeviceEnablePeerAccess
#define cudaMemGetInfo softMemGetInfo
#define cudaMalloc softMalloc
#define cudaFree softFree
#define cudaMallocHost softMallocHost
#define cudaFreeHost softFreeHost
#define cudaMallocManaged softMallocManaged
#define cudaMemcpyAsync softMemcpyAsync
#define cudaMemcpyPeerAsync softMemcpyPeerAsync
#define cudaMemsetAsync softMemsetAsync
#define cudaStreamCreateWithFlags softStreamCreateWithFlags
#define cudaStreamDestroy softStreamDestroy
#define cudaStreamSynchronize softStreamSynchronize
#define cudaStreamQuery softStreamQuery
#define cudaEventCreateWithFlags softEventCreateWithFlags
#define cudaEventDestroy softEventDestroy
#define cudaEventRecord softEventRecord
#define cudaEventSynchronize softEventSynchronize
#define cudaEventQuery softEventQuery
#define cudaEventElapsedTime softEventElapsedTime
#define nvtxRangePushA softRangePush
#define nvtxRangePop softRangePop

/* A test build can leave out one wait, named by its place ("reducer.c:120"), to see that the thread sanitizer misses
 * it: every wait of the trainers must be needed. */
#ifdef SOFTGPU_SKIP_WAITS
softError_t softStreamWaitEventAt(softStream_t stream, softEvent_t event, unsigned flags, const char *file, int line);
#define cudaStreamWaitEvent(stream, event, flags) softStreamWaitEventAt(stream, event, flags, __FILE__, __LINE__)
#else
#define cudaStreamWaitEvent softStreamWaitEvent
#endif

/* cuBLAS */
#define cublasHandle_t softBlasHandle_t
#define cublasStatus_t softBlasStatus_t
#define CUBLAS_STATUS_SUCCESS SOFTBLAS_STATUS_SUCCESS
#define CUBLAS_STATUS_INVALID_VALUE SOFTBLAS_STATUS_INVALID_VALUE
#define CUBLAS_STATUS_NOT_SUPPORTED SOFTBLAS_STATUS_NOT_SUPPORTED
#define cublasOperation_t softBlasOperation_t
#define CUBLAS_OP_N SOFTBLAS_OP_N
#define CUBLAS_OP_T SOFTBLAS_OP_T
#define cudaDataType_t softDataType_t
#define CUDA_R_32F SOFT_R_32F
#define CUDA_R_16F SOFT_R_16F
#define CUDA_R_16BF SOFT_R_16BF
#define cublasComputeType_t softBlasComputeType_t
#define CUBLAS_COMPUTE_32F SOFTBLAS_COMPUTE_32F
#define cublasGemmAlgo_t softBlasGemmAlgo_t
#define CUBLAS_GEMM_DEFAULT SOFTBLAS_GEMM_DEFAULT
#define cublasCreate softBlasCreate
#define cublasDestroy softBlasDestroy
#define cublasSetStream softBlasSetStream
#define cublasGetStatusString softBlasGetStatusString
#define cublasGemmEx softBlasGemmEx
#define cublasGemmStridedBatchedEx softBlasGemmStridedBatchedEx

/* cuDNN: convolutions, NHWC; -Dcudnn=disabled: not used, as on a machine that has none */
#define GPU_HAS_CUDNN SOFT_HAS_CUDNN
#define cudnnHandle_t softDnnHandle_t
#define cudnnStatus_t softDnnStatus_t
#define CUDNN_STATUS_SUCCESS SOFTDNN_STATUS_SUCCESS
#define CUDNN_STATUS_BAD_PARAM SOFTDNN_STATUS_BAD_PARAM
#define CUDNN_STATUS_NOT_SUPPORTED SOFTDNN_STATUS_NOT_SUPPORTED
#define cudnnDataType_t softDnnDataType_t
#define CUDNN_DATA_FLOAT SOFTDNN_DATA_FLOAT
#define CUDNN_DATA_HALF SOFTDNN_DATA_HALF
#define CUDNN_DATA_BFLOAT16 SOFTDNN_DATA_BFLOAT16
#define cudnnTensorFormat_t softDnnTensorFormat_t
#define CUDNN_TENSOR_NCHW SOFTDNN_TENSOR_NCHW
#define CUDNN_TENSOR_NHWC SOFTDNN_TENSOR_NHWC
#define cudnnConvolutionMode_t softDnnConvolutionMode_t
#define CUDNN_CROSS_CORRELATION SOFTDNN_CROSS_CORRELATION
#define cudnnConvolutionFwdAlgo_t softDnnForwardAlgo_t
#define CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM SOFTDNN_FORWARD_ALGO_1
#define cudnnConvolutionBwdDataAlgo_t softDnnDataAlgo_t
#define CUDNN_CONVOLUTION_BWD_DATA_ALGO_1 SOFTDNN_DATA_ALGO_1
#define cudnnConvolutionBwdFilterAlgo_t softDnnFilterAlgo_t
#define CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 SOFTDNN_FILTER_ALGO_1
#define cudnnTensorDescriptor_t softDnnTensorDescriptor_t
#define cudnnFilterDescriptor_t softDnnFilterDescriptor_t
#define cudnnConvolutionDescriptor_t softDnnConvolutionDescriptor_t
#define cudnnGetErrorString softDnnGetErrorString
#define cudnnCreate softDnnCreate
#define cudnnDestroy softDnnDestroy
#define cudnnSetStream softDnnSetStream
#define cudnnCreateTensorDescriptor softDnnCreateTensorDescriptor
#define cudnnSetTensor4dDescriptor softDnnSetTensor4dDescriptor
#define cudnnDestroyTensorDescriptor softDnnDestroyTensorDescriptor
#define cudnnCreateFilterDescriptor softDnnCreateFilterDescriptor
#define cudnnSetFilter4dDescriptor softDnnSetFilter4dDescriptor
#define cudnnDestroyFilterDescriptor softDnnDestroyFilterDescriptor
#define cudnnCreateConvolutionDescriptor softDnnCreateConvolutionDescriptor
#define cudnnSetConvolution2dDescriptor softDnnSetConvolution2dDescriptor
#define cudnnDestroyConvolutionDescriptor softDnnDestroyConvolutionDescriptor
#define cudnnConvolutionForward softDnnConvolutionForward
#define cudnnConvolutionBackwardData softDnnConvolutionBackwardData
#define cudnnConvolutionBackwardFilter softDnnConvolutionBackwardFilter
#define cudnnGetConvolutionForwardWorkspaceSize softDnnGetForwardWorkspaceSize
#define cudnnGetConvolutionBackwardDataWorkspaceSize softDnnGetDataWorkspaceSize
#define cudnnGetConvolutionBackwardFilterWorkspaceSize softDnnGetFilterWorkspaceSize

/* NCCL */
#define NCCL_UNIQUE_ID_BYTES SOFTNCCL_UNIQUE_ID_BYTES
#define ncclUniqueId softNcclUniqueId
#define ncclComm_t softNcclComm_t
#define ncclResult_t softNcclResult_t
#define ncclSuccess softNcclSuccess
#define ncclUnhandledCudaError softNcclUnhandledCudaError
#define ncclSystemError softNcclSystemError
#define ncclInternalError softNcclInternalError
#define ncclInvalidArgument softNcclInvalidArgument
#define ncclInvalidUsage softNcclInvalidUsage
#define ncclRemoteError softNcclRemoteError
#define ncclInProgress softNcclInProgress
#define ncclDataType_t softNcclDataType_t
#define ncclInt8 softNcclInt8
#define ncclUint8 softNcclUint8
#define ncclInt32 softNcclInt32
#define ncclUint32 softNcclUint32
#define ncclInt64 softNcclInt64
#define ncclUint64 softNcclUint64
#define ncclFloat16 softNcclFloat16
#define ncclFloat32 softNcclFloat32
#define ncclFloat64 softNcclFloat64
#define ncclBfloat16 softNcclBfloat16
#define ncclRedOp_t softNcclRedOp_t
#define ncclSum softNcclSum
#define ncclProd softNcclProd
#define ncclMax softNcclMax
#define ncclMin softNcclMin
#define ncclGetUniqueId softNcclGetUniqueId
#define ncclCommInitRank softNcclCommInitRank
#define ncclCommInitAll softNcclCommInitAll
#define ncclCommDestroy softNcclCommDestroy
#define ncclCommAbort softNcclCommAbort
#define ncclCommGetAsyncError softNcclCommGetAsyncError
#define ncclCommCount softNcclCommCount
#define ncclCommUserRank softNcclCommUserRank
#define ncclGetErrorString softNcclGetErrorString
#define ncclGetLastError softNcclGetLastError
#define ncclGroupStart softNcclGroupStart
#define ncclGroupEnd softNcclGroupEnd
#define ncclAllReduce softNcclAllReduce
#define ncclBroadcast softNcclBroadcast
#define ncclReduce softNcclReduce
#define ncclAllGather softNcclAllGather
#define ncclReduceScatter softNcclReduceScatter

#endif
