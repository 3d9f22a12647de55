/* SPDX-License-Identifier: MIT
 *
 * Bucket layouts against figures that PyTorch 1.13 gave (docs/ddp.md, "Buckets").
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ddp_multi_process/bucket.h"

#define MIB ((size_t)1 << 20)

/* Compares with `expected` buckets: bytes, and tensors as one list with -1 between buckets. */
static void check_layout(const struct bucket_layout *layout, const size_t *expected_bytes, const int *expected_tensors,
                         int expected)
{
    assert_int_equal(layout->buckets, expected);
    for (int bucket = 0, at = 0; bucket < expected; bucket++, at++) {
        assert_int_equal(layout->bytes[bucket], expected_bytes[bucket]);
        for (int i = layout->first[bucket]; i < layout->first[bucket + 1]; i++)
            assert_int_equal(layout->tensors[i], expected_tensors[at++]);
        assert_int_equal(expected_tensors[at], -1);
    }
}

/* 10 x Linear(1024, 1024), BatchNorm1d(1024), Linear(1024, 10): 24 tensors. */
static void make_big_model(size_t bytes[24], int ready[24])
{
    for (int layer = 0; layer < 10; layer++) {
        bytes[2 * layer] = (size_t)1024 * 1024 * 4;
        bytes[2 * layer + 1] = 1024 * 4;
    }
    bytes[20] = bytes[21] = 1024 * 4;
    bytes[22] = 10 * 1024 * 4;
    bytes[23] = 10 * 4;
    const int head[4] = {23, 22, 20, 21}; /* bias before weight in a Linear, weight before bias in BatchNorm */
    for (int i = 0; i < 4; i++)
        ready[i] = head[i];
    for (int i = 4; i < 24; i++)
        ready[i] = 23 - i;
}

static void one_bucket_in_iteration_1(void **state)
{
    (void)state;
    size_t bytes[24], limit = SIZE_MAX;
    int ready[24];
    struct bucket_layout layout;
    make_big_model(bytes, ready);
    assert_int_equal(bucket_assign(&layout, bytes, NULL, NULL, 24, &limit, 1), 0);
    const size_t expected[] = {42033192};
    const int tensors[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, -1};
    check_layout(&layout, expected, tensors, 1);
    bucket_layout_free(&layout);
}

static void rebuilt_in_ready_order(void **state)
{
    (void)state;
    size_t bytes[24];
    const size_t limits[] = {BUCKET_FIRST_LIMIT, 25 * MIB};
    int ready[24];
    struct bucket_layout layout;
    make_big_model(bytes, ready);
    assert_int_equal(bucket_assign(&layout, bytes, NULL, ready, 24, limits, 2), 0);
    const size_t expected[] = {4247592, 29388800, 8396800};
    const int tensors[] = {23, 22, 20, 21, 19, 18, -1, 17, 16, 15, 14, 13, 12, 11,
                           10, 9,  8,  7,  6,  5,  4,  -1, 3,  2,  1,  0,  -1};
    check_layout(&layout, expected, tensors, 3);
    bucket_layout_free(&layout);
}

static void cap_of_4_mib(void **state)
{
    (void)state;
    size_t bytes[24];
    const size_t limits[] = {BUCKET_FIRST_LIMIT, 4 * MIB};
    int ready[24];
    struct bucket_layout layout;
    make_big_model(bytes, ready);
    assert_int_equal(bucket_assign(&layout, bytes, NULL, ready, 24, limits, 2), 0);
    assert_int_equal(layout.buckets, 10);
    assert_int_equal(layout.bytes[0], 4247592);
    for (int bucket = 1; bucket < 10; bucket++)
        assert_int_equal(layout.bytes[bucket], 4198400);
    bucket_layout_free(&layout);
}

/* With unused-parameter search PyTorch takes the forward order and reverses the list of buckets. */
static void forward_order(void **state)
{
    (void)state;
    size_t bytes[24];
    const size_t limits[] = {BUCKET_FIRST_LIMIT, 25 * MIB};
    int ready[24];
    struct bucket_layout layout;
    make_big_model(bytes, ready);
    assert_int_equal(bucket_assign(&layout, bytes, NULL, NULL, 24, limits, 2), 0);
    assert_int_equal(layout.buckets, 3);
    assert_int_equal(layout.bytes[2], 8450088);
    assert_int_equal(layout.bytes[1], 29388800);
    assert_int_equal(layout.bytes[0], 4194304);
    bucket_layout_free(&layout);
}

static void mixed_sizes(void **state)
{
    (void)state;
    const size_t bytes[] = {400000, 800000, 1200000, 24000000, 2000000, 28000000, 4000, 8000};
    const size_t limits[] = {BUCKET_FIRST_LIMIT, 25 * MIB};
    struct bucket_layout layout;
    assert_int_equal(bucket_assign(&layout, bytes, NULL, NULL, 8, limits, 2), 0);
    const size_t expected[] = {1200000, 27200000, 28000000, 12000};
    const int tensors[] = {0, 1, -1, 2, 3, 4, -1, 5, -1, 6, 7, -1};
    check_layout(&layout, expected, tensors, 4);
    bucket_layout_free(&layout);
}

/* One open bucket a type, each with its own first limit; what is open at the end follows in order of first tensors. */
static void types_apart(void **state)
{
    (void)state;
    const size_t bytes[] = {MIB, 10, MIB, 20, 30, 25 * MIB, 40};
    const int types[] = {0, 1, 1, 0, 1, 0, 0};
    const size_t limits[] = {BUCKET_FIRST_LIMIT, 25 * MIB};
    struct bucket_layout layout;
    assert_int_equal(bucket_assign(&layout, bytes, types, NULL, 7, limits, 2), 0);
    const size_t expected[] = {MIB, MIB + 10, 25 * MIB + 20, 30, 40};
    const int tensors[] = {0, -1, 1, 2, -1, 3, 5, -1, 4, -1, 6, -1};
    check_layout(&layout, expected, tensors, 5);
    bucket_layout_free(&layout);
}

static void cap_of_0_is_a_bucket_a_tensor(void **state)
{
    (void)state;
    const size_t bytes[] = {4, 0, 8};
    const size_t limits[] = {0, 0};
    struct bucket_layout layout;
    assert_int_equal(bucket_assign(&layout, bytes, NULL, NULL, 3, limits, 2), 0);
    const size_t expected[] = {4, 0, 8};
    const int tensors[] = {0, -1, 1, -1, 2, -1};
    check_layout(&layout, expected, tensors, 3);
    bucket_layout_free(&layout);
    assert_int_equal(bucket_assign(&layout, bytes, NULL, NULL, 0, limits, 2), 0);
    assert_int_equal(layout.buckets, 0);
    bucket_layout_free(&layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_bucket_in_iteration_1),
        cmocka_unit_test(rebuilt_in_ready_order),
        cmocka_unit_test(cap_of_4_mib),
        cmocka_unit_test(forward_order),
        cmocka_unit_test(mixed_sizes),
        cmocka_unit_test(types_apart),
        cmocka_unit_test(cap_of_0_is_a_bucket_a_tensor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
