/* SPDX-License-Identifier: MIT
 *
 * The parts of the engine that need no device: the cut of a batch, statistics, JSON lines, the world of one.
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

#include "run/json_line.h"
#include "run/schedule.h"
#include "run/statistics.h"
#include "run/world.h"
#include "sys/exit_codes.h"

/* Every row of the global batch goes to one device of one micro-batch, in order. */
static void cuts_each_row_once(void **state)
{
    static const size_t batches[] = {0, 1, 3, 8, 9, 13, 17, 36, 128, 129};

    (void)state;
    for (size_t b = 0; b < sizeof batches / sizeof batches[0]; b++) {
        for (int accumulate = 1; accumulate <= 5; accumulate++) {
            for (int devices = 1; devices <= 8; devices++) {
                struct options options = {.global_batch = batches[b], .accumulate = accumulate, .gpus = devices};
                size_t next = 0, most = schedule_batch_max(&options, devices), per_device = 0;
                for (int k = 0; k < schedule_micro_batches(&options); k++) {
                    assert_true(schedule_micro_batch(&options, k).count > 0);
                    for (int r = 0; r < devices; r++) {
                        struct piece piece = schedule_piece(&options, k, devices, r);
                        if (piece.count)
                            assert_int_equal(piece.first, next);
                        next += piece.count;
                        assert_true(piece.count <= most);
                    }
                }
                for (int r = 0; r < devices; r++)
                    per_device += schedule_rows(&options, devices, r);
                assert_int_equal(next, batches[b]);
                assert_int_equal(per_device, batches[b]);
                assert_true(most >= 1);
            }
        }
    }
}

static void sums_up_step_times(void **state)
{
    const double odd[] = {5, 1, 9}, even[] = {4, 1, 3, 2}, one[] = {7};

    (void)state;
    assert_float_equal(statistics_median(odd, 3), 5, 0);
    assert_float_equal(statistics_median(even, 4), 2.5, 0);
    assert_float_equal(statistics_mad(odd, 3), 4, 0);
    assert_float_equal(statistics_quantile(even, 4, 1), 4, 0);
    assert_float_equal(statistics_quantile(even, 4, 0.95), 3.85, 1e-12);
    assert_float_equal(statistics_mad(one, 1), 0, 0);
    assert_true(isnan(statistics_median(odd, 0)));
    assert_true(isnan(statistics_mad(odd, 0)));
}

static void writes_json(void **state)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    assert_non_null(out);
    json_begin(out, "step");
    json_text(out, "name", "a \"b\" \\ \n");
    json_text(out, "none", NULL);
    json_number(out, "ms", 0.1);
    json_number(out, "nan", (double)NAN);
    json_number(out, "infinite", (double)INFINITY);
    json_integer(out, "from", -1);
    json_unsigned(out, "seed", UINT64_MAX);
    json_end(out);
    fclose(out);
    assert_string_equal(text,
                        "{\"type\": \"step\", \"name\": \"a \\\"b\\\" \\\\ \\u000a\", \"none\": null, \"ms\": 0.1, "
                        "\"nan\": null, \"infinite\": null, \"from\": -1, \"seed\": 18446744073709551615}\n");
    free(text);
}

static void is_alone_in_its_world(void **state)
{
    struct world world = world_alone();
    const int items[] = {3, 1, 4};
    void *all = NULL;
    size_t total = 0;

    (void)state;
    assert_int_equal(world_barrier(&world), EXIT_OK);
    assert_int_equal(world_agree(&world, EXIT_OK), EXIT_OK);
    assert_int_equal(world_agree(&world, EXIT_BAD_FILE), EXIT_BAD_FILE);
    assert_int_equal(world_gather_items(&world, items, 3, sizeof items[0], &all, &total), EXIT_OK);
    assert_int_equal(total, 3);
    assert_memory_equal(all, items, sizeof items);
    free(all);
    assert_int_equal(world_gather_items(&world, NULL, 0, sizeof items[0], &all, &total), EXIT_OK);
    assert_null(all);
    assert_int_equal(total, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_each_row_once),
        cmocka_unit_test(sums_up_step_times),
        cmocka_unit_test(writes_json),
        cmocka_unit_test(is_alone_in_its_world),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
