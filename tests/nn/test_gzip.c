/* SPDX-License-Identifier: MIT
 *
 * IDX files compressed by gzip: good ones, and every kind of bad one. Without zlib: that they are refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config.h"
#include "data/dataset.h"
#include "data/idx.h"
#include "files.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

#define MIB ((size_t)1 << 20)
#define COUNT 50
#define SIDE 8
#define PLAIN_BYTES (16 + COUNT * SIDE * SIDE)

#if HAVE_ZLIB
#include <zlib.h>

static uint8_t plain[PLAIN_BYTES], packed[2 * PLAIN_BYTES];
static size_t packed_bytes;

static size_t pack(const void *data, size_t bytes, uint8_t *out, size_t room)
{
    z_stream stream = {
        .next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)bytes, .next_out = out, .avail_out = (uInt)room};

    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, MAX_WBITS + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    (void)deflateEnd(&stream);
    return room - stream.avail_out;
}

static void make_header(uint8_t *header, uint32_t count, uint32_t rows, uint32_t columns)
{
    const uint32_t numbers[4] = {0x803, count, rows, columns};

    for (int i = 0; i < 16; i++)
        header[i] = (uint8_t)(numbers[i / 4] >> (24 - 8 * (i % 4)));
}

static int setup(void **state)
{
    (void)state;
    make_header(plain, COUNT, SIDE, SIDE);
    for (int i = 16; i < PLAIN_BYTES; i++)
        plain[i] = (uint8_t)((unsigned)i * 2654435761U >> 24);
    packed_bytes = pack(plain, PLAIN_BYTES, packed, sizeof packed);
    return 0;
}

/* Refused with found and expected, nothing kept, and nothing allocated for what the file only says. */
static void expect_refused(const uint8_t *file, size_t bytes)
{
    struct idx idx;
    void *content = &idx;

    reset_allocated_bytes();
    assert_int_equal(idx_parse_gzip(&idx, "packed", file, bytes, 3, &content), EXIT_BAD_FILE);
    assert_null(content);
    assert_true(allocated_bytes() <= bytes + MIB);
    assert_non_null(strstr(log_last_error(), "found"));
    assert_non_null(strstr(log_last_error(), "expected"));
}

static void test_packed_file(void **state)
{
    (void)state;
    struct idx idx;
    void *content = NULL;

    assert_int_equal(idx_parse_gzip(&idx, "packed", packed, packed_bytes, 3, &content), EXIT_OK);
    assert_int_equal(idx.size[0], COUNT);
    assert_ptr_equal(idx.values, (uint8_t *)content + 16);
    assert_memory_equal(content, plain, PLAIN_BYTES);
    free(content);
}

static void test_cut_at_every_length(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes < packed_bytes; bytes++)
        expect_refused(packed, bytes);
}

/* A few bits carry no content (time, system, "this is text", what fills the last byte of the data): with any of them
 * flipped the content is the same. All others are noticed. */
