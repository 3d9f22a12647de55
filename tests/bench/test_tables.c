/* SPDX-License-Identifier: MIT
 *
 * CSV as RFC 4180, statistics against known values, JSON lines that are cut.
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

#include "csv.h"
#include "record.h"
#include "resampling.h"
#include "run/statistics.h"
#include "sys/exit_codes.h"
#include "text.h"
#include "view.h"

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/dpbench-test-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char *path = text_format("%s/t.csv", folder);
    unlink(path);
    free(path);
    return rmdir(folder);
}

static void write_file(const char *name, const char *data, size_t bytes)
{
    char *path = text_format("%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    free(path);
}

static const char *const columns[] = {"name", "value", "reason"};

static void fields_are_quoted_only_where_needed(void **state)
{
    (void)state;
    struct table table;
    table_init(&table, "t.csv", columns, 3);
    int row = table_add_row(&table);
    table_set(&table, row, "name", "a,b");
    table_set_number(&table, row, "value", 0.1);
    table_set(&table, row, "reason", "said \"no\"\nand left");
    row = table_add_row(&table);
    table_set_number(&table, row, "value", NAN);
    struct text text;
    text_open(&text);
    table_print(&table, text.out);
    text_close(&text);
    assert_string_equal(text.data, "name,value,reason\n\"a,b\",0.1,\"said \"\"no\"\"\nand left\"\n,,\n");
    free(text.data);
    table_free(&table);
}

static void what_is_read_is_what_was_written(void **state)
{
    (void)state;
    static const char whole[] = "name,value,reason\n\"a,b\",0.1,\"said \"\"no\"\"\nand left\"\nplain,2,\n,,\n";
    write_file("t.csv", whole, strlen(whole));
    struct table table;
    table_init(&table, "t.csv", columns, 3);
    assert_int_equal(table_read(&table, folder), 0);
    assert_int_equal(table.row_count, 3);
    assert_string_equal(table_get(&table, 0, "name"), "a,b");
    assert_string_equal(table_get(&table, 0, "reason"), "said \"no\"\nand left");
    assert_true(table_number(&table, 1, "value") == 2);
    assert_true(isnan(table_number(&table, 2, "value")));
    struct text text;
    text_open(&text);
    table_print(&table, text.out);
    text_close(&text);
    assert_string_equal(text.data, whole);
    free(text.data);
    table_free(&table);
}

/* Every cut but those at a line's end is refused, and nothing of the file is kept. */
static void a_cut_file_is_refused(void **state)
{
    (void)state;
    static const char whole[] = "name,value,reason\n\"a,b\",0.1,\"two\nlines\"\nplain,2,x\n";
    const size_t header = strlen("name,value,reason\n"),
                 first = strlen("name,value,reason\n\"a,b\",0.1,\"two\nlines\"\n");
    for (size_t cut = 0; cut < strlen(whole); cut++) {
        write_file("t.csv", whole, cut);
        struct table table;
        table_init(&table, "t.csv", columns, 3);
        int expected = cut == header || cut == first ? EXIT_OK : EXIT_BAD_FILE;
        assert_int_equal(table_read(&table, folder), expected);
        assert_int_equal(table.row_count, expected ? 0 : cut == first);
        table_free(&table);
    }
}

static void another_header_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"name,values,reason\n", "name,value\n", "name,value,reason,more\n", "\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_file("t.csv", wrong[i], strlen(wrong[i]));
        struct table table;
        table_init(&table, "t.csv", columns, 3);
        assert_int_equal(table_read(&table, folder), EXIT_BAD_FILE);
        table_free(&table);
    }
}

/* ---- statistics ------------------------------------------------------------------------------ */

static void medians_and_spread_are_known(void **state)
{
    (void)state;
    const double odd[] = {9, 1, 5}, even[] = {4, 1, 3, 2}, spread[] = {1, 1, 2, 2, 4, 6, 9};
    assert_true(statistics_median(odd, 3) == 5);
    assert_true(statistics_median(even, 4) == 2.5);
    assert_true(statistics_mad(spread, 7) == 1);
    assert_true(statistics_quantile(even, 4, 0.95) > 3.849 && statistics_quantile(even, 4, 0.95) < 3.851);
    assert_true(isnan(statistics_median(odd, 0)));
    assert_int_equal(resampling_middle(odd, 3), 2);
    assert_int_equal(resampling_middle(even, 4), 3);
}

static void an_interval_is_the_same_each_time_and_holds_the_median(void **state)
{
    (void)state;
    const double values[] = {1.0, 1.1, 0.9, 1.05, 0.95, 1.02, 0.98, 1.2, 0.8};
    struct interval a = resampling_interval(values, 9), b = resampling_interval(values, 9);
    assert_true(a.low == b.low && a.high == b.high);
    assert_true(a.low >= 0.9 && a.low < 1.0 && a.high > 1.0 && a.high <= 1.1);
    struct interval none = resampling_interval(values, 1);
    assert_true(isnan(none.low) && isnan(none.high));
    const double same[] = {2, 2, 2};
    struct interval point = resampling_interval(same, 3);
    assert_true(point.low == 2 && point.high == 2);
}

