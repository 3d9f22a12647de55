/* SPDX-License-Identifier: MIT
 *
 * The bound on rates of products: above every peak that a vendor states, by the device's units, and its own edge.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/backend.h"
#include "product_peak.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

#define CORES 3

/* Dense peaks in TFLOP/s from data sheets; a core's is that of its widest units at its highest clock. */
static void lies_above_every_stated_peak(void **state)
{
    (void)state;
    static const struct {
        struct product_units units;
        enum element_type type;
        double tflops;
    } stated[] = {
        {{true, false, 80}, ELEMENT_F16, 125},     /* V100 */
        {{true, false, 108}, ELEMENT_BF16, 312},   /* A100 */
        {{true, false, 108}, ELEMENT_F32, 156},    /* A100, TF32 */
        {{true, false, 132}, ELEMENT_BF16, 989},   /* H100 SXM, H200 */
        {{true, false, 132}, ELEMENT_F32, 495},    /* H100 SXM, TF32 */
        {{true, false, 148}, ELEMENT_BF16, 2250},  /* B200 */
        {{false, false, 1}, ELEMENT_F32, 0.3968},  /* 64 a cycle at 6.2 GHz */
        {{false, false, 96}, ELEMENT_BF16, 76.19}, /* 128 */
        {{false, true, 1}, ELEMENT_BF16, 4.3},     /* 1024 at 4.2 GHz */
    };
    for (size_t i = 0; i < sizeof(stated) / sizeof(stated[0]); i++)
        assert_true(product_peak(&stated[i].units, stated[i].type) >= 1.5 * stated[i].tflops * 1e12);
}

static void grows_with_the_units(void **state)
{
    (void)state;
    const struct product_units one = {false, false, 1}, eight = {false, false, 8}, tiles = {false, true, 1};
    assert_true(fabs(product_peak(&eight, ELEMENT_F32) / product_peak(&one, ELEMENT_F32) - 8) < 1e-12);
    assert_true(product_peak(&tiles, ELEMENT_BF16) > product_peak(&one, ELEMENT_BF16));
}

static void reads_the_cores_of_a_soft_gpu(void **state)
{
    (void)state;
    struct product_units units;
    assert_int_equal(product_units_read(&units, 0), EXIT_OK);
    assert_false(units.gpu);
    assert_int_equal(units.count, CORES);
}

static void refuses_above_the_bound(void **state)
{
    (void)state;
    struct product_units units;
    assert_int_equal(product_units_read(&units, 0), EXIT_OK);
    const double second = product_peak(&units, ELEMENT_F32); /* FLOPs */
    assert_int_equal(product_rate_check("a", second, 1, ELEMENT_F32, 0), EXIT_OK);
    assert_int_equal(product_rate_check("a", second, 1e3, ELEMENT_F32, 0), EXIT_OK);
    assert_int_equal(product_rate_check("a wide product", second, 0.999, ELEMENT_F32, 0), EXIT_CHECK_FAILED);
    for (const char *const *word =
             (const char *const[]){"a wide product", "3 CPU cores", "fp32", "time of the launch", NULL};
         *word; word++)
        assert_non_null(strstr(log_last_error(), *word));
}

static void refuses_what_is_no_time(void **state)
{
    (void)state;
    const double times[] = {0, -1, -INFINITY, NAN};
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
        assert_int_equal(product_rate_check("a", 1, times[i], ELEMENT_BF16, 0), EXIT_CHECK_FAILED);
    assert_int_equal(product_rate_check("a", NAN, 1, ELEMENT_BF16, 0), EXIT_CHECK_FAILED);
    assert_int_equal(product_rate_check("a", 1, 1, ELEMENT_BF16, 99), EXIT_RESOURCE);
}

static int configure(void **state)
{
    (void)state;
    log_set_program("test_product_peak");
    return gpu_configure(&(struct gpu_settings){.devices_used = 1, .cores_per_device = CORES});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lies_above_every_stated_peak),  cmocka_unit_test(grows_with_the_units),
        cmocka_unit_test(reads_the_cores_of_a_soft_gpu), cmocka_unit_test(refuses_above_the_bound),
        cmocka_unit_test(refuses_what_is_no_time),
    };
    return cmocka_run_group_tests(tests, configure, NULL);
}
