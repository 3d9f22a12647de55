/* SPDX-License-Identifier: MIT
 *
 * MNIST's IDX files: good ones, and every kind of bad one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "data/dataset.h"
#include "data/idx.h"
#include "files.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

#define MIB ((size_t)1 << 20)

enum { TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS, FILES };

#define ROWS 4
#define COLUMNS 5
#define TRAIN 6
#define TEST 4

static const char *const names[FILES] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                                         "t10k-labels-idx1-ubyte"};
static uint8_t content[FILES][256];
static size_t length[FILES];

static void put_size(uint8_t *at, uint32_t size)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(size >> (24 - 8 * i));
}

static void make_file(int file, int dimensions, uint32_t count, uint8_t modulus)
{
    size_t header = 4 + 4 * (size_t)dimensions, values = count * (dimensions == 3 ? ROWS * COLUMNS : 1);

    put_size(content[file], 0x800u | (uint32_t)dimensions);
    put_size(content[file] + 4, count);
    if (dimensions == 3) {
        put_size(content[file] + 8, ROWS);
        put_size(content[file] + 12, COLUMNS);
    }
    for (size_t i = 0; i < values; i++)
        content[file][header + i] = (uint8_t)((i * 37 + (size_t)file) % modulus);
    length[file] = header + values;
}

/* Writes all four files as they should be. */
static int setup_files(void **state)
{
    (void)state;
    make_file(TRAIN_IMAGES, 3, TRAIN, 251);
    make_file(TRAIN_LABELS, 1, TRAIN, 10);
    make_file(TEST_IMAGES, 3, TEST, 251);
    make_file(TEST_LABELS, 1, TEST, 10);
    for (int file = 0; file < FILES; file++)
        put_file(test_path(names[file]), content[file], length[file]);
    return 0;
}

static int open_files(struct dataset *dataset)
{
    return dataset_open(dataset, test_path("."), 0);
}

/* The folder must be refused, with what was found and expected, nothing kept, and little allocated on the way. */
static void expect_refused(size_t file_bytes)
{
    struct dataset dataset;
    size_t good = length[TRAIN_IMAGES] + length[TRAIN_LABELS] + length[TEST_IMAGES] + length[TEST_LABELS];

    reset_allocated_bytes();
    assert_int_equal(open_files(&dataset), EXIT_BAD_FILE);
    assert_true(allocated_bytes() <= good + file_bytes + MIB);
    assert_non_null(strstr(log_last_error(), "found"));
    assert_non_null(strstr(log_last_error(), "expected"));
    assert_int_equal(dataset.blocks, 0);
    assert_null(dataset.memory[0]);
}

static void expect_content_refused(int file, const uint8_t *bytes, size_t count)
{
    put_file(test_path(names[file]), bytes, count);
    expect_refused(count);
    put_file(test_path(names[file]), content[file], length[file]);
}

static void test_mnist_files(void **state)
{
    (void)state;
    struct dataset mnist;
    uint32_t indices[2] = {2, TRAIN + 1};
    float values[2][ROWS * COLUMNS];
    int32_t labels[2];

    assert_int_equal(open_files(&mnist), EXIT_OK);
    assert_int_equal(mnist.shape.inputs, ROWS * COLUMNS);
    assert_int_equal(mnist.shape.classes, 10);
    assert_int_equal(mnist.train_count, TRAIN);
    assert_int_equal(mnist.test_count, TEST);
    dataset_gather(&mnist, indices, 2, values[0], labels);
    for (size_t j = 0; j < ROWS * COLUMNS; j++) {
        assert_true(values[0][j] == (float)content[TRAIN_IMAGES][16 + 2 * ROWS * COLUMNS + j] / 255);
        assert_true(values[1][j] == (float)content[TEST_IMAGES][16 + ROWS * COLUMNS + j] / 255);
    }
    assert_int_equal(labels[0], content[TRAIN_LABELS][8 + 2]);
    assert_int_equal(labels[1], content[TEST_LABELS][8 + 1]);
    dataset_close(&mnist);
}

static void test_names_with_a_dot(void **state)
{
    (void)state;
    struct dataset mnist;
    assert_int_equal(unlink(test_path(names[TEST_IMAGES])), 0);
    put_file(test_path("t10k-images.idx3-ubyte"), content[TEST_IMAGES], length[TEST_IMAGES]);
    assert_int_equal(open_files(&mnist), EXIT_OK);
    dataset_close(&mnist);
    assert_int_equal(unlink(test_path("t10k-images.idx3-ubyte")), 0);
    put_file(test_path(names[TEST_IMAGES]), content[TEST_IMAGES], length[TEST_IMAGES]);
}

static void test_missing_files(void **state)
{
    (void)state;
    struct dataset dataset;
    for (int file = 0; file < FILES; file++) {
        assert_int_equal(unlink(test_path(names[file])), 0);
        assert_int_equal(open_files(&dataset), EXIT_BAD_FILE);
        assert_non_null(strstr(log_last_error(), names[file]));
        put_file(test_path(names[file]), content[file], length[file]);
    }
    assert_int_equal(dataset_open(&dataset, "no-such-folder", 0), EXIT_BAD_FILE);
}

/* A folder that holds none of the files: what was looked for, not one file's "No such file". */
static void test_a_folder_without_data(void **state)
{
    (void)state;
    static const char *const expected[] = {"none of the expected files", "train-images-idx3-ubyte", "data_batch_1.bin",
                                           "train.bin"};
    struct dataset dataset;
    assert_int_equal(mkdir(test_path("empty"), 0700), 0);
    assert_int_equal(dataset_open(&dataset, test_path("empty"), 0), EXIT_BAD_FILE);
    assert_non_null(strstr(log_last_error(), test_path("empty")));
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        assert_non_null(strstr(log_last_error(), expected[i]));
    assert_int_equal(rmdir(test_path("empty")), 0);
}