/* 1..9 against 10..18: U = 0, z = (40.5 - 0.5) / sqrt(81 * 19 / 12) = 3.5321. Both p values are those of
 * scipy.stats.mannwhitneyu, method="asymptotic". */
static void the_rank_test_gives_known_values(void **state)
{
    (void)state;
    double low[9], high[9], mixed[9];
    for (int i = 0; i < 9; i++) {
        low[i] = i + 1;
        high[i] = i + 10;
        mixed[i] = i % 3;
    }
    double p = resampling_rank_test(low, 9, high, 9);
    assert_true(fabs(p - 4.1229480206e-4) < 1e-13);
    assert_true(resampling_rank_test(high, 9, low, 9) == p);
    const double tied[] = {1, 1, 2, 2, 3, 3, 4, 4, 5}, higher[] = {2, 2, 3, 3, 4, 4, 5, 5, 6};
    assert_true(fabs(resampling_rank_test(tied, 9, higher, 9) - 0.1772979842) < 1e-9);
    assert_true(resampling_rank_test(mixed, 9, mixed, 9) == 1);
    assert_true(isnan(resampling_rank_test(low, 8, high, 9)));
}

/* ---- JSON lines ------------------------------------------------------------------------------ */

static int read_lines(const char *text, size_t bytes, struct record *record)
{
    write_file("t.csv", text, bytes);
    char *path = text_format("%s/t.csv", folder);
    int rc = record_read(record, path);
    free(path);
    return rc;
}

static void lines_are_read(void **state)
{
    (void)state;
    static const char text[] =
        "{\"type\":\"header\",\"gpus\":2}\n{\"type\":\"step\",\"ms\":1.5}\n{\"type\":\"step\",\"ms\":null}\n"
        "{\"type\":\"summary\",\"status\":\"ok\"}\n";
    struct record record;
    assert_int_equal(read_lines(text, strlen(text), &record), 0);
    double *ms;
    assert_int_equal(record_steps(&record, &ms), 1);
    assert_true(ms[0] == 1.5);
    free(ms);
    assert_true(record_number(record.header, "gpus") == 2);
    assert_true(isnan(record_number(record.header, "absent")));
    assert_string_equal(record_text(record.summary, "status"), "ok");
    assert_null(record.run);
    record_free(&record);
}

static void cut_lines_are_refused(void **state)
{
    (void)state;
    static const char text[] = "{\"type\":\"header\",\"gpus\":2}\n{\"type\":\"summary\",\"status\":\"ok\"}\n";
    const size_t first = strlen("{\"type\":\"header\",\"gpus\":2}\n");
    for (size_t cut = 1; cut < strlen(text); cut++) {
        struct record record;
        assert_int_equal(read_lines(text, cut, &record), cut == first ? EXIT_OK : EXIT_BAD_FILE);
        record_free(&record);
    }
    static const char *const wrong[] = {"{}\n", "[1]\n", "{\"type\":1}\n", "{\"type\":\"a\"} x\n",
                                        "{\"type\":\"a\"}\n\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct record record;
        assert_int_equal(read_lines(wrong[i], strlen(wrong[i]), &record), EXIT_BAD_FILE);
        record_free(&record);
    }
}

/* What is printed as 1.00 is no difference, whatever its further digits say. */
static void an_interval_that_holds_1_names_no_side(void **state)
{
    (void)state;
    assert_int_equal(seen(0.9, 1.1), SEEN_NONE);
    assert_int_equal(seen(1.004, 1.02), SEEN_NONE);
    assert_int_equal(seen(0.93, 0.996), SEEN_NONE);
    assert_int_equal(seen(1.006, 1.02), SEEN_ABOVE);
    assert_int_equal(seen(0.93, 0.994), SEEN_BELOW);
    assert_int_equal(seen(NAN, NAN), SEEN_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_quoted_only_where_needed),
        cmocka_unit_test(what_is_read_is_what_was_written),
        cmocka_unit_test(a_cut_file_is_refused),
        cmocka_unit_test(another_header_is_refused),
        cmocka_unit_test(medians_and_spread_are_known),
        cmocka_unit_test(an_interval_is_the_same_each_time_and_holds_the_median),
        cmocka_unit_test(the_rank_test_gives_known_values),
        cmocka_unit_test(an_interval_that_holds_1_names_no_side),
        cmocka_unit_test(lines_are_read),
        cmocka_unit_test(cut_lines_are_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
