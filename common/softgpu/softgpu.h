/* SPDX-License-Identifier: MIT
 *
 * The soft GPU: a GPU in software on CPU cores, with CUDA's, cuBLAS's and NCCL's meaning.
 *
 * Names are CUDA's with the prefix `soft`; host code never writes them: common/gpu/vendors/soft.h maps CUDA's
 * own names here. Error codes have CUDA's numbers. What can't be meant the same is refused with CUDA's error
 * code: the default stream (NULL), asynchronous copies of pageable host memory, managed memory.
 *
 * Stricter than CUDA, so that what runs here runs on a GPU:
 *  - device pointers lie in a PROT_NONE range: the host can't touch device memory (SIGSEGV);
 *  - guard bytes stand behind each allocation and are checked at softFree and softDeviceSynchronize;
 *  - each pointer is checked against the current device (or a peer that was enabled) at launch;
 *  - streams are asynchronous threads: in order within a stream, unordered between streams but for events.
 */
#ifndef SOFTGPU_H
#define SOFTGPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- CUDA runtime: errors. Numbers are those of cudaError_t. --------------------------------- */

typedef enum softError {
    softSuccess = 0,
    softErrorInvalidValue = 1,
    softErrorMemoryAllocation = 2,
    softErrorInvalidDevicePointer = 17,
    softErrorNoDevice = 100,
    softErrorInvalidDevice = 101,
    softErrorInvalidResourceHandle = 400,
    softErrorNotReady = 600,
    softErrorIllegalAddress = 700,
    softErrorPeerAccessAlreadyEnabled = 704,
    softErrorPeerAccessNotEnabled = 705,
    softErrorLaunchTimeout = 702,
    softErrorLaunchFailure = 719,
    softErrorNotSupported = 801,
    softErrorUnknown = 999,
} softError_t;

const char *softGetErrorName(softError_t error);
const char *softGetErrorString(softError_t error);
softError_t softGetLastError(void);  /* of this thread; clears it */
softError_t softPeekAtLastError(void);

/* ---- devices --------------------------------------------------------------------------------- */

typedef struct softUUID_st { char bytes[16]; } softUUID_t;

struct softDeviceProp {
    char name[256];           /* "soft GPU 0 (1 core)" */
    softUUID_t uuid;
    size_t totalGlobalMem;    /* capacity, bytes */
    int multiProcessorCount;  /* cores */
    int major, minor;         /* 0, 0 */
};

softError_t softGetDeviceCount(int *count);
softError_t softSetDevice(int device);
softError_t softGetDevice(int *device);
softError_t softGetDeviceProperties(struct softDeviceProp *properties, int device);
softError_t softDeviceSynchronize(void);
softError_t softDeviceCanAccessPeer(int *can, int device, int peer);
softError_t softDeviceEnablePeerAccess(int peer, unsigned flags);
softError_t softMemGetInfo(size_t *free_bytes, size_t *total_bytes);

/* ---- memory ---------------------------------------------------------------------------------- */

typedef enum softMemcpyKind {
    softMemcpyHostToHost = 0,
    softMemcpyHostToDevice = 1,
    softMemcpyDeviceToHost = 2,
    softMemcpyDeviceToDevice = 3,
    softMemcpyDefault = 4,
} softMemcpyKind;

#define softMemAttachGlobal 1u

typedef struct softStream *softStream_t;
typedef struct softEvent *softEvent_t;

softError_t softMalloc(void **pointer, size_t bytes);
softError_t softFree(void *pointer);
softError_t softMallocHost(void **pointer, size_t bytes);  /* pinned: the only host memory copies accept */
softError_t softFreeHost(void *pointer);
softError_t softMallocManaged(void **pointer, size_t bytes, unsigned flags);  /* always softErrorNotSupported */
softError_t softMemcpyAsync(void *to, const void *from, size_t bytes, softMemcpyKind kind, softStream_t stream);
softError_t softMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                softStream_t stream);
softError_t softMemsetAsync(void *to, int value, size_t bytes, softStream_t stream);

/* ---- streams and events ---------------------------------------------------------------------- */

#define softStreamNonBlocking 1u
#define softEventDefault 0u
#define softEventBlockingSync 1u
#define softEventDisableTiming 2u

softError_t softStreamCreateWithFlags(softStream_t *stream, unsigned flags);
softError_t softStreamDestroy(softStream_t stream);
softError_t softStreamSynchronize(softStream_t stream);
softError_t softStreamQuery(softStream_t stream);
softError_t softStreamWaitEvent(softStream_t stream, softEvent_t event, unsigned flags);
softError_t softEventCreateWithFlags(softEvent_t *event, unsigned flags);
softError_t softEventDestroy(softEvent_t event);
softError_t softEventRecord(softEvent_t event, softStream_t stream);
softError_t softEventSynchronize(softEvent_t event);
softError_t softEventQuery(softEvent_t event);
softError_t softEventElapsedTime(float *milliseconds, softEvent_t start, softEvent_t end);