static void test_flipped_bits(void **state)
{
    (void)state;
    size_t harmless = 0;

    for (size_t bit = 0; bit < 8 * packed_bytes; bit++) {
        struct idx idx;
        void *content = NULL;
        uint8_t *file = malloc(packed_bytes); /* of its own, for the address sanitizer */
        memcpy(file, packed, packed_bytes);
        file[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (idx_parse_gzip(&idx, "packed", file, packed_bytes, 3, &content) == EXIT_OK) {
            assert_memory_equal(content, plain, PLAIN_BYTES);
            harmless++;
            free(content);
        } else {
            expect_refused(file, packed_bytes);
        }
        free(file);
    }
    assert_in_range(harmless, 6 * 8, 6 * 8 + 1 + 7);
}

static void test_surplus_bytes(void **state)
{
    (void)state;
    uint8_t file[sizeof packed + 64] = {0};

    memcpy(file, packed, packed_bytes);
    expect_refused(file, packed_bytes + 1); /* the last four bytes are no length any more */
    memcpy(file + packed_bytes, packed + packed_bytes - 4, 4);
    expect_refused(file, packed_bytes + 4);
    assert_non_null(strstr(log_last_error(), "4 bytes after their end found"));
    memcpy(file + packed_bytes, packed, packed_bytes < 64 ? packed_bytes : 64);
    expect_refused(file, packed_bytes + 64); /* a second member */
}

/* The content is not what its own header says, or more than gzip can pack. */
static void test_headers_that_lie(void **state)
{
    (void)state;
    static const uint32_t sizes[][3] = {{0, SIDE, SIDE},         {COUNT - 1, SIDE, SIDE},
                                        {COUNT + 1, SIDE, SIDE}, {1u << 31, SIDE, SIDE},
                                        {1u << 31, 1u << 31, 4}, {UINT32_MAX, UINT32_MAX, UINT32_MAX},
                                        {COUNT, SIDE, SIDE * 2}, {1u << 20, 1u << 20, 1u << 20}};
    uint8_t changed[PLAIN_BYTES], file[2 * PLAIN_BYTES];

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        memcpy(changed, plain, sizeof changed);
        make_header(changed, sizes[i][0], sizes[i][1], sizes[i][2]);
        expect_refused(file, pack(changed, sizeof changed, file, sizeof file));
    }
    expect_refused(file, pack(plain, PLAIN_BYTES - 1, file, sizeof file));
    expect_refused(file, pack(plain, 15, file, sizeof file)); /* not even a header */
    expect_refused(file, pack(plain, 0, file, sizeof file));

    /* header and trailer say 1 GiB, which so few bytes can't hold; then the trailer alone says more than there is */
    memcpy(changed, plain, sizeof changed);
    make_header(changed, 1u << 24, SIDE, SIDE);
    size_t bytes = pack(changed, sizeof changed, file, sizeof file);
    const uint8_t claim[4] = {16, 0, 0, 64};
    memcpy(file + bytes - 4, claim, 4);
    expect_refused(file, bytes);
    assert_non_null(strstr(log_last_error(), "an unpacked length of 1073741840 found"));
    make_header(changed, COUNT + 1, SIDE, SIDE);
    bytes = pack(changed, sizeof changed, file, sizeof file);
    file[bytes - 4] += SIDE * SIDE;
    expect_refused(file, bytes);
}

/* A whole file of zeros, `bytes` of them behind a header of count x 1024 x 1024 images. New memory. */
static uint8_t *pack_zeros(uint32_t count, size_t bytes, size_t *packed_length)
{
    uint8_t *zeros = calloc(1, 16 + bytes), *file = malloc(bytes / 500 + 1024);

    assert_true(zeros && file);
    make_header(zeros, count, 1024, 1024);
    *packed_length = pack(zeros, 16 + bytes, file, bytes / 500 + 1024);
    free(zeros);
    return file;
}

static void put_length(uint8_t *end, uint32_t length)
{
    for (int i = 0; i < 4; i++)
        end[i - 4] = (uint8_t)(length >> (8 * i));
}

/* 64 KiB that unpack to 64 MiB, where header, end, or both say that it is less; and cut. */
static void test_bombs(void **state)
{
    (void)state;
    size_t bytes;
    uint8_t *file = pack_zeros(1, 64 * MIB, &bytes);

    assert_true(bytes < MIB / 4);
    expect_refused(file, bytes);
    assert_non_null(strstr(log_last_error(), "67108864 bytes of values found, expected 1048576"));
    put_length(file + bytes, 16 + MIB); /* both agree on one image: 1 MiB is allocated, and not a byte more is unpacked */
    struct idx idx;
    void *content = &idx;
    reset_allocated_bytes();
    assert_int_equal(idx_parse_gzip(&idx, "packed", file, bytes, 3, &content), EXIT_BAD_FILE);
    assert_true(allocated_bytes() <= bytes + 2 * MIB);
    assert_non_null(strstr(log_last_error(), "more unpacked bytes found, expected 1048592"));
    free(file);

    file = pack_zeros(64, 64 * MIB, &bytes); /* true, but cut in the middle, with the right end behind it */
    put_length(file + bytes / 2, 16 + 64 * MIB);
    expect_refused(file, bytes / 2);
    free(file);
}

