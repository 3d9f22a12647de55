/* SPDX-License-Identifier: MIT
 *
 * The arithmetic of the collectives once more, one element at a time and without a thought for speed.
 */
#ifndef TESTS_COLLECTIVE_REFERENCE_H
#define TESTS_COLLECTIVE_REFERENCE_H

#include "softgpu/softgpu.h"

#define REFERENCE_TYPES 10
#define REFERENCE_OPS 4

size_t reference_bytes(softNcclDataType_t type);
const char *reference_name(softNcclDataType_t type);

/* Rank's contribution at this place: any bits the type can hold but NaN, drawn from (seed, rank, index). */
void reference_input(void *to, softNcclDataType_t type, int rank, size_t index, uint64_t seed);

/* to := fold in rank order of inputs[0..ranks), each one element of the type. float16 and bfloat16: float32 sums,
 * rounded once. */
void reference_fold(void *to, const void *const *inputs, int ranks, softNcclDataType_t type, softNcclRedOp_t op);

#endif
