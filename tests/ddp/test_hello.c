/* SPDX-License-Identifier: MIT
 *
 * What ranks say when they meet: tags against SipHash's own vectors, and what must not be believed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ddp_multi_process/hello.h"

static const uint8_t token[TOKEN_BYTES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* vectors_sip128 of the authors' reference: key and message are 0, 1, 2, ... */
static void siphash_vectors(void **state)
{
    (void)state;
    static const struct {
        size_t bytes;
        uint8_t tag[SIPHASH_BYTES];
    } vectors[] = {
        {0, {0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93}},
        {15, {0x54, 0x93, 0xe9, 0x99, 0x33, 0xb0, 0xa8, 0x11, 0x7e, 0x08, 0xec, 0x0f, 0x97, 0xcf, 0xc3, 0xd9}},
    };
    uint8_t message[64], tag[SIPHASH_BYTES];
    for (size_t i = 0; i < sizeof(message); i++)
        message[i] = (uint8_t)i;
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        siphash(tag, token, message, vectors[i].bytes);
        assert_memory_equal(tag, vectors[i].tag, SIPHASH_BYTES);
    }
}

static void meet(struct greeting *greeting, struct hello *hello)
{
    assert_int_equal(greeting_fill(greeting), 0);
    assert_int_equal(hello_fill(hello, 2, 4, 100), 0);
    hello_seal(hello, greeting, token);
}

static void a_good_hello_is_believed(void **state)
{
    (void)state;
    struct greeting greeting;
    struct hello hello;
    meet(&greeting, &hello);
    assert_true(greeting_is_ours(&greeting));
    assert_true(hello_is_sealed(&hello, &greeting, token));
}

/* Each of the hello's bytes flipped, one at a time. */
static void no_byte_can_be_changed(void **state)
{
    (void)state;
    struct greeting greeting;
    struct hello hello;
    meet(&greeting, &hello);
    for (size_t i = 0; i < sizeof(hello); i++) {
        ((uint8_t *)&hello)[i] ^= 0x40;
        assert_false(hello_is_sealed(&hello, &greeting, token));
        ((uint8_t *)&hello)[i] ^= 0x40;
    }
    assert_true(hello_is_sealed(&hello, &greeting, token));
}

static void a_replayed_hello_is_worth_nothing(void **state)
{
    (void)state;
    struct greeting greeting, next;
    struct hello hello;
    meet(&greeting, &hello);
    assert_int_equal(greeting_fill(&next), 0);
    assert_false(hello_is_sealed(&hello, &next, token));
}

static void another_token_is_refused(void **state)
{
    (void)state;
    struct greeting greeting;
    struct hello hello;
    struct answer answer = {.exit_code = 0, .text_bytes = 5};
    uint8_t other[TOKEN_BYTES];
    memcpy(other, token, sizeof(other));
    other[15] ^= 1;
    meet(&greeting, &hello);
    assert_false(hello_is_sealed(&hello, &greeting, other));
    assert_false(answer_is_sealed(&answer, &hello, token));
    answer_seal(&answer, &hello, token);
    assert_true(answer_is_sealed(&answer, &hello, token));
    assert_false(answer_is_sealed(&answer, &hello, other));
    answer.exit_code = 1;
    assert_false(answer_is_sealed(&answer, &hello, token));
}

static void check_difference(const char *a, const char *b, const char *expected)
{
    char text[200] = "";
    assert_int_equal(options_differ(text, sizeof(text), a, b, 2), expected != NULL);
    assert_string_equal(text, expected ? expected : "");
}

static void differing_options_are_named(void **state)
{
    (void)state;
    check_difference("lr=0.1;seed=1", "lr=0.1;seed=1", NULL);
    check_difference("", "", NULL);
    check_difference("lr=0.1;seed=1", "lr=0.2;seed=1", "option lr is 0.1 on rank 0 and 0.2 on rank 2");
    check_difference("lr=0.1;seed=1;x=2", "lr=0.1;seed=10;x=2", "option seed is 1 on rank 0 and 10 on rank 2");
    check_difference("lr=;seed=1", "lr=3;seed=1", "option lr is  on rank 0 and 3 on rank 2");
    check_difference("lr=1;seed=1", "lr=1", "options are \"lr=1;seed=1\" on rank 0 and \"lr=1\" on rank 2");
    check_difference("a=1", "b=1", "options are \"a=1\" on rank 0 and \"b=1\" on rank 2");
    check_difference("a", "", "options are \"a\" on rank 0 and \"\" on rank 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(siphash_vectors),          cmocka_unit_test(a_good_hello_is_believed),
        cmocka_unit_test(no_byte_can_be_changed),   cmocka_unit_test(a_replayed_hello_is_worth_nothing),
        cmocka_unit_test(another_token_is_refused), cmocka_unit_test(differing_options_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