/* ---- NVTX: named ranges of the calling thread; each operation enqueued inside carries the innermost name ---- */

int softRangePush(const char *name);  /* the string is copied once (interned) */
int softRangePop(void);

/* ---- cuBLAS ---------------------------------------------------------------------------------- */

typedef struct softBlas *softBlasHandle_t;
typedef enum softBlasStatus {
    SOFTBLAS_STATUS_SUCCESS = 0,
    SOFTBLAS_STATUS_NOT_INITIALIZED = 1,
    SOFTBLAS_STATUS_ALLOC_FAILED = 3,
    SOFTBLAS_STATUS_INVALID_VALUE = 7,
    SOFTBLAS_STATUS_EXECUTION_FAILED = 13,
    SOFTBLAS_STATUS_INTERNAL_ERROR = 14,
    SOFTBLAS_STATUS_NOT_SUPPORTED = 15,
} softBlasStatus_t;
typedef enum softBlasOperation { SOFTBLAS_OP_N = 0, SOFTBLAS_OP_T = 1 } softBlasOperation_t;
typedef enum softDataType { SOFT_R_32F = 0, SOFT_R_16F = 2, SOFT_R_16BF = 14 } softDataType_t;
typedef enum softBlasComputeType { SOFTBLAS_COMPUTE_32F = 68 } softBlasComputeType_t;
typedef enum softBlasGemmAlgo { SOFTBLAS_GEMM_DEFAULT = -1 } softBlasGemmAlgo_t;

softBlasStatus_t softBlasCreate(softBlasHandle_t *handle);
softBlasStatus_t softBlasDestroy(softBlasHandle_t handle);
softBlasStatus_t softBlasSetStream(softBlasHandle_t handle, softStream_t stream);
const char *softBlasGetStatusString(softBlasStatus_t status);
/* Column-major C (m x n) = alpha op(A) (m x k) op(B) (k x n) + beta C, as cublasGemmEx; alpha and beta are host floats.
 * m, n or k of 0 is allowed (k = 0: C = beta C). The product runs later, in stream order, on the stream's device. */
softBlasStatus_t softBlasGemmEx(softBlasHandle_t handle, softBlasOperation_t op_a, softBlasOperation_t op_b, int m,
                                int n, int k, const void *alpha, const void *a, softDataType_t a_type, int lda,
                                const void *b, softDataType_t b_type, int ldb, const void *beta, void *c,
                                softDataType_t c_type, int ldc, softBlasComputeType_t compute,
                                softBlasGemmAlgo_t algorithm);
/* `batch` products of one shape, as cublasGemmStridedBatchedEx: matrix i of A begins i stride_a elements behind the first; 0: all
 * use the same one (not C, unless batch is 1). */
softBlasStatus_t softBlasGemmStridedBatchedEx(softBlasHandle_t handle, softBlasOperation_t op_a, softBlasOperation_t op_b,
                                              int m, int n, int k, const void *alpha, const void *a,
                                              softDataType_t a_type, int lda, long long stride_a, const void *b,
                                              softDataType_t b_type, int ldb, long long stride_b, const void *beta,
                                              void *c, softDataType_t c_type, int ldc, long long stride_c, int batch,
                                              softBlasComputeType_t compute, softBlasGemmAlgo_t algorithm);

/* ---- NCCL ------------------------------------------------------------------------------------ */

#define SOFTNCCL_UNIQUE_ID_BYTES 128
typedef struct { char internal[SOFTNCCL_UNIQUE_ID_BYTES]; } softNcclUniqueId;
typedef struct softNcclComm *softNcclComm_t;
typedef enum softNcclResult {
    softNcclSuccess = 0,
    softNcclUnhandledCudaError = 1,
    softNcclSystemError = 2,
    softNcclInternalError = 3,
    softNcclInvalidArgument = 4,
    softNcclInvalidUsage = 5,
    softNcclRemoteError = 6,
    softNcclInProgress = 7,
} softNcclResult_t;
typedef enum softNcclDataType {
    softNcclInt8 = 0, softNcclUint8 = 1, softNcclInt32 = 2, softNcclUint32 = 3, softNcclInt64 = 4, softNcclUint64 = 5,
    softNcclFloat16 = 6, softNcclFloat32 = 7, softNcclFloat64 = 8, softNcclBfloat16 = 9,
} softNcclDataType_t;
typedef enum softNcclRedOp { softNcclSum = 0, softNcclProd = 1, softNcclMax = 2, softNcclMin = 3 } softNcclRedOp_t;

