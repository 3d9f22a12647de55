/* SPDX-License-Identifier: MIT
 *
 * Files of tensors: written and read back, cut, flipped, and crafted with a right checksum and wrong contents.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config.h"
#include "data/tensors.h"
#include "files.h"
#include "sys/checksum.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

#define MIB ((size_t)1 << 20)

static float weight[6] = {1, -2, 3.5f, 1e-30f, INFINITY, -0.0f}, scalar[1] = {7};
static const struct tensor_view views[] = {
    {"net.0.weight", {2, 3}, 2, 6, weight},
    {"a \"quoted\\name\"", {0}, 0, 1, scalar},
    {"empty", {0, 5}, 2, 0, NULL},
};
static const struct tensor_text metadata[] = {{"step", "17"}, {"note", "two\nlines \x01 and \"quotes\""}};

static const char *write_example(void)
{
    const char *path = test_path("example.safetensors");
    assert_int_equal(tensors_write(path, views, 3, metadata, 2), EXIT_OK);
    return path;
}

#if HAVE_CJSON

static void test_read_back(void **state)
{
    (void)state;
    struct tensor_file file;
    assert_int_equal(tensors_read(write_example(), &file), EXIT_OK);
    assert_int_equal(file.count, 3);
    for (size_t i = 0; i < 3; i++) {
        const struct tensor_view *found = tensors_find(&file, views[i].name);
        assert_non_null(found);
        assert_int_equal(found->dims, views[i].dims);
        assert_int_equal(found->count, views[i].count);
        assert_memory_equal(found->shape, views[i].shape, (size_t)views[i].dims * sizeof found->shape[0]);
        if (views[i].count)
            assert_memory_equal(found->data, views[i].data, views[i].count * sizeof(float));
    }
    assert_null(tensors_find(&file, "net.0.bias"));
    assert_string_equal(tensors_metadata(&file, "step"), "17");
    assert_string_equal(tensors_metadata(&file, "note"), metadata[1].value);
    assert_null(tensors_metadata(&file, "seed"));
    tensors_close(&file);
}

/* Control characters are escaped, as JSON wants it, also where cJSON would not mind. */
static void test_header_is_strict_json(void **state)
{
    (void)state;
    size_t bytes;
    char *data = get_file(write_example(), &bytes);
    size_t header = (unsigned char)data[0] + 256 * (size_t)(unsigned char)data[1];
    for (size_t i = 8; i < 8 + header; i++)
        assert_true(data[i] >= 0x20 && data[i] < 0x7f);
    assert_int_equal((8 + header) % 64, 0);
    free(data);
}

/* ---- damage: whatever happened to the bytes, nothing is loaded ---- */

static void expect_refused(const char *path, const void *data, size_t bytes)
{
    struct tensor_file file;
    put_file(path, data, bytes);
    reset_allocated_bytes();
    assert_int_equal(tensors_read(path, &file), EXIT_BAD_FILE);
    assert_true(allocated_bytes() <= bytes + MIB);
    assert_non_null(strstr(log_last_error(), "found"));
    assert_non_null(strstr(log_last_error(), "expected"));
    assert_null(file.views);
    assert_null(file.data);
}

static void test_cut_at_every_length(void **state)
{
    (void)state;
    size_t bytes;
    char *data = get_file(write_example(), &bytes);
    for (size_t cut = 0; cut < bytes; cut++)
        expect_refused(test_path("cut"), data, cut);
    free(data);
}

static void test_every_flipped_bit(void **state)
{
    (void)state;
    size_t bytes;
    char *data = get_file(write_example(), &bytes);
    for (size_t bit = 0; bit < 8 * bytes; bit++) {
        data[bit / 8] ^= (char)(1 << bit % 8);
        expect_refused(test_path("flipped"), data, bytes);
        data[bit / 8] ^= (char)(1 << bit % 8);
    }
    free(data);
}

static void test_surplus_byte(void **state)
{
    (void)state;
    size_t bytes;
    char *data = get_file(write_example(), &bytes);
    data = realloc(data, bytes + 1);
    assert_non_null(data);
    data[bytes] = 0;
    expect_refused(test_path("surplus"), data, bytes + 1);
    free(data);
}

static void test_header_lengths(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {
        0, 1, 56, 120, 1u << 17, UINT64_C(1) << 31, UINT64_C(1) << 32, UINT64_C(1) << 63, UINT64_MAX, UINT64_MAX - 7};
    size_t bytes;
    char *data = get_file(write_example(), &bytes);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        for (int b = 0; b < 8; b++)
            data[b] = (char)(lengths[i] >> (8 * b));
        expect_refused(test_path("length"), data, bytes);
    }
    free(data);
}

/* ---- crafted files: the checksum is right, so each check stands for itself ---- */

/* A file with this header (behind the checksum) and `data_bytes` zeros of data; returns its bytes. */
static size_t craft(char *file, const char *rest, size_t data_bytes)
{
    int length = sprintf(file + 8, "{\"__metadata__\":{\"checksum\":\"%016d\"%s", 0, rest);
    while ((length + 8) % 64)
        file[8 + length++] = ' ';
    for (int b = 0; b < 8; b++)
        file[b] = (char)((uint64_t)length >> (8 * b));
    size_t bytes = 8 + (size_t)length + data_bytes;
    memset(file + 8 + length, 0, data_bytes);
    uint64_t sum = checksum(CHECKSUM_SEED, file, 37); /* the digits stand at byte 37 */
    sum = checksum(sum, file + 37, 16);
    sum = checksum(sum, file + 53, bytes - 53);
    char digits[17];
    sprintf(digits, "%016llx", (unsigned long long)sum);
    memcpy(file + 37, digits, 16);
    return bytes;
}

