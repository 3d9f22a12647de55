/* SPDX-License-Identifier: MIT
 *
 * Files without a header: CIFAR's records, and texts.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "data/cifar.h"
#include "data/text.h"
#include "files.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

#define MIB ((size_t)1 << 20)

/* ---- CIFAR: its own form, in small ---- */

#define TRAIN_A 3
#define TRAIN_B 2
#define TEST 2

static struct cifar_format small;
static uint8_t file[TRAIN_A * (2 + CIFAR_PIXELS) + 8];

/* Record r of a file: label r + 1, pixel i = r * 50 + i * 7 + seed. */
static size_t make_records(size_t records, unsigned seed)
{
    size_t at = 0;

    for (size_t r = 0; r < records; r++) {
        for (size_t i = 0; i < small.label_bytes; i++)
            file[at++] = i + 1 == small.label_bytes ? (uint8_t)(r + 1) : 99;
        for (size_t i = 0; i < CIFAR_PIXELS; i++)
            file[at++] = (uint8_t)(r * 50 + i * 7 + seed);
    }
    return at;
}

static void make_folder(size_t label_bytes)
{
    small = cifar10;
    small.label_bytes = label_bytes;
    const char *const files[] = {"a.bin", "b.bin", "c.bin"};
    const size_t records[] = {TRAIN_A, TRAIN_B, TEST};
    for (int i = 0; i < DATASET_BLOCKS; i++) {
        small.files[i] = i < 3 ? files[i] : NULL;
        small.records[i] = i < 3 ? records[i] : 0;
        if (i < 3)
            put_file(test_path(files[i]), file, make_records(records[i], (unsigned)i));
    }
}

static int open_small(struct dataset *dataset)
{
    *dataset = (struct dataset){0};
    return dataset_open_cifar(dataset, test_path("."), &small);
}

/* Sample 4 is record 1 of the second file. */
static void test_cifar_samples(void **state)
{
    (void)state;
    struct dataset dataset;
    const uint32_t indices[2] = {4, TRAIN_A + TRAIN_B};
    static float values[2][CIFAR_PIXELS];
    int32_t labels[2];

    for (size_t label_bytes = 1; label_bytes <= 2; label_bytes++) {
        make_folder(label_bytes);
        assert_int_equal(open_small(&dataset), EXIT_OK);
        assert_int_equal(dataset.train_count, TRAIN_A + TRAIN_B);
        assert_int_equal(dataset.test_count, TEST);
        assert_int_equal(dataset.shape.inputs, 32 * 32 * 3);
        dataset_gather(&dataset, indices, 2, values[0], labels);
        assert_int_equal(labels[0], 2);
        assert_int_equal(labels[1], 1);
        for (size_t p = 0; p < 1024; p++) {
            for (size_t c = 0; c < 3; c++) {
                double pixel = (uint8_t)(50 + (c * 1024 + p) * 7 + 1);
                double expected = (pixel / 255 - (double)small.mean[c]) / (double)small.deviation[c];
                assert_true(fabs((double)values[0][p * 3 + c] - expected) < 1e-5);
            }
        }
        dataset_close(&dataset);
    }
}

static void expect_refused(const uint8_t *content, size_t bytes, const char *name)
{
    struct dataset dataset;

    put_file(test_path(name), content, bytes);
    reset_allocated_bytes();
    assert_int_equal(open_small(&dataset), EXIT_BAD_FILE);
    assert_true(allocated_bytes() <= 10 * sizeof file + MIB);
    assert_non_null(strstr(log_last_error(), "found"));
    assert_non_null(strstr(log_last_error(), "expected"));
    dataset_close(&dataset);
}

/* Cut anywhere, after a record too; too long by a byte, or by a record. */
static void test_cifar_lengths(void **state)
{
    (void)state;
    make_folder(1);
    size_t bytes = make_records(TRAIN_B + 1, 1), right = TRAIN_B * (1 + CIFAR_PIXELS);
    for (size_t cut = 0; cut < 64; cut++)
        expect_refused(file, cut, "b.bin");
    expect_refused(file, right - 1, "b.bin");
    expect_refused(file, right / TRAIN_B, "b.bin");
    expect_refused(file, right + 1, "b.bin");
    expect_refused(file, bytes, "b.bin");
    for (int i = 0; i < 2; i++) {
        struct dataset dataset;
        assert_int_equal(truncate(test_path("b.bin"), (off_t)1 << (31 + i)), 0);
        reset_allocated_bytes();
        assert_int_equal(open_small(&dataset), EXIT_BAD_FILE);
        assert_true(allocated_bytes() <= sizeof file + MIB);
        dataset_close(&dataset);
    }
}

static void test_cifar_labels(void **state)
{
    (void)state;
    make_folder(1);
    for (unsigned label = 10; label < 256; label++) {
        size_t bytes = make_records(TEST, 2);
        file[1 + CIFAR_PIXELS] = (uint8_t)label;
        expect_refused(file, bytes, "c.bin");
        assert_non_null(strstr(log_last_error(), "byte 3073: label"));
    }
    make_folder(1);
    assert_int_equal(unlink(test_path("b.bin")), 0);
    struct dataset dataset;
    assert_int_equal(open_small(&dataset), EXIT_BAD_FILE);
    assert_non_null(strstr(log_last_error(), "b.bin"));
    dataset_close(&dataset);
}

