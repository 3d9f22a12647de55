/* SPDX-License-Identifier: MIT
 *
 * Philox4x32-10, after Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011. The
 * counter's lower half is the index, its upper half the stream; the key is the seed. tests/softgpu checks the authors'
 * known answers.
 */
#include "random.h"

#include <math.h>

#define PHILOX_ROUNDS 10

void philox4x32(uint32_t out[4], uint64_t counter, uint64_t stream, uint64_t seed)
{
    uint32_t x0 = (uint32_t)counter, x1 = (uint32_t)(counter >> 32);
    uint32_t x2 = (uint32_t)stream, x3 = (uint32_t)(stream >> 32);
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < PHILOX_ROUNDS; round++) {
        uint64_t product0 = (uint64_t)x0 * 0xD2511F53u;
        uint64_t product2 = (uint64_t)x2 * 0xCD9E8D57u;
        x0 = (uint32_t)(product2 >> 32) ^ x1 ^ key0;
        x1 = (uint32_t)product2;
        x2 = (uint32_t)(product0 >> 32) ^ x3 ^ key1;
        x3 = (uint32_t)product0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    out[0] = x0;
    out[1] = x1;
    out[2] = x2;
    out[3] = x3;
}

/* Four indices share one block: index i is word i % 4 of block i / 4. */
uint32_t random_u32(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint32_t words[4];
    philox4x32(words, index >> 2, stream, seed);
    return words[index & 3];
}

float random_uniform(uint64_t seed, uint64_t stream, uint64_t index)
{
    return (float)(random_u32(seed, stream, index) >> 8) * 0x1p-24f;
}

/* One block an index, in double: the float does not depend on the last bits of a libm. */
float random_normal(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint32_t words[4];
    philox4x32(words, index, stream, seed);
    double u = ((double)words[0] + 1.0) * 0x1p-32; /* (0, 1]: the logarithm is finite */
    double v = (double)words[1] * 0x1p-32;
    return (float)(sqrt(-2.0 * log(u)) * cos(2.0 * 3.14159265358979323846 * v));
}

void random_permutation(uint32_t *order, size_t n, uint64_t seed, uint64_t stream)
{
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    for (size_t i = n; i > 1; i--) {
        size_t other = (size_t)(((uint64_t)random_u32(seed, stream, i) * i) >> 32); /* 0 .. i-1 */
        uint32_t swapped = order[i - 1];
        order[i - 1] = order[other];
        order[other] = swapped;
    }
}
