/* SPDX-License-Identifier: MIT
 *
 * SipHash-2-4, 128-bit result, as in the authors' reference (tests/ddp/test_hello.c has their vectors).
 */
#include "siphash.h"

static uint64_t rotate(uint64_t x, int bits)
{
    return (x << bits) | (x >> (64 - bits));
}

static uint64_t load64(const uint8_t *p)
{
    uint64_t x = 0;
    for (int i = 7; i >= 0; i--)
        x = (x << 8) | p[i];
    return x;
}

static void store64(uint8_t *p, uint64_t x)
{
    for (int i = 0; i < 8; i++)
        p[i] = (uint8_t)(x >> (8 * i));
}

static void rounds(uint64_t v[4], int count)
{
    while (count-- > 0) {
        v[0] += v[1], v[1] = rotate(v[1], 13) ^ v[0], v[0] = rotate(v[0], 32);
        v[2] += v[3], v[3] = rotate(v[3], 16) ^ v[2];
        v[0] += v[3], v[3] = rotate(v[3], 21) ^ v[0];
        v[2] += v[1], v[1] = rotate(v[1], 17) ^ v[2], v[2] = rotate(v[2], 32);
    }
}

static void absorb(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    rounds(v, 2);
    v[0] ^= word;
}

void siphash(uint8_t tag[SIPHASH_BYTES], const uint8_t key[SIPHASH_BYTES], const void *message, size_t bytes)
{
    const uint8_t *p = message;
    uint64_t k0 = load64(key), k1 = load64(key + 8);
    uint64_t v[4] = {k0 ^ UINT64_C(0x736f6d6570736575), k1 ^ UINT64_C(0x646f72616e646f6d) ^ 0xee,
                     k0 ^ UINT64_C(0x6c7967656e657261), k1 ^ UINT64_C(0x7465646279746573)};
    size_t left = bytes;
    for (; left >= 8; left -= 8, p += 8)
        absorb(v, load64(p));
    uint64_t last = (uint64_t)bytes << 56;
    for (size_t i = 0; i < left; i++)
        last |= (uint64_t)p[i] << (8 * i);
    absorb(v, last);

    v[2] ^= 0xee;
    rounds(v, 4);
    store64(tag, v[0] ^ v[1] ^ v[2] ^ v[3]);
    v[1] ^= 0xdd;
    rounds(v, 4);
    store64(tag + 8, v[0] ^ v[1] ^ v[2] ^ v[3]);
}
