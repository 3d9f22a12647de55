/* SPDX-License-Identifier: MIT
 *
 * How kernels and products reach a soft GPU's stream. Used by kernels/kernel.h (CPU side) and softgpu/blas.c only.
 */
#ifndef SOFTGPU_LAUNCH_H
#define SOFTGPU_LAUNCH_H

#include "softgpu.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SOFT_LAUNCH_ARGUMENT_BYTES 192

/* What a launch states about itself, for the record and the modelled machines. */
struct soft_cost {
    const char *name;  /* static storage: "relu_forward", "gemm" */
    double flops;      /* floating point operations of the whole launch */
    double bytes;      /* device memory bytes read + written, each buffer counted once */
    uint32_t type;     /* of a product's inputs: CUDA's number of the data type + 1; 0: not said */
    bool product;      /* a matrix product: recorded as one, since modelled machines have a rate of their own for it */
};

/* The body works on part `block` of `blocks`; arguments are the launch's copied bytes, pointers already translated. */
typedef void soft_body(const void *arguments, unsigned block, unsigned blocks);

/* One pointer argument: translated from device to kernel address at launch, checked to lie whole within one live
 * allocation of the stream's device or of a peer enabled for it. bytes = 0: the pointer may be anything. */
struct soft_span {
    const void *pointer;
    size_t bytes;
    bool written;
};

/* Translates and checks; on failure sets this thread's last error (softErrorIllegalAddress, ...PeerAccessNotEnabled,
 * ...InvalidDevicePointer) with a detail that names kernel and argument. */
softError_t softTranslate(softStream_t stream, const char *kernel, const struct soft_span *span, void **translated);

/* Enqueues a body. arguments: at most SOFT_LAUNCH_ARGUMENT_BYTES, copied. blocks: the most parts the work can be cut
 * into; the device's cores share them (parts depend on the shape alone, never on cores). Returns before it has run. */
softError_t softLaunch(softStream_t stream, const struct soft_cost *cost, soft_body *body, const void *arguments,
                       size_t argument_bytes, unsigned blocks);

/* Number of cores of the stream's device: for products, which are threaded by their library. */
int softStreamCores(softStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
