/* SPDX-License-Identifier: MIT
 *
 * Two runs are equal, or they are not: every rule of compare.h, with one bit flipped where it must be seen; and the
 * plan's order.
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

#include "compare.h"
#include "data/tensors.h"
#include "plan.h"
#include "settings.h"
#include "sys/exit_codes.h"
#include "text.h"

static char folder[64];
static char *file_a, *file_b;

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/dpbench-test-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    file_a = text_format("%s/a", folder);
    file_b = text_format("%s/b", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(file_a);
    unlink(file_b);
    free(file_a);
    free(file_b);
    return rmdir(folder);
}

static void write_gradients(const char *path, float *weight, float *bias)
{
    struct tensor_view views[] = {
        {.name = "net.0.weight", .shape = {2, 2}, .dims = 2, .count = 4, .data = weight},
        {.name = "net.0.bias", .shape = {2}, .dims = 1, .count = 2, .data = bias},
    };
    assert_int_equal(tensors_write(path, views, 2, NULL, 0), 0);
}

/* The largest relative difference of `change` applied to one element of the weight; the tensor's largest element is 2.
 */
static double difference(float changed)
{
    float weight[] = {0.5F, -1, 0.25F, 2}, bias[] = {0.125F, 0.75F}, other[] = {0.5F, changed, 0.25F, 2};
    char tensor[64];
    double worst;
    write_gradients(file_a, other, bias);
    write_gradients(file_b, weight, bias);
    assert_int_equal(compare_gradients(file_a, file_b, &worst, tensor, sizeof tensor), 0);
    if (worst > 0)
        assert_string_equal(tensor, "net.0.weight");
    return worst;
}

static void gradients_are_compared_by_tensor(void **state)
{
    (void)state;
    assert_true(difference(-1) == 0);
    assert_true(fabs(difference(-1.5F) - 0.25) < 1e-9);
    assert_true(difference(nextafterf(-1, 0)) > 0);
    assert_true(difference(NAN) == INFINITY);
    assert_true(difference(INFINITY) == INFINITY);
}

static void other_tensors_are_refused(void **state)
{
    (void)state;
    float values[4] = {0}, bias[2] = {0};
    struct tensor_view shape = {.name = "net.0.weight", .shape = {4}, .dims = 1, .count = 4, .data = values};
    struct tensor_view two[] = {shape, {.name = "net.0.bias", .shape = {2}, .dims = 1, .count = 2, .data = bias}};
    char tensor[64];
    double worst;
    write_gradients(file_b, values, bias);
    assert_int_equal(tensors_write(file_a, &shape, 1, NULL, 0), 0);
    assert_int_equal(compare_gradients(file_a, file_b, &worst, tensor, sizeof tensor), EXIT_BAD_FILE);
    assert_int_equal(tensors_write(file_a, two, 2, NULL, 0), 0);
    assert_int_equal(compare_gradients(file_a, file_b, &worst, tensor, sizeof tensor), EXIT_BAD_FILE);
}

/* ---- the rule -------------------------------------------------------------------------------- */

static cJSON *header(const char *backend, const char *precision, int gpus, int batch, int accumulate)
{
    char *text =
        text_format("{\"backend\":\"%s\",\"precision\":\"%s\",\"gpus\":%d,\"global_batch\":%d,\"accumulate\":%d}",
                    backend, precision, gpus, batch, accumulate);
    cJSON *object = cJSON_Parse(text);
    free(text);
    assert_non_null(object);
    return object;
}

