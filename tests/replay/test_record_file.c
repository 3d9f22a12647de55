/* SPDX-License-Identifier: MIT
 *
 * The reader and cut, damaged and lying records: each is refused with place, found and expected, or believed; never a
 * crash.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "program.h"
#include "small_record.h"
#include "sys/checksum.h"
#include "sys/log.h"
#include "sys/random.h"

static int read_file(const struct small_record *file, size_t bytes)
{
    struct record_file record;
    struct program program;
    int status = record_parse(&record, "test", file, bytes);
    if (status)
        return status;
    status = program_build(&program, &record);
    if (!status)
        program_close(&program);
    record_close(&record);
    return status;
}

static void a_good_file_is_read(void **state)
{
    struct small_record file = small_record();
    struct record_file record;
    struct program program;
    (void)state;
    assert_int_equal(record_parse(&record, "test", &file, sizeof(file)), 0);
    assert_int_equal(program_build(&program, &record), 0);
    assert_int_equal(program.steps, 1);
    assert_int_equal(program.stream_count, 1);
    assert_int_equal(program.streams[0].count, 2);
    assert_string_equal(program.streams[0].tasks[0].name, "kernel");
    assert_int_equal(program.streams[0].tasks[0].range, PLAY_FORWARD);
    assert_true(program.collectives[0].bytes == 40);
    program_close(&program);
    record_close(&record);
}

static void every_cut_is_seen(void **state)
{
    struct small_record file = small_record();
    (void)state;
    log_set_quiet(true);
    for (size_t bytes = 0; bytes < sizeof(file); bytes++)
        assert_int_equal(read_file(&file, bytes), 4);
}

static void every_flipped_bit_is_seen(void **state)
{
    (void)state;
    for (size_t bit = 0; bit < sizeof(struct small_record) * 8; bit++) {
        struct small_record file = small_record();
        ((unsigned char *)&file)[bit / 8] ^= (unsigned char)(1u << bit % 8);
        int status = read_file(&file, sizeof(file));
        size_t byte = bit / 8;
        bool free_field = byte >= 16 && byte < 24; /* flags, pid: any value */
        assert_int_equal(status, free_field ? 0 : 4);
    }
}

/* The same with a checksum that fits: a liar, not an accident. Refused or believed, never a crash. */
static void liars_do_no_harm(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20000; seed++) {
        struct small_record file = small_record();
        for (uint64_t i = 0; i < 1 + seed % 4; i++)
            ((unsigned char *)&file)[random_u32(seed, 3, 2 * i) % sizeof(file)] =
                (unsigned char)random_u32(seed, 3, 2 * i + 1);
        small_record_seal(&file);
        int status = read_file(&file, sizeof(file));
        assert_true(status == 0 || status == 4);
    }
}

#define REFUSED(change, said)                                                                                          \
    do {                                                                                                               \
        struct small_record file = small_record();                                                                                \
        change;                                                                                                        \
        small_record_seal(&file);                                                                                                   \
        assert_int_equal(read_file(&file, sizeof(file)), 4);                                                           \
        if (!strstr(log_last_error(), said))                                                                           \
            fail_msg("\"%s\" is not in: %s", said, log_last_error());                                                  \
    } while (0)

static void messages_name_place_found_and_expected(void **state)
{
    (void)state;
    REFUSED(file.header.version = 3, "version (offset 8) is 3, expected 1 or 2");
    REFUSED(file.header.string_count = 70000, "string_count (offset 24) is 70000");
    REFUSED(file.header.string_bytes = 1 << 20, "string_bytes (offset 32) is 1048576");
    REFUSED(file.header.entry_count = 7, "entry_count (offset 40) is 7");
    REFUSED(file.entries[3].name = 99, "entry 3 (kind 16): name is 99, expected less than string_count");
    REFUSED(file.entries[3].bytes = -1, "entry 3 (kind 16): bytes is -1, expected 0 to 1e18");
    REFUSED(file.entries[3].stream = 0, "stream is 0, expected at least 1");
    REFUSED(file.entries[3].kind = 9, "kind is 9, expected 1 to 6 or 16 to 22");
    REFUSED(file.entries[3].device = 64, "device is 64");
    REFUSED(file.entries[3].task = 9, "task 9 follows task 4, expected 5");
    REFUSED(file.entries[4].mark = 6, "has the number 6");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_file_is_read),
        cmocka_unit_test(every_cut_is_seen),
        cmocka_unit_test(every_flipped_bit_is_seen),
        cmocka_unit_test(liars_do_no_harm),
        cmocka_unit_test(messages_name_place_found_and_expected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