static void test_cut_at_every_length(void **state)
{
    (void)state;
    for (int file = 0; file < FILES; file++)
        for (size_t bytes = 0; bytes < length[file]; bytes++)
            expect_content_refused(file, content[file], bytes);
}

static void test_flipped_header_bits(void **state)
{
    (void)state;
    for (int file = 0; file < FILES; file++) {
        for (size_t bit = 0; bit < 8 * (size_t)(file % 2 ? 8 : 16); bit++) {
            uint8_t bytes[256];
            memcpy(bytes, content[file], length[file]);
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            expect_content_refused(file, bytes, length[file]);
        }
    }
}

/* 2^31 x 2^31 x 4 is 2^64, a product in 64 bits would be 0; the last is 7 x 2^64 + 80, and the file has 80 bytes of
 * values. */
static void test_sizes_that_wrap(void **state)
{
    (void)state;
    static const uint32_t sizes[][3] = {
        {0, 4, 5},
        {6, 0, 5},
        {6, 4, 0},
        {1, 4, 5},
        {0x80000000, 4, 5},
        {UINT32_MAX, UINT32_MAX, UINT32_MAX},
        {0x80000000, 0x80000000, 4},
        {4, 0x80000000, 0x80000000},
        {6, UINT32_MAX, 5},
        {0, 0, 0},
        {5, 4, 6},
        {6, 5, 5},
        {88971287, 1152516, 1259276},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint8_t bytes[256];
        memcpy(bytes, content[TEST_IMAGES], length[TEST_IMAGES]);
        for (int d = 0; d < 3; d++)
            put_size(bytes + 4 + 4 * d, sizes[i][d]);
        struct idx idx; /* refused by the parser itself, or later because the counts disagree */
        bool whole = (uint64_t)sizes[i][0] * sizes[i][1] * sizes[i][2] == TEST * ROWS * COLUMNS && sizes[i][0] < 100;
        assert_int_equal(idx_parse(&idx, "sizes", bytes, length[TEST_IMAGES], 3), whole ? EXIT_OK : EXIT_BAD_FILE);
        expect_content_refused(TEST_IMAGES, bytes, length[TEST_IMAGES]);
    }
}

static void test_surplus_bytes(void **state)
{
    (void)state;
    for (int file = 0; file < FILES; file++) {
        uint8_t bytes[256] = {0};
        memcpy(bytes, content[file], length[file]);
        expect_content_refused(file, bytes, length[file] + 1);
    }
}

static void test_labels_out_of_range(void **state)
{
    (void)state;
    uint8_t bytes[256];
    memcpy(bytes, content[TEST_LABELS], length[TEST_LABELS]);
    bytes[8 + 3] = 10;
    expect_content_refused(TEST_LABELS, bytes, length[TEST_LABELS]);
    put_file(test_path(names[TEST_LABELS]), bytes, length[TEST_LABELS]);
    expect_refused(length[TEST_LABELS]);
    assert_non_null(strstr(log_last_error(), "byte 11: label 10 found, expected 0 to 9"));
    put_file(test_path(names[TEST_LABELS]), content[TEST_LABELS], length[TEST_LABELS]);
}

/* Each file is whole, but they don't belong together. */
static void test_counts_that_disagree(void **state)
{
    (void)state;
    uint8_t bytes[256];
    memcpy(bytes, content[TEST_LABELS], length[TEST_LABELS]);
    put_size(bytes + 4, TEST - 1);
    expect_content_refused(TEST_LABELS, bytes, length[TEST_LABELS] - 1);

    memcpy(bytes, content[TEST_IMAGES], length[TEST_IMAGES]);
    put_size(bytes + 8, COLUMNS); /* 5 x 4 for 4 x 5 */
    put_size(bytes + 12, ROWS);
    expect_content_refused(TEST_IMAGES, bytes, length[TEST_IMAGES]);
}

/* 2^31 and 2^32 bytes that take no room on the disk. */
static void test_files_that_are_too_large(void **state)
{
    (void)state;
    for (int file = 0; file < FILES; file++) {
        for (off_t bytes = (off_t)1 << 31; bytes <= (off_t)1 << 32; bytes *= 2) {
            struct dataset dataset;
            assert_int_equal(truncate(test_path(names[file]), bytes), 0);
            reset_allocated_bytes();
            assert_int_equal(open_files(&dataset), EXIT_BAD_FILE);
            assert_true(allocated_bytes() < MIB);
            put_file(test_path(names[file]), content[file], length[file]);
        }
    }
}

int main(void)
{
    log_set_program("test_mnist");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mnist_files),
        cmocka_unit_test(test_names_with_a_dot),
        cmocka_unit_test(test_missing_files),
        cmocka_unit_test(test_a_folder_without_data),
        cmocka_unit_test(test_cut_at_every_length),
        cmocka_unit_test(test_flipped_header_bits),
        cmocka_unit_test(test_sizes_that_wrap),
        cmocka_unit_test(test_surplus_bytes),
        cmocka_unit_test(test_labels_out_of_range),
        cmocka_unit_test(test_counts_that_disagree),
        cmocka_unit_test(test_files_that_are_too_large),
    };
    return cmocka_run_group_tests(tests, setup_files, remove_test_folder);
}
