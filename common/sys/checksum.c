/* SPDX-License-Identifier: MIT
 *
 * The checksum of parameters and files: fast enough to be taken of every weight after every run.
 */
#include "checksum.h"

#include <string.h>

static uint64_t step(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x100000001b3);
    return hash ^ (hash >> 32);
}

uint64_t checksum(uint64_t seed, const void *data, size_t bytes)
{
    const unsigned char *next = data;
    uint64_t hash = seed;
    for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t), next += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, next, sizeof(word));
        hash = step(hash, word);
    }
    for (; bytes > 0; bytes--, next++)
        hash = step(hash, *next);
    return hash;
}
