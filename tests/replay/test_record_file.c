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
#include "sys/checksum.h"
#include "sys/log.h"
#include "sys/random.h"

#define ENTRIES 15

static const char strings[] = "\0kernel\0forward\0step_begin\0step_end\0all_reduce\0cudaLaunchKernel"
                              "\0exit_code\0000\0job_give\0job_begin\0job_end\0job_join\0event\0copy\0phase";
enum {
    EMPTY,
    KERNEL,
    FORWARD,
    STEP_BEGIN,
    STEP_END,
    ALL_REDUCE,
    LAUNCH,
    EXIT_CODE,
    ZERO,
    JOB_GIVE,
    JOB_BEGIN,
    JOB_END,
    JOB_JOIN,
    EVENT,
    COPY,
    PHASE,
    STRINGS
};

struct file {
    struct soft_record_header header;
    char text[136];
    struct soft_record_entry entries[ENTRIES];
};

static void seal(struct file *file)
{
    file->header.checksum = checksum(CHECKSUM_SEED, &file->header + 1, sizeof(*file) - sizeof(file->header));
}

static struct soft_record_entry note(uint32_t name, uint16_t thread, uint64_t at, uint32_t number)
{
    return (struct soft_record_entry){.kind = SOFT_RECORD_NOTE,
                                      .thread = thread,
                                      .device = -1,
                                      .name = name,
                                      .start_ns = at,
                                      .end_ns = at,
                                      .mark = number};
}

static struct soft_record_entry task(int kind, uint16_t stream, uint64_t number, uint64_t at, uint32_t mark)
{
    return (struct soft_record_entry){.kind = (uint16_t)(SOFT_RECORD_TASK + kind),
                                      .thread = 1,
                                      .stream = stream,
                                      .name = kind == SOFT_TASK_COPY ? COPY : EVENT,
                                      .task = number,
                                      .start_ns = at,
                                      .end_ns = at,
                                      .enqueued_ns = at,
                                      .bytes = kind == SOFT_TASK_COPY ? 700 : 0,
                                      .mark = mark};
}

/* One step: a kernel and an all-reduce of one rank, a copy to the host behind them, a job of another thread. */
static struct file good_file(void)
{
    struct file file = {.header = {.version = SOFT_RECORD_VERSION,
                                   .entry_bytes = sizeof(struct soft_record_entry),
                                   .string_count = STRINGS,
                                   .string_bytes = sizeof(file.text),
                                   .entry_count = ENTRIES}};
    memcpy(file.header.magic, SOFT_RECORD_MAGIC, 8);
    memcpy(file.text, strings, sizeof(strings));
    struct soft_record_facts facts = {
        .kind = SOFT_RECORD_FACTS, .ranks = 1, .name = ALL_REDUCE, .number = 5, .count = 10, .type = 7};
    memcpy(&file.entries[0], &facts, sizeof(facts));
    file.entries[1] = (struct soft_record_entry){
        .kind = SOFT_RECORD_NOTE, .thread = 1, .device = -1, .name = STEP_BEGIN, .start_ns = 10, .end_ns = 10};
    file.entries[2] = (struct soft_record_entry){
        .kind = SOFT_RECORD_HOST_CALL, .thread = 1, .stream = 1, .name = LAUNCH, .start_ns = 11, .end_ns = 13};
    file.entries[3] = (struct soft_record_entry){.kind = SOFT_RECORD_TASK,
                                                 .thread = 1,
                                                 .stream = 1,
                                                 .name = KERNEL,
                                                 .range = FORWARD,
                                                 .task = 3,
                                                 .start_ns = 14,
                                                 .end_ns = 15,
                                                 .enqueued_ns = 12,
                                                 .flops = 5,
                                                 .bytes = 6};
    file.entries[4] = (struct soft_record_entry){.kind = SOFT_RECORD_TASK + SOFT_TASK_COLLECTIVE,
                                                 .thread = 1,
                                                 .stream = 1,
                                                 .name = ALL_REDUCE,
                                                 .task = 4,
                                                 .start_ns = 16,
                                                 .end_ns = 17,
                                                 .enqueued_ns = 14,
                                                 .bytes = 40,
                                                 .mark = 5};
    file.entries[5] = task(SOFT_TASK_EVENT_RECORD, 1, 5, 15, 9);
    file.entries[6] = task(SOFT_TASK_EVENT_WAIT, 2, 0, 16, 9);
    file.entries[7] = task(SOFT_TASK_COPY, 2, 1, 17, 1 << 16);
    file.entries[8] = note(JOB_GIVE, 1, 18, 3);
    file.entries[9] = note(JOB_BEGIN, 2, 19, 3);
    file.entries[10] = note(JOB_END, 2, 20, 3);
    file.entries[11] = note(JOB_JOIN, 1, 21, 3);
    file.entries[12] = (struct soft_record_entry){
        .kind = SOFT_RECORD_HOST_WAIT, .thread = 1, .stream = 2, .task = 2, .start_ns = 22, .end_ns = 23};
    file.entries[13] = note(STEP_END, 1, 24, 0);
    file.entries[14] = (struct soft_record_entry){.kind = SOFT_RECORD_SETTING,
                                                  .thread = 1,
                                                  .device = -1,
                                                  .name = EXIT_CODE,
                                                  .range = ZERO,
                                                  .start_ns = 25,
                                                  .end_ns = 25};
    seal(&file);
    return file;
}

