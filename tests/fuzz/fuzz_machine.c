/* SPDX-License-Identifier: MIT
 *
 * Any text as the description of a machine. What is accepted has curves that can be read anywhere.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "machine.h"

static void read_curve(const struct curve *curve)
{
    static const double places[] = {1e-3, 1, 100, 1e6, 1e12};

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && curve->count > 0; i++) {
        double y = curve_at(curve, places[i], i % 2);
        if (!(isfinite(y) && y > 0))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct machine machine;
    char *text = malloc(bytes + 1);

    if (!text)
        return 0;
    memcpy(text, data, bytes);
    text[bytes] = '\0';
    if (machine_parse(&machine, "fuzz", text) == 0) {
        fuzz_accepted++;
        if (machine.devices < 1 || machine.devices > MACHINE_MAX_DEVICES || machine.nodes < 1)
            abort();
        for (int type = 0; type < MACHINE_TYPES; type++)
            read_curve(&machine.products[type]);
        for (int i = 0; i < machine.table_count; i++)
            read_curve(&machine.tables[i].seconds);
    }
    free(text);
    return 0;
}

size_t fuzz_seed(unsigned number, uint8_t *data)
{
    static const char *const texts[] = {
        "[machine]\nname = two\ndescription = words\ndevices = 2\nmemory_mib = 1000\n"
        "[host]\nlaunch_us = 5.6\nevent_us = 0\ncopy_us = 1\ncollective_us = 2\nstart_us = 3\nsync_us = 0\nown_work = 0\n"
        "[device]\nmemory_gbs = 100 # comment\nvector_tflops = 16\ncopy_engines = 2\nslowdown = 1.5\n"
        "[products]\nfp32 = 100:1 1000:10\nfp16 = 8192:110\nbf16 = 1:1\n"
        "[links]\nall = 10 1\n0>1 = 20 2\nhost_up = 5 3\nhost_down = 6 3\nports = 1\nhost_shared = 1\n"
        "[collectives]\nall_reduce 2 = 1000:10 100000:1000\nbroadcast 2 host = 8:1 1000:10 1000000:500\n",
        "[machine]\nname = cluster\ndevices = 8\nnodes = 8\n[device]\nmemory_gbs = 1\n[products]\nfp32 = 1:1\n[links]\nall = none\n"
        "0-1 = 10 1\nhost_up = 1 1\nhost_down = 1 1\n[collectives]\nall_reduce 64 = 1000:10 1000000:40\n"
        "[network]\ngbs = 25\nlatency_us = 5\n"};

    return number < 2 ? fuzz_text(data, texts[number]) : 0;
}
