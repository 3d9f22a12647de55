/* SPDX-License-Identifier: MIT
 *
 * CUDA_VISIBLE_DEVICES and SOFTGPU_DEVICES: the index is the position in the list (trials 28).
 */
#include "play.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define UUID(n) "GPU-50f70000-0000-0000-0000-0000000000" n

static const char *expected; /* physical indices of the ordinals, "3 2" */

/* Also by use: a stream of each visible device has its physical index; no ordinal beyond the list works. */
static void list_devices(void)
{
    char found[512] = "";
    int count = -1;
    softError_t error = softGetDeviceCount(&count);
    EXPECT(error == (count ? softSuccess : softErrorNoDevice));
    for (int i = 0; i < count; i++) {
        struct softDeviceProp properties;
        EXPECT_OK(softGetDeviceProperties(&properties, i));
        size_t used = strlen(found);
        int physical = -1;
        EXPECT(sscanf(properties.name, "soft GPU %d (1 core)", &physical) == 1);
        EXPECT(properties.uuid.bytes[15] == physical);
        snprintf(found + used, sizeof(found) - used, "%s%d", i ? " " : "", physical);
        if (i < 4)
            EXPECT(soft_device_map(soft_stream_device(new_stream(i)))->physical == physical);
    }
    if (strcmp(found, expected) != 0) {
        fprintf(stderr, "found '%s', expected '%s'\n", found, expected);
        exit(1);
    }
    EXPECT_FAILS(softSetDevice(count), count ? softErrorInvalidDevice : softErrorNoDevice, "");
    EXPECT_FAILS(softSetDevice(-1), count ? softErrorInvalidDevice : softErrorNoDevice, "");
    if (count == 0) {
        void *memory;
        EXPECT_FAILS(softMalloc(&memory, 4), softErrorNoDevice, "DEVICES is '");
    }
}

static void the_list_selects_and_renumbers(void **state)
{
    (void)state;
    static const struct {
        const char *visible, *devices, *physical;
    } cases[] = {
        {NULL, "3", "0 1 2"},
        {"1", "4", "1"},
        {"3,2", "4", "3 2"},
        {" 3 , 2 ", "4", "3 2"},
        {"", "4", ""},
        {"-1", "4", ""},
        {"7", "4", ""},
        {"7", NULL, "7"},
        {"63", NULL, "63"},
        {"64", NULL, ""},
        {"0,0", "4", ""},
        {"1,0,1", "4", ""},
        {"2,-1,1", "4", "2"}, /* ends at the first that does not exist */
        {"2,9,1", "4", "2"},
        {"0,x", "4", "0"},
        {"1x", "4", ""},
        {UUID("02"), "4", "2"},
        {UUID("3f") ",1", NULL, "63 1"},
        {UUID("04"), "4", ""},
        {UUID("02") ",2", "4", ""},
        {"GPU-50f7", "4", ""},  /* cut short, names four */
        {"GPU-50f7", "1", "0"}, /* names one */
        {NULL, "0", ""},
        {NULL, "65", ""},
        {NULL, "abc", ""},
        {NULL, "", ""},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        expected = cases[i].physical;
        int status =
            play_status(list_devices, &(struct scene){.visible = cases[i].visible, .devices = cases[i].devices});
        if (status)
            fail_msg("CUDA_VISIBLE_DEVICES=%s SOFTGPU_DEVICES=%s", cases[i].visible ? cases[i].visible : "(unset)",
                     cases[i].devices ? cases[i].devices : "(unset)");
    }
}

static int open_descriptors(void)
{
    int count = 0;
    for (int descriptor = 0; descriptor < 64; descriptor++) {
        char path[64];
        snprintf(path, sizeof(path), "/proc/self/fd/%d", descriptor);
        FILE *file = fopen(path, "re");
        count += file != NULL;
        if (file)
            fclose(file);
    }
    return count;
}

/* A launcher counts and chooses devices; that must open none. */
static void only_count(void)
{
    int before = open_descriptors(), count;
    EXPECT_OK(softGetDeviceCount(&count));
    EXPECT_OK(softSetDevice(count - 1));
    EXPECT(soft_device_of_pointer(&count) == NULL);
    EXPECT(open_descriptors() == before);
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    EXPECT(maps);
    while (fgets(line, sizeof(line), maps))
        EXPECT(!strstr(line, "soft-gpu"));
    fclose(maps);
}

static void counting_opens_no_device(void **state)
{
    (void)state;
    play(only_count, &(struct scene){0});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_list_selects_and_renumbers),
        cmocka_unit_test(counting_opens_no_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
