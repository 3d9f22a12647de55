/* SPDX-License-Identifier: MIT */
#ifndef DDP_SIPHASH_H
#define DDP_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

#define SIPHASH_BYTES 16

/* SipHash-2-4 with 128-bit result (Aumasson and Bernstein, 2012): who knows the key can make the tag of a message, and
 * nobody else. Ranks prove with it that they know the launch's token without sending it. */
void siphash(uint8_t tag[SIPHASH_BYTES], const uint8_t key[SIPHASH_BYTES], const void *message, size_t bytes);

#endif