static int read_file(const struct file *file, size_t bytes)
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
    struct file file = good_file();
    struct record_file record;
    struct program program;
    (void)state;
    assert_int_equal(record_parse(&record, "test", &file, sizeof(file)), 0);
    assert_int_equal(program_build(&program, &record), 0);
    assert_int_equal(program.steps, 1);
    assert_int_equal(program.stream_count, 2);
    assert_int_equal(program.thread_count, 2);
    assert_int_equal(program.streams[0].count, 3);
    assert_int_equal(program.streams[1].count, 2);
    assert_string_equal(program.streams[0].tasks[0].name, "kernel");
    assert_int_equal(program.streams[0].tasks[0].range, PLAY_FORWARD);
    assert_true(program.collectives[0].bytes == 40);
    program_close(&program);
    record_close(&record);
}

static void every_cut_is_seen(void **state)
{
    struct file file = good_file();
    (void)state;
    log_set_quiet(true);
    for (size_t bytes = 0; bytes < sizeof(file); bytes++)
        assert_int_equal(read_file(&file, bytes), 4);
}

static void every_flipped_bit_is_seen(void **state)
{
    (void)state;
    for (size_t bit = 0; bit < sizeof(struct file) * 8; bit++) {
        struct file file = good_file();
        ((unsigned char *)&file)[bit / 8] ^= (unsigned char)(1u << bit % 8);
        int status = read_file(&file, sizeof(file));
        size_t byte = bit / 8;
        bool free_field = bit == 16 * 8 || (byte >= 20 && byte < 24); /* shape only; pid: any value */
        assert_int_equal(status, free_field ? 0 : 4);
    }
}

/* The same with a checksum that fits: a liar, not an accident. Refused or believed, never a crash. */
static void liars_do_no_harm(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20000; seed++) {
        struct file file = good_file();
        for (uint64_t i = 0; i < 1 + seed % 4; i++)
            ((unsigned char *)&file)[random_u32(seed, 3, 2 * i) % sizeof(file)] =
                (unsigned char)random_u32(seed, 3, 2 * i + 1);
        seal(&file);
        int status = read_file(&file, sizeof(file));
        assert_true(status == 0 || status == 4);
    }
}

#define REFUSED(change, said)                                                                                          \
    do {                                                                                                               \
        struct file file = good_file();                                                                                \
        change;                                                                                                        \
        seal(&file);                                                                                                   \
        assert_int_equal(read_file(&file, sizeof(file)), 4);                                                           \
        if (!strstr(log_last_error(), said))                                                                           \
            fail_msg("\"%s\" is not in: %s", said, log_last_error());                                                  \
    } while (0)

static void messages_name_place_found_and_expected(void **state)
{
    (void)state;
    REFUSED(file.header.version = 4, "version (offset 8) is 4, expected 1 to 3");
    REFUSED(file.header.string_count = 70000, "string_count (offset 24) is 70000");
    REFUSED(file.header.string_bytes = 1 << 20, "string_bytes (offset 32) is 1048576");
    REFUSED(file.header.entry_count = 16, "entry_count (offset 40) is 16");
    REFUSED(file.entries[3].name = 99, "entry 3 (kind 16): name is 99, expected less than string_count");
    REFUSED(file.entries[3].bytes = -1, "entry 3 (kind 16): bytes is -1, expected 0 to 1e18");
    REFUSED(file.entries[3].stream = 0, "stream is 0, expected at least 1");
    REFUSED(file.entries[3].kind = 9, "kind is 9, expected 1 to 6 or 16 to 22");
    REFUSED(file.entries[3].device = 64, "device is 64");
    REFUSED(file.entries[3].task = 9, "task 9 follows task 5, expected 6");
    REFUSED(file.entries[4].mark = 6, "has the number 6");
}

/* How the run ended is known from version 3 on; that a step broke off can be seen in all. */
static void a_run_that_failed_is_refused(void **state)
{
    (void)state;
    REFUSED(file.entries[14].range = FORWARD, "setting exit_code is forward, expected 0");
    REFUSED(file.entries[14].name = FORWARD, "has no setting exit_code, expected exit_code = 0");
    REFUSED(file.header.version = 2, "version (offset 8) is 2, expected 3: it has the setting exit_code");
    REFUSED(file.entries[13].name = PHASE, "entry 1: step 0 begins, expected that it ends too");
    struct file file = good_file();
    file.header.version = 2;
    file.entries[14].name = FORWARD;
    seal(&file);
    assert_int_equal(read_file(&file, sizeof(file)), 0);
    file.entries[13].name = PHASE;
    seal(&file);
    assert_int_equal(read_file(&file, sizeof(file)), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_file_is_read),
        cmocka_unit_test(every_cut_is_seen),
        cmocka_unit_test(every_flipped_bit_is_seen),
        cmocka_unit_test(liars_do_no_harm),
        cmocka_unit_test(messages_name_place_found_and_expected),
        cmocka_unit_test(a_run_that_failed_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