/* A file that could unpack to 1 GiB and a bit: no more than a file that is not compressed may have. */
static void test_more_than_a_file_may_have(void **state)
{
    (void)state;
    size_t noise = 3 * MIB / 2, bytes;
    uint8_t *content = malloc(16 + noise), *file = malloc(2 * noise);

    assert_true(content && file);
    make_header(content, 1 << 24, SIDE, SIDE);
    for (size_t i = 0; i < noise; i++)
        content[16 + i] = (uint8_t)((uint32_t)i * 2654435761U >> 24 ^ i >> 3);
    bytes = pack(content, 16 + noise, file, 2 * noise);
    memset(file + bytes, 0, noise); /* long enough for deflate to reach 1 GiB, as far as anybody can tell from outside */
    bytes = bytes > 5 * MIB / 4 ? bytes : 5 * MIB / 4;
    put_length(file + bytes, 16 + (1u << 30));
    expect_refused(file, bytes);
    assert_non_null(strstr(log_last_error(), "an unpacked length of 1073741840 found, expected at most 1073741824"));
    free(content);
    free(file);
}

static void put_packed(const char *name, const void *data, size_t bytes)
{
    uint8_t file[2 * PLAIN_BYTES];

    put_file(test_path(name), file, pack(data, bytes, file, sizeof file));
}

/* A folder with all names that are in use; a packed file is known by its content. */
static void test_folder_of_packed_files(void **state)
{
    (void)state;
    struct dataset dataset;
    const uint32_t indices[2] = {3, COUNT + 3};
    float values[2][SIDE * SIDE];
    int32_t classes[2];
    uint8_t labels[8 + COUNT] = {0, 0, 8, 1, 0, 0, 0, COUNT};

    labels[8 + 3] = 7;
    put_packed("train-images-idx3-ubyte.gz", plain, PLAIN_BYTES);
    put_packed("train-labels.idx1-ubyte.gz", labels, sizeof labels);
    put_packed("t10k-images-idx3-ubyte", plain, PLAIN_BYTES);
    put_file(test_path("t10k-labels-idx1-ubyte"), labels, sizeof labels);
    assert_int_equal(dataset_open(&dataset, test_path("."), 0), EXIT_OK);
    assert_int_equal(dataset.train_count, COUNT);
    dataset_gather(&dataset, indices, 2, values[0], classes);
    for (size_t j = 0; j < SIDE * SIDE; j++)
        assert_true(values[0][j] == (float)plain[16 + 3 * SIDE * SIDE + j] / 255);
    assert_memory_equal(values[0], values[1], sizeof values[0]);
    assert_int_equal(classes[0], 7);
    assert_int_equal(classes[1], 7);
    dataset_close(&dataset);

    labels[8 + 9] = 10;
    put_packed("train-labels.idx1-ubyte.gz", labels, sizeof labels);
    assert_int_equal(dataset_open(&dataset, test_path("."), 0), EXIT_BAD_FILE);
    assert_non_null(strstr(log_last_error(), "byte 17: label 10 found, expected 0 to 9"));
}

int main(void)
{
    log_set_program("test_gzip");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packed_file),      cmocka_unit_test(test_cut_at_every_length),
        cmocka_unit_test(test_flipped_bits),     cmocka_unit_test(test_surplus_bytes),
        cmocka_unit_test(test_headers_that_lie), cmocka_unit_test(test_bombs),
        cmocka_unit_test(test_more_than_a_file_may_have), cmocka_unit_test(test_folder_of_packed_files),
    };
    return cmocka_run_group_tests(tests, setup, remove_test_folder);
}

#else

static void test_refused(void **state)
{
    (void)state;
    static const uint8_t packed[32] = {0x1f, 0x8b, 8};
    struct dataset dataset;

    put_file(test_path("train-images-idx3-ubyte.gz"), packed, sizeof packed);
    assert_int_equal(dataset_open(&dataset, test_path("."), 0), EXIT_RESOURCE);
    assert_non_null(strstr(log_last_error(), "gunzip"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, remove_test_folder);
}

#endif
