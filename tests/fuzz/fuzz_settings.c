/* SPDX-License-Identifier: MIT
 *
 * Any words as the sweep's command line, and the plan that follows.
 */
#include <getopt.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "fuzz.h"
#include "plan.h"
#include "settings.h"

/* getopt goes on in a word that was refused, and a program asks once: it is brought to an end of its own. */
static void forget(void)
{
    char *none[] = {(char *)(uintptr_t)"none", NULL};

    optind = 0;
    (void)getopt(1, none, "");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct settings settings = {0};
    char *arguments[64], *text = malloc(bytes + 1);

    if (!text)
        return 0;
    int count = fuzz_words(text, arguments, 64, "dpbench sweep", data, bytes);
    forget();
    int status = settings_parse(&settings, count, arguments);
    fuzz_accepted += status <= 0; /* -1: --help */
    if (status == 0) {
        struct plan plan;
        plan_make(&plan, &settings);
        if (plan.cores_per_device < 1 || plan_run_count(&plan) < 0)
            abort();
        free(plan_text(&plan, &settings));
        plan_free(&plan);
    }
    free(text);
    return 0;
}

size_t fuzz_seed(unsigned number, uint8_t *data)
{
    static const char *const lines[] = {
        "--quick --gpus 1,2,4 --strategies single,dp,ddp --scaling strong --rounds 3 --steps 5 --out x --cores 4",
        "--models classes,digits --scaling strong,weak --resume --out z --device soft --gpus 8", "--results y --run-timeout 60", "--help"};

    return number < sizeof(lines) / sizeof(lines[0]) ? fuzz_text(data, lines[number]) : 0;
}
