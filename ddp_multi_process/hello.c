/* SPDX-License-Identifier: MIT
 *
 * Making, sealing and checking the messages of hello.h. No sockets here: tests feed it bytes.
 */
#include "hello.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sys/exit_codes.h"
#include "sys/log.h"

static const char greeting_magic[8] = "DDPRDV1"; /* the digit is the version of all three messages */
static const char hello_magic[8] = "DDPHEL1";

static int fill_random(uint8_t *bytes, size_t count)
{
    if (getentropy(bytes, count) == 0)
        return EXIT_OK;
    log_error("getentropy: %s", strerror(errno));
    return EXIT_RESOURCE;
}

int greeting_fill(struct greeting *greeting)
{
    memcpy(greeting->magic, greeting_magic, sizeof(greeting->magic));
    return fill_random(greeting->nonce, sizeof(greeting->nonce));
}

int hello_fill(struct hello *hello, int rank, int world_size, size_t options_bytes)
{
    *hello = (struct hello){
        .rank = rank, .world_size = world_size, .pid = (uint32_t)getpid(), .options_bytes = (uint32_t)options_bytes};
    memcpy(hello->magic, hello_magic, sizeof(hello->magic));
    return fill_random(hello->nonce, sizeof(hello->nonce));
}

bool greeting_is_ours(const struct greeting *greeting)
{
    return memcmp(greeting->magic, greeting_magic, sizeof(greeting_magic)) == 0;
}

/* The tag over a nonce and everything in the message but the tag itself. */
static void hello_tag(uint8_t tag[SIPHASH_BYTES], const struct hello *hello, const struct greeting *greeting,
                      const uint8_t token[TOKEN_BYTES])
{
    struct {
        uint8_t nonce[16];
        struct hello hello;
    } message = {.hello = *hello};
    memcpy(message.nonce, greeting->nonce, sizeof(message.nonce));
    memset(message.hello.tag, 0, sizeof(message.hello.tag));
    siphash(tag, token, &message, sizeof(message));
}

static void answer_tag(uint8_t tag[SIPHASH_BYTES], const struct answer *answer, const struct hello *hello,
                       const uint8_t token[TOKEN_BYTES])
{
    struct {
        uint8_t nonce[16];
        struct answer answer;
    } message = {.answer = *answer};
    memcpy(message.nonce, hello->nonce, sizeof(message.nonce));
    memset(message.answer.tag, 0, sizeof(message.answer.tag));
    siphash(tag, token, &message, sizeof(message));
}

/* The time does not depend on where the first wrong byte stands. */
static bool equal_in_constant_time(const uint8_t *a, const uint8_t *b, size_t bytes)
{
    volatile uint8_t difference = 0;
    for (size_t i = 0; i < bytes; i++)
        difference = (uint8_t)(difference | (a[i] ^ b[i]));
    return difference == 0;
}

void hello_seal(struct hello *hello, const struct greeting *greeting, const uint8_t token[TOKEN_BYTES])
{
    hello_tag(hello->tag, hello, greeting, token);
}

bool hello_is_sealed(const struct hello *hello, const struct greeting *greeting, const uint8_t token[TOKEN_BYTES])
{
    uint8_t expected[SIPHASH_BYTES];
    hello_tag(expected, hello, greeting, token);
    return memcmp(hello->magic, hello_magic, sizeof(hello_magic)) == 0 &&
           equal_in_constant_time(expected, hello->tag, sizeof(expected));
}

void answer_seal(struct answer *answer, const struct hello *hello, const uint8_t token[TOKEN_BYTES])
{
    answer_tag(answer->tag, answer, hello, token);
}

bool answer_is_sealed(const struct answer *answer, const struct hello *hello, const uint8_t token[TOKEN_BYTES])
{
    uint8_t expected[SIPHASH_BYTES];
    answer_tag(expected, answer, hello, token);
    return equal_in_constant_time(expected, answer->tag, sizeof(expected));
}

/* Length of the option "key=value" that begins at text, and of its key. */
static int option_length(const char *text)
{
    return (int)strcspn(text, ";");
}

static int key_length(const char *text)
{
    return (int)strcspn(text, "=;");
}

static bool same_option(const char *a, const char *b)
{
    return option_length(a) == option_length(b) && memcmp(a, b, (size_t)option_length(a)) == 0;
}

static bool same_key(const char *a, const char *b)
{
    int length = key_length(a);
    return length == key_length(b) && a[length] == '=' && b[length] == '=' && memcmp(a, b, (size_t)length) == 0;
}

bool options_differ(char *text, size_t size, const char *on_rank_0, const char *theirs, int rank)
{
    if (strcmp(on_rank_0, theirs) == 0)
        return false;
    const char *a = on_rank_0, *b = theirs;
    while (same_option(a, b) && a[option_length(a)] && b[option_length(b)]) {
        a += option_length(a) + 1;
        b += option_length(b) + 1;
    }
    int key = key_length(a);
    if (same_key(a, b) && !same_option(a, b))
        snprintf(text, size, "option %.*s is %.*s on rank 0 and %.*s on rank %d", key, a, option_length(a) - key - 1,
                 a + key + 1, option_length(b) - key - 1, b + key + 1, rank);
    else
        snprintf(text, size, "options are \"%s\" on rank 0 and \"%s\" on rank %d", a, b, rank);
    return true;
}