static void bits_are_promised_where_the_design_says(void **state)
{
    (void)state;
    static const struct {
        const char *backend, *precision;
        int gpus, batch, accumulate;
        bool promised;
    } cases[] = {
        {"soft", "fp32", 1, 128, 1, true},  {"soft", "fp32", 2, 128, 1, true},  {"soft", "fp32", 8, 128, 1, true},
        {"soft", "fp32", 3, 129, 1, false}, {"soft", "fp32", 4, 130, 1, false}, {"soft", "fp32", 4, 128, 2, false},
        {"cuda", "fp32", 4, 128, 1, false}, {"soft", "fp32", 6, 126, 1, false}, {"soft", "bf16", 2, 128, 1, true},
        {"soft", "fp16", 2, 128, 1, false}, {"cuda", "bf16", 2, 128, 1, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cJSON *object = header(cases[i].backend, cases[i].precision, cases[i].gpus, cases[i].batch, cases[i].accumulate);
        assert_int_equal(compare_promises_bits(object), cases[i].promised);
        cJSON_Delete(object);
    }
}

static enum equality compare_in(const char *precision, const char *checksum, double loss, float element, bool promised,
                                bool with_gradients)
{
    float weight[] = {0.5F, -1, 0.25F, 2}, bias[] = {0.125F, 0.75F}, other[] = {0.5F, element, 0.25F, 2};
    write_gradients(file_a, other, bias);
    write_gradients(file_b, weight, bias);
    char *mine = text_format("{\"type\":\"summary\",\"precision\":\"%s\",\"checksum\":\"%s\",\"loss_last\":%.9g}", precision,
                             checksum, loss);
    cJSON *a = cJSON_Parse(mine),
          *b = cJSON_Parse("{\"type\":\"summary\",\"checksum\":\"0123456789abcdef\",\"loss_last\":2}");
    struct record record = {.summary = a}, reference = {.summary = b};
    struct comparison comparison;
    compare_runs(&record, with_gradients ? file_a : NULL, &reference, with_gradients ? file_b : NULL, promised,
                 &comparison);
    assert_true((comparison.equal == EQUAL_NO || comparison.equal == EQUAL_NA) == (*comparison.reason != '\0'));
    cJSON_Delete(a);
    cJSON_Delete(b);
    free(mine);
    return comparison.equal;
}

static enum equality compare(const char *checksum, double loss, float element, bool promised, bool with_gradients)
{
    return compare_in("fp32", checksum, loss, element, promised, with_gradients);
}

/* The largest element is 2: 4 units in the last place are 1/16 in bfloat16, 1/128 in half. */
static void sixteen_bits_have_limits_of_their_own(void **state)
{
    (void)state;
    static const char other[] = "0123456789abcdee";
    assert_int_equal(compare_in("bf16", other, 2, -1.06F, false, true), EQUAL_TOLERANCE);
    assert_int_equal(compare_in("bf16", other, 2, -1.07F, false, true), EQUAL_NO);
    assert_int_equal(compare_in("fp16", other, 2, -1.007F, false, true), EQUAL_TOLERANCE);
    assert_int_equal(compare_in("fp16", other, 2, -1.008F, false, true), EQUAL_NO);
}

static void a_flipped_bit_is_seen(void **state)
{
    (void)state;
    static const char same[] = "0123456789abcdef", flipped[] = "0123456789abcdee";
    assert_int_equal(compare(same, 2, -1, true, true), EQUAL_BIT);
    assert_int_equal(compare(flipped, 2, -1, true, true), EQUAL_NO);
    assert_int_equal(compare(flipped, 2, -1, false, true), EQUAL_TOLERANCE);
    assert_int_equal(compare(flipped, 2, -1.000001F, false, true), EQUAL_TOLERANCE);
    assert_int_equal(compare(flipped, 2, -1.0001F, false, true), EQUAL_NO);
    assert_int_equal(compare(same, 2, -1.0001F, true, true), EQUAL_NO);
    assert_int_equal(compare(flipped, 2, NAN, false, true), EQUAL_NO);
    assert_int_equal(compare(flipped, 2.019, -1, false, true), EQUAL_TOLERANCE);
    assert_int_equal(compare(flipped, 2.021, -1, false, true), EQUAL_NO);
    assert_int_equal(compare(flipped, 2, -1, false, false), EQUAL_NA);
    assert_int_equal(compare("", 2, -1, true, true), EQUAL_NA);
}

/* ---- the plan -------------------------------------------------------------------------------- */

static void a_round_takes_all_strategies_in_turn(void **state)
{
    (void)state;
    char *argv[] = {(char[]){"sweep"},   (char[]){"--quick"},  (char[]){"--gpus"},
                    (char[]){"2,1,2"},   (char[]){"--models"}, (char[]){"mlp"},
                    (char[]){"--cores"}, (char[]){"8"},        NULL};
    struct settings settings;
    assert_int_equal(settings_parse(&settings, 8, argv), 0);
    struct plan plan;
    plan_make(&plan, &settings);
    assert_int_equal(plan.group_count, 1);
    assert_int_equal(plan.cores_per_device, 4);
    static const char *const order[] = {"mlp-strong-single-1", "mlp-strong-dp-1",  "mlp-strong-ddp-1",
                                        "mlp-strong-dp-2",     "mlp-strong-ddp-2", "mlp-strong-ddp-2-no-overlap"};
    const struct group *group = &plan.groups[0];
    assert_int_equal(group->cell_count, 6);
    for (int c = 0; c < 6; c++)
        assert_string_equal(group->cells[c].id, order[c]);
    assert_int_equal(plan_run_count(&plan), 6 * group->rounds);
    plan_free(&plan);
}

static void cores_per_device_are_the_same_for_every_n(void **state)
{
    (void)state;
    static const struct {
        const char *gpus, *cores;
        int each;
        bool largest_oversubscribed;
    } cases[] = {{"1,2,4", "2", 1, true}, {"1,2", "2", 1, false}, {"1,2,4,8", "16", 2, false}, {"1,3", "8", 2, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *argv[] = {(char[]){"sweep"},
                        (char[]){"--gpus"},
                        text_format("%s", cases[i].gpus),
                        (char[]){"--cores"},
                        text_format("%s", cases[i].cores),
                        NULL};
        struct settings settings;
        assert_int_equal(settings_parse(&settings, 5, argv), 0);
        struct plan plan;
        plan_make(&plan, &settings);
        assert_int_equal(plan.cores_per_device, cases[i].each);
        const struct group *group = &plan.groups[0];
        assert_int_equal(plan_oversubscribed(&plan, &group->cells[group->cell_count - 1]),
                         cases[i].largest_oversubscribed);
        assert_false(plan_oversubscribed(&plan, &group->cells[0]));
        plan_free(&plan);
        free(argv[2]);
        free(argv[4]);
    }
}

static void wrong_options_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {{"--gpus", "0"},          {"--gpus", "4x"},    {"--gpus", ""},
                                           {"--gpus", "1000000000"}, {"--gpus", "-1"},    {"--rounds", "0"},
                                           {"--steps", "nan"},       {"--device", "tpu"}, {"--models", "vgg"},
                                           {"--strategies", "fsdp"}, {"--scaling", "up"}, {"--run-timeout", "0"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char *argv[] = {(char[]){"sweep"}, text_format("%s", wrong[i][0]), text_format("%s", wrong[i][1]), NULL};
        struct settings settings;
        assert_int_equal(settings_parse(&settings, 3, argv), EXIT_USAGE);
        free(argv[1]);
        free(argv[2]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_compared_by_tensor),
        cmocka_unit_test(other_tensors_are_refused),
        cmocka_unit_test(bits_are_promised_where_the_design_says),
        cmocka_unit_test(a_flipped_bit_is_seen),
        cmocka_unit_test(sixteen_bits_have_limits_of_their_own),
        cmocka_unit_test(a_round_takes_all_strategies_in_turn),
        cmocka_unit_test(cores_per_device_are_the_same_for_every_n),
        cmocka_unit_test(wrong_options_are_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
