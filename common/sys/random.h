/* SPDX-License-Identifier: MIT
 *
 * Philox4x32-10 (Salmon et al., SC 2011): random numbers by index, no state. A (seed, stream) pair names a sequence.
 */
#ifndef SYS_RANDOM_H
#define SYS_RANDOM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sequences in use; `which` (epoch, parameter index, ...) goes into the upper bits. */
enum random_purpose { RANDOM_INITIAL = 1, RANDOM_SHUFFLE = 2, RANDOM_DATA = 3, RANDOM_LABEL = 4, RANDOM_FAULT = 5 };
static inline uint64_t random_stream(enum random_purpose purpose, uint32_t which)
{
    return ((uint64_t)purpose << 32) | which;
}

void philox4x32(uint32_t out[4], uint64_t counter, uint64_t stream, uint64_t seed);
uint32_t random_u32(uint64_t seed, uint64_t stream, uint64_t index);
float random_uniform(uint64_t seed, uint64_t stream, uint64_t index);  /* [0, 1), 24 bits */
float random_normal(uint64_t seed, uint64_t stream, uint64_t index);   /* Box-Muller */
/* order[n] := a permutation of 0..n-1 (Fisher-Yates), the same for the same seed and stream on every machine. */
void random_permutation(uint32_t *order, size_t n, uint64_t seed, uint64_t stream);

#ifdef __cplusplus
}
#endif
#endif