/* The published sizes, by name: files of zeros that take no room on the disk. */
static void test_cifar_folders(void **state)
{
    (void)state;
    static const struct cifar_format *const formats[] = {&cifar10, &cifar100};
    struct dataset dataset;

    for (int f = 0; f < 2; f++) {
        for (int i = 0; formats[f]->files[i]; i++) {
            put_file(test_path(formats[f]->files[i]), "", 0);
            off_t bytes = (off_t)(formats[f]->records[i] * (formats[f]->label_bytes + CIFAR_PIXELS));
            assert_int_equal(truncate(test_path(formats[f]->files[i]), bytes), 0);
        }
        assert_int_equal(dataset_open(&dataset, test_path("."), 0), EXIT_OK);
        assert_string_equal(dataset.name, formats[f]->name);
        assert_int_equal(dataset.train_count, 50000);
        assert_int_equal(dataset.test_count, 10000);
        assert_int_equal(dataset.shape.classes, f ? 100 : 10);
        dataset_close(&dataset);
        for (int i = 0; formats[f]->files[i]; i++)
            assert_int_equal(unlink(test_path(formats[f]->files[i])), 0);
    }
}

/* ---- texts ---- */

static void open_text(struct dataset *dataset, size_t bytes)
{
    static uint8_t text[1000];

    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (uint8_t)(i * 31 + i / 256);
    put_file(test_path("text"), text, bytes);
    assert_int_equal(dataset_open(dataset, test_path("text"), 0), EXIT_OK);
}

/* 1000 bytes are 111 windows of 9: 100 for training, 11 for the test, a byte is left. */
static void test_text_windows(void **state)
{
    (void)state;
    struct dataset dataset;
    const uint32_t indices[2] = {110, 0};
    int32_t tokens[2][8], targets[2][8];

    open_text(&dataset, 1000);
    assert_int_equal(dataset_fit(&dataset, &(struct sample_shape){8, 8, 300, true}), EXIT_OK);
    assert_int_equal(dataset.train_count, 100);
    assert_int_equal(dataset.test_count, 11);
    assert_int_equal(dataset.shape.inputs, 8);
    assert_true(dataset.shape.tokens);
    dataset_gather(&dataset, indices, 2, tokens, targets[0]);
    for (size_t j = 0; j < 8; j++) {
        size_t at = 110 * 9 + j;
        assert_int_equal(tokens[0][j], (at * 31 + at / 256) % 256);
        assert_int_equal(targets[0][j], ((at + 1) * 31 + (at + 1) / 256) % 256);
        assert_int_equal(tokens[1][j], j * 31);
        assert_int_equal(targets[1][j], (j + 1) * 31 % 256);
    }
    dataset_close(&dataset);
}

static void test_text_models(void **state)
{
    (void)state;
    struct dataset dataset;

    open_text(&dataset, 1000);
    assert_int_equal(dataset_fit(&dataset, &(struct sample_shape){8, 1, 300, false}), EXIT_USAGE);
    assert_non_null(strstr(log_last_error(), "model of tokens"));
    assert_int_equal(dataset_fit(&dataset, &(struct sample_shape){8, 8, 255, true}), EXIT_USAGE);
    assert_non_null(strstr(log_last_error(), "256"));
    assert_int_equal(dataset_fit(&dataset, &(struct sample_shape){8, 1, 256, true}), EXIT_USAGE);
    assert_int_equal(dataset_fit(&dataset, &(struct sample_shape){0, 0, 256, true}), EXIT_USAGE);
    dataset_close(&dataset);
}

/* Shorter than a sample; and models of any size, whose window would wrap. */
static void test_short_texts(void **state)
{
    (void)state;
    static const size_t blocks[] = {8, 1000, (size_t)1 << 31, (size_t)1 << 32, (size_t)1 << 63, SIZE_MAX};
    struct dataset dataset;

    for (size_t bytes = 0; bytes <= 8; bytes++) {
        for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
            open_text(&dataset, bytes);
            assert_int_equal(dataset_fit(&dataset, &(struct sample_shape){blocks[i], blocks[i], 256, true}),
                             EXIT_BAD_FILE);
            assert_non_null(strstr(log_last_error(), "data text 'text': "));
            dataset_close(&dataset);
        }
    }
    open_text(&dataset, 9);
    assert_int_equal(dataset_fit(&dataset, &(struct sample_shape){8, 8, 256, true}), EXIT_OK);
    assert_int_equal(dataset.train_count, 1);
    assert_int_equal(dataset.test_count, 0);
    dataset_close(&dataset);
    assert_int_equal(truncate(test_path("text"), (off_t)1 << 32), 0);
    reset_allocated_bytes();
    assert_int_equal(dataset_open(&dataset, test_path("text"), 0), EXIT_BAD_FILE);
    assert_true(allocated_bytes() < MIB);
    assert_int_equal(dataset_open(&dataset, "/dev/null", 0), EXIT_BAD_FILE);
}

int main(void)
{
    log_set_program("test_cifar_text");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cifar_samples), cmocka_unit_test(test_cifar_lengths), cmocka_unit_test(test_cifar_labels),
        cmocka_unit_test(test_cifar_folders), cmocka_unit_test(test_text_windows),  cmocka_unit_test(test_text_models),
        cmocka_unit_test(test_short_texts),
    };
    return cmocka_run_group_tests(tests, NULL, remove_test_folder);
}