softNcclResult_t softNcclGetUniqueId(softNcclUniqueId *id);
softNcclResult_t softNcclCommInitRank(softNcclComm_t *comm, int ranks, softNcclUniqueId id, int rank);
softNcclResult_t softNcclCommInitAll(softNcclComm_t *comms, int devices, const int *device_list);
softNcclResult_t softNcclCommDestroy(softNcclComm_t comm);
softNcclResult_t softNcclCommAbort(softNcclComm_t comm);
softNcclResult_t softNcclCommGetAsyncError(softNcclComm_t comm, softNcclResult_t *error);
softNcclResult_t softNcclCommCount(softNcclComm_t comm, int *ranks);
softNcclResult_t softNcclCommUserRank(softNcclComm_t comm, int *rank);
const char *softNcclGetErrorString(softNcclResult_t result);
const char *softNcclGetLastError(softNcclComm_t comm);  /* the sentence: ranks, both values; valid until destroy */
softNcclResult_t softNcclGroupStart(void);
softNcclResult_t softNcclGroupEnd(void);
softNcclResult_t softNcclAllReduce(const void *send, void *receive, size_t count, softNcclDataType_t type,
                                   softNcclRedOp_t op, softNcclComm_t comm, softStream_t stream);
softNcclResult_t softNcclBroadcast(const void *send, void *receive, size_t count, softNcclDataType_t type, int root,
                                   softNcclComm_t comm, softStream_t stream);
softNcclResult_t softNcclReduce(const void *send, void *receive, size_t count, softNcclDataType_t type,
                                softNcclRedOp_t op, int root, softNcclComm_t comm, softStream_t stream);
softNcclResult_t softNcclAllGather(const void *send, void *receive, size_t send_count, softNcclDataType_t type,
                                   softNcclComm_t comm, softStream_t stream);
softNcclResult_t softNcclReduceScatter(const void *send, void *receive, size_t receive_count, softNcclDataType_t type,
                                       softNcclRedOp_t op, softNcclComm_t comm, softStream_t stream);

/* ---- what only the soft GPU has: settings and readings (host code reaches them through common/gpu/backend.h) ---- */

/* The most devices one process may see. Environment SOFTGPU_DEVICES sets the number that exist (default 64 = all);
 * CUDA_VISIBLE_DEVICES selects and renumbers them as on a GPU (indices or UUIDs "GPU-..."; the list ends at the first
 * entry that does not exist; a duplicate makes the whole list empty, as CUDA does). */
#define SOFTGPU_MAX_DEVICES 64

struct soft_settings {
    size_t memory_bytes;        /* capacity of each device; 0: the machine's memory */
    int cores_per_device;       /* 0: 1 */
    double collective_limit_s;  /* a collective that waits longer fails on all ranks; so does a host wait in which no
                                 * stream ends a task for so long, with softErrorLaunchTimeout; 0: 30 s */
    const char *record_path;    /* NULL: record nothing */
    bool shape_only;            /* bodies of kernels, copies, products and collectives are not executed */
};

/* Before the first use of a device; later: softErrorInvalidValue. The strings are copied. */
softError_t softConfigure(const struct soft_settings *settings);

/* CPU seconds that the threads of all streams of this device have used so far in kernels, products and collectives. */
double softBusySeconds(int device);

/* Has a device been waited for in vain (softErrorLaunchTimeout)? Then all devices of the process are lost: tasks may be
 * under way for ever, and nothing that they may use is freed. */
bool softDevicesLost(void);

/* The device's cores as READ BACK from its stream threads ("0", "2-3"); "" if nothing is bound. */
softError_t softDeviceCores(int device, char *list, size_t size);

/* CLOCK_MONOTONIC seconds at which the event completed; the event must have completed. */
softError_t softEventTime(softEvent_t event, double *seconds);

/* Bytes moved by THIS process since the last reset, counted where they are moved (by copies and collectives, when they
 * execute), per range name (softRangePush) and ordered device pair. Physical positions are CUDA ordinals for copies and
 * DDP's ranks' devices for collectives (the rank's position in its communicator); -1 is the host. */
typedef void soft_traffic_visitor(void *context, const char *range, int from, int to, uint64_t bytes);
void softTrafficVisit(soft_traffic_visitor *visit, void *context);
void softTrafficReset(void);

/* Writes the record (docs/record.md) out; called by the program at its end, when all streams are idle. */
softError_t softRecordFinish(void);

/* Into the record, if there is one: where the program stands (a note belongs to the task that the thread enqueued last),
 * and what it was told to do. */
void softRecordNote(const char *what, const char *text, uint32_t number);
void softRecordSetting(const char *name, const char *value);

/* From now on launches that are no product (matrix, convolution) do nothing: for measurements of a step's products alone, in
 * their order, shapes and memory. Switched while all streams are idle. */
void softProductsAlone(bool on);

/* For tests of the ledger: the which-th copy between two devices from now on is neither made nor counted (0: none). */
void softTestDropCopy(unsigned which);

/* For tests of time limits: a task that never ends. */
softError_t softTestStall(softStream_t stream);

/* The whole sentence behind this thread's last error, also one that a device kept; "" once softGetLastError has
 * cleared it. */
const char *softErrorDetail(void);

#ifdef __cplusplus
}
#endif
#endif