#define A(type, shape, offsets) "\"a\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void test_crafted_headers(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "}",                                                    /* not closed */
        "}," A("F32", "[4]", "[0,16]") "}x",                    /* more behind the end */
        "}," A("F16", "[4]", "[0,16]") "}",                     /* another type */
        "},\"a\":{\"shape\":[4],\"data_offsets\":[0,16]}}",     /* no type */
        "},\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,16]}}", /* no shape */
        "},\"a\":{\"dtype\":\"F32\",\"shape\":[4]}}",           /* no offsets */
        "}," A("F32", "[4]", "[0]") "}",                        /* one offset */
        "}," A("F32", "[4]", "[0,20]") "}",                     /* shape and offsets disagree */
        "}," A("F32", "[4]", "[4,20]") "}",                     /* a gap */
        "}," A("F32", "[4]", "[4,16]") "}",
        "}," A("F32", "[-4]", "[0,-16]") "}",
        "}," A("F32", "[4.5]", "[0,16]") "}",
        "}," A("F32", "[1e300]", "[0,16]") "}",
        "}," A("F32", "[\"4\"]", "[0,16]") "}",
        "}," A("F32", "[1,1,1,1,4]", "[0,16]") "}",                      /* five dimensions */
        "}," A("F32", "[4294967296,4294967296]", "[0,0]") "}",           /* 2^64 elements */
        "}," A("F32", "[8589672452,2147549185]", "[0,16]") "}",          /* 2^64 + 4 */
        "}," A("F32", "[4611686018427387908]", "[0,16]") "}",            /* 2^64 + 16 bytes */
        "}," A("F32", "[3]", "[0,12]") "}",                              /* data left over */
        "}," A("F32", "[5]", "[0,20]") "}",                              /* more than there is */
        "}," A("F32", "[4]", "[0,16]") "," A("F32", "[1]", "[0,4]") "}", /* two over the same bytes */
        "},\"a\":[]}",
        "},\"a\":7}",
        "},\"a\":null}",
        ",\"step\":7}," A("F32", "[4]", "[0,16]") "}", /* metadata that is no text */
        ",\"step\":{}}," A("F32", "[4]", "[0,16]") "}",
    };
    char file[1024];
    struct tensor_file tensors;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        expect_refused(test_path("crafted"), file, craft(file, bad[i], 16));

    const char *path = test_path("crafted"); /* and the craftsman knows how to make a good one */
    put_file(path, file, craft(file, "}," A("F32", "[4]", "[0,16]") "}", 16));
    assert_int_equal(tensors_read(path, &tensors), EXIT_OK);
    tensors_close(&tensors);
}

/* A header of brackets would make a JSON library allocate 64 bytes for each of its bytes. */
static void test_header_of_many_values(void **state)
{
    (void)state;
    size_t most = 200000;
    char *rest = calloc(1, most + 1), *file = calloc(1, most + 1024);
    assert_true(rest && file);
    static const size_t counts[] = {1000, 8192, 60000, 100000, 199000};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        memset(rest, '[', counts[i]);
        memcpy(rest, "},\"a\":", 6);
        rest[counts[i]] = '\0';
        expect_refused(test_path("many"), file, craft(file, rest, 16));
        for (size_t j = 7; j + 1 < counts[i]; j += 2)
            memcpy(rest + j, "1,", 2);
        expect_refused(test_path("many"), file, craft(file, rest, 16));
    }
    free(rest);
    free(file);
}

static void test_no_file(void **state)
{
    (void)state;
    struct tensor_file file;
    assert_int_equal(tensors_read(test_path("none"), &file), EXIT_BAD_FILE);
    assert_null(file.views);
}

#else

static void test_reading_without_cjson(void **state)
{
    (void)state;
    struct tensor_file file;
    assert_int_equal(tensors_read(write_example(), &file), EXIT_RESOURCE);
    assert_non_null(strstr(log_last_error(), "cJSON"));
    tensors_close(&file);
}

#endif

static void test_unwritable(void **state)
{
    (void)state;
    assert_int_equal(tensors_write("/no-such-folder/file", views, 3, metadata, 2), EXIT_RESOURCE);
}

static void test_difference(void **state)
{
    (void)state;
    static const float a[3] = {1, 2, 4}, b[3] = {1, 2, 5}, zeros[3] = {0}, nans[3] = {1, NAN, 4},
                       infinite[3] = {1, INFINITY, 4};
    assert_true(tensor_difference(a, a, 3) == 0);
    assert_true(tensor_difference(zeros, zeros, 3) == 0);
    assert_true(fabs(tensor_difference(a, b, 3) - 0.2) < 1e-12);
    assert_true(isinf(tensor_difference(a, zeros, 3)));
    assert_true(isnan(tensor_difference(nans, a, 3)));
    assert_true(isnan(tensor_difference(a, nans, 3)));
    assert_true(isnan(tensor_difference(infinite, infinite, 3)));
}

int main(void)
{
    log_set_program("test_tensors");
    const struct CMUnitTest tests[] = {
#if HAVE_CJSON
        cmocka_unit_test(test_read_back),
        cmocka_unit_test(test_header_is_strict_json),
        cmocka_unit_test(test_cut_at_every_length),
        cmocka_unit_test(test_every_flipped_bit),
        cmocka_unit_test(test_surplus_byte),
        cmocka_unit_test(test_header_lengths),
        cmocka_unit_test(test_crafted_headers),
        cmocka_unit_test(test_header_of_many_values),
        cmocka_unit_test(test_no_file),
#else
        cmocka_unit_test(test_reading_without_cjson),
#endif
        cmocka_unit_test(test_unwritable),
        cmocka_unit_test(test_difference),
    };
    return cmocka_run_group_tests(tests, NULL, remove_test_folder);
}
