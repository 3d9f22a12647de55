/* SPDX-License-Identifier: MIT
 *
 * The reader and cut, damaged and lying records: each is refused with place, found and expected, or believed; never a
 * crash.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph.h"
#include "small_record.h"
#include "sys/log.h"
#include "sys/random.h"

/* On two devices, as the program of one process. */
static int play_it(const struct program *program)
{
    struct machine machine;
    struct play_options options;
    struct play_result result;
    graph_machine(&machine, 2);
    play_options_init(&options);
    options.launch_lock_s = 1e-6;
    int status = play(&result, &program, 1, &machine, &options);
    play_close(&result);
    return status;
}

/* Reads and plays it. */
static int read_file(const struct small_record *file, size_t bytes)
{
    struct record_file record;
    struct program program;
    int status = record_parse(&record, "test", file, bytes);
    if (status)
        return status;
    status = program_build(&program, &record);
    if (!status) {
        status = play_it(&program);
        program_close(&program);
    }
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

/* A thread's own work: each piece's ns. */
static void check_work(const struct thread_list *list, const char *expected)
{
    char text[64] = "";
    for (uint32_t i = 0; i < list->count; i++)
        if (list->operations[i].kind == OP_WORK)
            snprintf(text + strlen(text), sizeof(text) - strlen(text), "%d ", (int)(list->operations[i].ps / 1000));
    assert_string_equal(text, expected);
}

/* Own work is what lies between a thread's calls and notes: 10 .. 11 before the launch (11 .. 13), 13 .. 18 before the
 * job is given, 21 .. 24 behind it; the other thread's 19 .. 20. Not where a thread slept for a job or a lock. */
static void own_work_is_what_lies_between_calls(void **state)
{
    (void)state;
    for (int locked = 0; locked < 2; locked++) {
        struct small_record file = small_record();
        struct record_file record;
        struct program program;
        file.entries[12].kind = locked ? SOFT_RECORD_LOCK_WAIT : SOFT_RECORD_HOST_WAIT; /* 22 .. 23 */
        small_record_seal(&file);
        assert_int_equal(record_parse(&record, "test", &file, sizeof(file)), 0);
        assert_int_equal(program_build(&program, &record), 0);
        assert_int_equal(program.thread_count, 2);
        check_work(&program.threads[0], locked ? "1 5 2 " : "1 5 3 ");
        check_work(&program.threads[1], "1 ");
        program_close(&program);
        record_close(&record);
    }
}

/* A record's wait is for the first `task` tasks of a stream: of how many of the window's tasks that is; -1: of none. */
static int tasks_waited_for(uint16_t stream, uint64_t task)
{
    struct small_record file = small_record();
    struct record_file record;
    struct program program;
    int tasks = -1;
    file.entries[12].stream = stream;
    file.entries[12].task = task;
    small_record_seal(&file);
    assert_int_equal(record_parse(&record, "test", &file, sizeof(file)), 0);
    assert_int_equal(program_build(&program, &record), 0);
    for (uint32_t i = 0; i < program.threads[0].count; i++)
        if (program.threads[0].operations[i].kind == OP_WAIT_STREAM)
            tasks = (int)program.threads[0].operations[i].number;
    program_close(&program);
    record_close(&record);
    return tasks;
}

/* Stream 1 has the tasks 3, 4 and 5 here, those before lie before the window and are done. What is enqueued behind the
 * last step's end is not played. */
static void what_lies_outside_the_steps_is_left_out(void **state)
{
    (void)state;
    assert_int_equal(tasks_waited_for(1, 2), -1);
    assert_int_equal(tasks_waited_for(1, 3), -1);
    assert_int_equal(tasks_waited_for(1, 4), 1);
    assert_int_equal(tasks_waited_for(1, 6), 3);
    assert_int_equal(tasks_waited_for(1, 9), 3);
    struct small_record file = small_record();
    struct record_file record;
    struct program program;
    file.entries[7].enqueued_ns = 30;
    small_record_seal(&file);
    assert_int_equal(record_parse(&record, "test", &file, sizeof(file)), 0);
    assert_int_equal(program_build(&program, &record), 0);
    assert_int_equal(program.streams[0].count, 3);
    assert_int_equal(program.streams[1].count, 1);
    program_close(&program);
    record_close(&record);
}

static void every_cut_is_seen(void **state)
{
    struct small_record file = small_record();
    (void)state;
    log_set_muted(true);
    for (size_t bytes = 0; bytes < sizeof(file); bytes++)
        assert_int_equal(read_file(&file, bytes), 4);
    log_set_muted(false);
}

static void every_flipped_bit_is_seen(void **state)
{
    (void)state;
    log_set_muted(true);
    for (size_t bit = 0; bit < sizeof(struct small_record) * 8; bit++) {
        struct small_record file = small_record();
        ((unsigned char *)&file)[bit / 8] ^= (unsigned char)(1u << bit % 8);
        int status = read_file(&file, sizeof(file));
        size_t byte = bit / 8;
        bool free_field = bit == 16 * 8 || (byte >= 20 && byte < 24); /* shape only; pid: any value */
        assert_int_equal(status, free_field ? 0 : 4);
    }
    log_set_muted(false);
}

/* One change: a byte, a word, a number at the end of its range, an entry in the place of another. */
static void tell_a_lie(struct small_record *file, uint64_t seed, uint64_t i)
{
    static const uint64_t numbers[] = {0, 1, 0xffff, INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX, 0x43abc16d674ec800};
    uint32_t kind = random_u32(seed, 3, 4 * i), place = random_u32(seed, 3, 4 * i + 1),
             value = random_u32(seed, 3, 4 * i + 2);
    unsigned char *bytes = (unsigned char *)file;
    switch (kind % 5) {
    case 0:
        bytes[place % sizeof(*file)] = (unsigned char)value;
        break;
    case 1:
        memcpy(bytes + place % (sizeof(*file) / 2) * 2, &value, 2);
        break;
    case 2:
        memcpy(bytes + place % (sizeof(*file) / 4) * 4, &numbers[value % 8], 4);
        break;
    case 3:
        memcpy(bytes + place % (sizeof(*file) / 8) * 8, &numbers[value % 8], 8); /* the last one is 1e18 */
        break;
    default:
        file->entries[place % SMALL_ENTRIES] = file->entries[value % SMALL_ENTRIES];
    }
}

/* The same with a checksum that fits: a liar, not an accident. Refused or believed, and then played; never a crash. */
static void liars_do_no_harm(void **state)
{
    int believed = 0;
    (void)state;
    log_set_muted(true);
    for (uint64_t seed = 0; seed < 50000; seed++) {
        struct small_record file = small_record();
        for (uint64_t i = 0; i < 1 + seed % 4; i++)
            tell_a_lie(&file, seed, i);
        small_record_seal(&file);
        int status = read_file(&file, sizeof(file));
        assert_true(status == 0 || status == 4);
        believed += status == 0;
    }
    log_set_muted(false);
    assert_in_range(believed, 1000, 49000); /* else nothing was tried */
}

#define REFUSED(change, said)                                                                                          \
    do {                                                                                                               \
        struct small_record file = small_record();                                                                     \
        change;                                                                                                        \
        small_record_seal(&file);                                                                                      \
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

static struct soft_record_entry begin_of_step(uint32_t step, uint64_t at)
{
    return (struct soft_record_entry){.kind = SOFT_RECORD_NOTE,
                                      .thread = 1,
                                      .device = -1,
                                      .name = SAY_STEP_BEGIN,
                                      .start_ns = at,
                                      .end_ns = at,
                                      .mark = step};
}

/* How the run ended is known from version 3 on; that a step broke off can be seen in all: at the end, or where the next
 * one begins. */
static void a_run_that_failed_is_refused(void **state)
{
    (void)state;
    REFUSED(file.entries[14].range = SAY_FORWARD, "setting exit_code is forward, expected 0");
    REFUSED(file.entries[14].name = SAY_FORWARD, "has no setting exit_code, expected exit_code = 0");
    REFUSED(file.header.version = 2, "version (offset 8) is 2, expected 3: it has the setting exit_code");
    REFUSED(file.entries[13].name = SAY_PHASE, "entry 1: step 0 begins, expected that it ends too");
    REFUSED(file.entries[12] = begin_of_step(1, 22), "entry 1: step 0 begins, expected that it ends too");
    struct small_record file = small_record();
    file.header.version = 2;
    file.entries[14].name = SAY_FORWARD;
    small_record_seal(&file);
    assert_int_equal(read_file(&file, sizeof(file)), 0);
    file.entries[13].name = SAY_PHASE;
    small_record_seal(&file);
    assert_int_equal(read_file(&file, sizeof(file)), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_file_is_read),
        cmocka_unit_test(own_work_is_what_lies_between_calls),
        cmocka_unit_test(what_lies_outside_the_steps_is_left_out),
        cmocka_unit_test(every_cut_is_seen),
        cmocka_unit_test(every_flipped_bit_is_seen),
        cmocka_unit_test(liars_do_no_harm),
        cmocka_unit_test(messages_name_place_found_and_expected),
        cmocka_unit_test(a_run_that_failed_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
