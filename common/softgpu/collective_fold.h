/* SPDX-License-Identifier: MIT
 *
 * The arithmetic of the collectives: a fold of the ranks' values in rank order, from rank 0's on. The order is part of
 * the meaning: float sums differ with it, so every path of every reducing collective goes through here and the bits are
 * the same on all ranks and from run to run.
 */
#ifndef SOFTGPU_COLLECTIVE_FOLD_H
#define SOFTGPU_COLLECTIVE_FOLD_H

#include "softgpu.h"

size_t fold_element_bytes(softNcclDataType_t type);  /* 0: no such type */
const char *fold_type_name(softNcclDataType_t type); /* "float32" */
const char *fold_operation_name(softNcclRedOp_t op); /* "sum" */

/* out[k][i] = ((in[0][i] op in[1][i]) op in[2][i]) ... for all i < count and all k < outs. An output may BE an input
 * (in place); any other overlap is the caller's fault. float16 and bfloat16 are folded in float32 and rounded once, at
 * the end (to nearest, ties to even). Integers wrap. max and min pass over a NaN as fmax and fmin do. */
void fold(void *const *out, int outs, const void *const *in, int ins, size_t count, softNcclDataType_t type,
          softNcclRedOp_t op);

#endif
