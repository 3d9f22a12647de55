/* SPDX-License-Identifier: MIT
 *
 * What a rank and rank 0 say to each other when they meet:
 *
 *     rank 0 -> rank   greeting   magic and a fresh nonce
 *     rank -> rank 0   hello      who I am; options_bytes of canonical options follow
 *     rank 0 -> rank   answer     welcome, or an exit code; text_bytes of explanation follow
 *
 * hello and answer carry a tag (SipHash) over themselves and the other side's nonce, keyed by the launch's token: the
 * token never travels, a recorded hello is worth nothing in front of another nonce, and no length is believed before
 * the tag was compared in constant time. Both sides run on one architecture: fields travel as they lie in memory.
 */
#ifndef DDP_HELLO_H
#define DDP_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "siphash.h"

#define TOKEN_BYTES SIPHASH_BYTES     /* 128 bits */
#define HELLO_MAX_OPTIONS_BYTES 65536 /* what is longer is refused unread */
#define ANSWER_MAX_TEXT_BYTES 4096

struct greeting {
    char magic[8];
    uint8_t nonce[16];
};

struct hello {
    char magic[8];
    uint8_t tag[SIPHASH_BYTES];
    uint8_t nonce[16]; /* the rank's own: the answer is sealed with it */
    int32_t rank, world_size;
    uint32_t pid;
    uint32_t options_bytes;
};

struct answer {
    uint8_t tag[SIPHASH_BYTES];
    uint32_t exit_code; /* 0: welcome */
    uint32_t text_bytes;
};

/* Fill with magic and fresh random bytes. 0, or EXIT_RESOURCE (reported): the system gives no random bytes. */
int greeting_fill(struct greeting *greeting);
int hello_fill(struct hello *hello, int rank, int world_size, size_t options_bytes);
bool greeting_is_ours(const struct greeting *greeting);

void hello_seal(struct hello *hello, const struct greeting *greeting, const uint8_t token[TOKEN_BYTES]);
bool hello_is_sealed(const struct hello *hello, const struct greeting *greeting, const uint8_t token[TOKEN_BYTES]);
void answer_seal(struct answer *answer, const struct hello *hello, const uint8_t token[TOKEN_BYTES]);
bool answer_is_sealed(const struct answer *answer, const struct hello *hello, const uint8_t token[TOKEN_BYTES]);

/* Two canonical option lines ("lr=0.1;seed=1"): writes the first option in which they differ with both values, as
 * "lr is 0.1 on rank 0 and 0.2 on rank 2", and returns true; false if they are equal. */
bool options_differ(char *text, size_t size, const char *on_rank_0, const char *theirs, int rank);

#endif
