/* SPDX-License-Identifier: MIT
 *
 * What the reader allocates, counted: never more than the file's size and 1 MiB, whatever numbers stand in it; and what
 * a program of it allocates stays in proportion to the file. The linker puts this file's malloc, calloc, realloc and
 * free in the place of the C library's for the replay's code.
 */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "program.h"
#include "small_record.h"
#include "sys/checksum.h"
#include "sys/file.h"
#include "sys/log.h"

#define MIB ((size_t)1 << 20)

static size_t held, most;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void __real_free(void *memory);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void __wrap_free(void *memory);

static void *count(void *memory)
{
    held += memory ? malloc_usable_size(memory) : 0;
    most = held > most ? held : most;
    return memory;
}

void *__wrap_malloc(size_t bytes)
{
    return count(__real_malloc(bytes));
}

void *__wrap_calloc(size_t number, size_t bytes)
{
    return count(__real_calloc(number, bytes));
}

void *__wrap_realloc(void *memory, size_t bytes)
{
    held -= memory ? malloc_usable_size(memory) : 0;
    return count(__real_realloc(memory, bytes));
}

void __wrap_free(void *memory)
{
    held -= memory ? malloc_usable_size(memory) : 0;
    __real_free(memory);
}

/* Writes the bytes to a file and loads it; the most that was allocated at a time goes to *peak. */
static int load(const void *data, size_t bytes, size_t *peak)
{
    char path[] = "/tmp/test_record_memory.XXXXXX";
    struct record_file record;
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0 && write(descriptor, data, bytes) == (ssize_t)bytes);
    close(descriptor);
    size_t before = held;
    most = held;
    int status = record_load(&record, path);
    *peak = most - before;
    unlink(path);
    if (!status)
        record_close(&record);
    assert_int_equal(held, before); /* and nothing is left behind */
    return status;
}

static void small_files_stay_small(void **state)
{
    struct small_record file = small_record();
    size_t peak = 0;
    (void)state;
    assert_int_equal(load(&file, sizeof(file), &peak), 0);
    assert_in_range(peak, sizeof(file), sizeof(file) + MIB);
}

/* Each count of the header at the ends of its range and at every power of two. */
static void damaged_counts_allocate_nothing(void **state)
{
    static const size_t offsets[] = {offsetof(struct soft_record_header, string_count),
                                     offsetof(struct soft_record_header, string_bytes),
                                     offsetof(struct soft_record_header, entry_count)};
    (void)state;
    for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++)
        for (int bit = 0; bit <= 64; bit++)
            for (uint64_t less = 0; less < 2; less++) {
                struct small_record file = small_record();
                uint64_t value = (bit < 64 ? (uint64_t)1 << bit : 0) - less;
                size_t peak = 0;
                if (!memcmp((char *)&file + offsets[i], &value, sizeof(value)))
                    continue;
                memcpy((char *)&file + offsets[i], &value, sizeof(value));
                small_record_seal(&file);
                assert_int_equal(load(&file, sizeof(file), &peak), 4);
                assert_in_range(peak, 0, sizeof(file) + MIB);
            }
}

/* As many strings as may be, of two bytes each: the offsets are all that comes beside the file. */
static void the_most_strings_fit(void **state)
{
    struct small_record small = small_record();
    size_t more = RECORD_MAX_STRINGS - SAY_STRINGS, bytes = sizeof(small) + 2 * more, peak = 0;
    char *file = calloc(1, bytes), *text = file + sizeof(small.header);
    struct soft_record_header *header = (void *)file;
    (void)state;
    assert_non_null(file);
    memcpy(file, &small, sizeof(small.header) + sizeof(small.text));
    size_t used = (size_t)header->string_bytes;
    while (used > 1 && text[used - 2] == 0) /* behind the last string */
        used--;
    for (size_t i = 0; i < more; i++, used += 2)
        text[used] = 'x';
    header->string_bytes = (used + 7) / 8 * 8;
    header->string_count += more;
    bytes = sizeof(small.header) + (size_t)header->string_bytes + sizeof(small.entries);
    memcpy(text + header->string_bytes, small.entries, sizeof(small.entries));
    header->checksum = checksum(CHECKSUM_SEED, header + 1, bytes - sizeof(*header));
    assert_int_equal(load(file, bytes, &peak), 0);
    assert_in_range(peak, bytes, bytes + MIB);
    free(file);
}

/* Programs: lists that double, and a few arrays of an entry's number, are below twice the file. */
static void a_program_is_in_proportion(void **state)
{
    enum { TASKS = 5000 };
    struct small_record small = small_record();
    size_t front = offsetof(struct small_record, entries), bytes = sizeof(small) + TASKS * sizeof(small.entries[0]);
    char *file = calloc(1, bytes);
    struct record_file record;
    struct program program;
    (void)state;
    assert_non_null(file);
    memcpy(file, &small, sizeof(small));
    struct soft_record_header *header = (void *)file;
    struct soft_record_entry *entries = (void *)(file + front);
    for (uint64_t i = 0; i < TASKS; i++) {
        entries[SMALL_ENTRIES + i] = small.entries[7]; /* a copy */
        entries[SMALL_ENTRIES + i].task = 2 + i;
    }
    header->entry_count += TASKS;
    header->checksum = checksum(CHECKSUM_SEED, header + 1, bytes - sizeof(*header));
    assert_int_equal(record_parse(&record, "many", file, bytes), 0);
    size_t before = held;
    most = held;
    assert_int_equal(program_build(&program, &record), 0);
    assert_int_equal(program.streams[1].count, 2 + TASKS);
    assert_in_range(most - before, 0, 2 * bytes);
    program_close(&program);
    assert_int_equal(held, before);
    record_close(&record);
    free(file);
}

int main(void)
{
    log_set_muted(true);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_files_stay_small),
        cmocka_unit_test(damaged_counts_allocate_nothing),
        cmocka_unit_test(the_most_strings_fit),
        cmocka_unit_test(a_program_is_in_proportion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
