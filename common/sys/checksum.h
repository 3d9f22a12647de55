/* SPDX-License-Identifier: MIT */
#ifndef SYS_CHECKSUM_H
#define SYS_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* FNV-1a over 64-bit words (tail bytes singly), each step folded so that the upper bits count downwards too: plain
 * FNV-1a over words lets two flipped sign bits cancel. Chained: start with CHECKSUM_SEED. Not cryptographic; every bit
 * counts. */
#define CHECKSUM_SEED UINT64_C(0xcbf29ce484222325)
uint64_t checksum(uint64_t seed, const void *data, size_t bytes);

#endif
