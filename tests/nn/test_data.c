/* SPDX-License-Identifier: MIT
 *
 * The shipped digits and synthetic samples.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "data/dataset.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

/* ---- digits ---- */

/* The totals were taken from scikit-learn's digits.csv.gz. */
static void test_digits_are_whole(void **state)
{
    (void)state;
    static const int expected[10] = {178, 182, 177, 183, 181, 182, 181, 179, 174, 180};
    static float values[1797 * 64];
    static int32_t labels[1797];
    uint32_t indices[1797];
    struct dataset digits;
    int counts[10] = {0};
    double sum = 0, paired = 0;

    assert_int_equal(chdir("/"), 0); /* no file is needed */
    assert_int_equal(dataset_open(&digits, "digits", 0), EXIT_OK);
    assert_int_equal(digits.shape.inputs, 64);
    assert_int_equal(digits.shape.classes, 10);
    assert_int_equal(digits.train_count, 1437);
    assert_int_equal(digits.test_count, 360);
    for (uint32_t i = 0; i < 1797; i++)
        indices[i] = i;
    dataset_gather(&digits, indices, 1797, values, labels);
    for (size_t i = 0; i < 1797 * 64; i++) {
        assert_true(values[i] >= 0 && values[i] <= 1);
        sum += values[i] * 16;
    }
    for (size_t i = 0; i < 1797; i++) {
        counts[labels[i]]++;
        for (size_t j = 0; j < 64; j++) /* labels stay with their images, pixels in their places */
            paired += (double)labels[i] * (double)(j + 1) * values[i * 64 + j] * 16;
    }
    assert_true(sum == 561718);
    assert_true(paired == 80735908);
    assert_memory_equal(counts, expected, sizeof counts);
    dataset_close(&digits);
}

/* The test set is a fair sample: 360 of 1797, so about 36 of each class. */
static void test_digits_are_mixed(void **state)
{
    (void)state;
    struct dataset digits;
    int counts[10] = {0};

    assert_int_equal(dataset_open(&digits, "digits", 0), EXIT_OK);
    for (size_t i = 0; i < digits.test_count; i++)
        counts[digits.block[0].labels[digits.train_count + i]]++;
    for (int c = 0; c < 10; c++)
        assert_in_range(counts[c], 20, 52);
    dataset_close(&digits);
}

/* ---- synthetic ---- */

static void test_synthetic_follows_from_index(void **state)
{
    (void)state;
    struct dataset synthetic;
    uint32_t both[2] = {5, 1000000}, one[1] = {1000000};
    float values[2][7], again[7];
    int32_t labels[2], label;

    assert_int_equal(dataset_open(&synthetic, "synthetic", 42), EXIT_OK);
    assert_int_equal(dataset_fit(&synthetic, &(struct sample_shape){.inputs = 7, .targets = 1, .classes = 3}), EXIT_OK);
    assert_true(synthetic.resident);
    dataset_gather(&synthetic, both, 2, values[0], labels);
    dataset_gather(&synthetic, one, 1, again, &label);
    assert_memory_equal(values[1], again, sizeof again);
    assert_memory_not_equal(values[0], again, sizeof again);
    assert_int_equal(labels[1], label);
    assert_in_range(labels[0], 0, 2);
    assert_int_equal(dataset_fit(&synthetic, &(struct sample_shape){0, 1, 3, false}), EXIT_USAGE);
    assert_int_equal(dataset_fit(&synthetic, &(struct sample_shape){7, 0, 3, false}), EXIT_USAGE);
    assert_int_equal(dataset_fit(&synthetic, &(struct sample_shape){7, 1, 0, false}), EXIT_USAGE);
    dataset_close(&synthetic);
}

static void test_synthetic_tokens(void **state)
{
    (void)state;
    struct dataset synthetic;
    uint32_t indices[2] = {3, 4};
    int32_t tokens[2][50], labels[2][50], again[50], label[50];
    bool seen[5] = {false};

    assert_int_equal(dataset_open(&synthetic, "synthetic", 42), EXIT_OK);
    assert_int_equal(dataset_fit(&synthetic, &(struct sample_shape){50, 50, 5, true}), EXIT_OK);
    dataset_gather(&synthetic, indices, 2, tokens, labels[0]);
    dataset_gather(&synthetic, indices + 1, 1, again, label);
    assert_memory_equal(tokens[1], again, sizeof again);
    assert_memory_equal(labels[1], label, sizeof label);
    assert_memory_not_equal(tokens[0], again, sizeof again);
    for (int i = 0; i < 100; i++) {
        assert_in_range(tokens[i / 50][i % 50], 0, 4);
        assert_in_range(labels[i / 50][i % 50], 0, 4);
        seen[tokens[i / 50][i % 50]] = true;
    }
    for (int i = 0; i < 5; i++)
        assert_true(seen[i]);
    dataset_close(&synthetic);
}

/* A model that wants other samples than the data has is told both. */
static void test_data_fits(void **state)
{
    (void)state;
    struct dataset digits;

    assert_int_equal(dataset_open(&digits, "digits", 0), EXIT_OK);
    assert_int_equal(dataset_fit(&digits, &(struct sample_shape){64, 1, 10, false}), EXIT_OK);
    assert_int_equal(dataset_fit(&digits, &(struct sample_shape){64, 1, 100, false}), EXIT_OK);
    assert_int_equal(dataset_fit(&digits, &(struct sample_shape){64, 1, 9, false}), EXIT_USAGE);
    assert_int_equal(dataset_fit(&digits, &(struct sample_shape){65, 1, 10, false}), EXIT_USAGE);
    assert_int_equal(dataset_fit(&digits, &(struct sample_shape){64, 2, 10, false}), EXIT_USAGE);
    assert_int_equal(dataset_fit(&digits, &(struct sample_shape){64, 1, 10, true}), EXIT_USAGE);
    dataset_close(&digits);
}

int main(void)
{
    log_set_program("test_data");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_digits_are_whole),
        cmocka_unit_test(test_digits_are_mixed),
        cmocka_unit_test(test_synthetic_follows_from_index),
        cmocka_unit_test(test_synthetic_tokens),
        cmocka_unit_test(test_data_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
