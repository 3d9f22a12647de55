/* SPDX-License-Identifier: MIT
 *
 * Any bytes as the lines of --json, of which the sweep reads steps and the summary.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "fuzz.h"
#include "record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct record record;

    if (record_read(&record, fuzz_file(data, bytes)) == 0) {
        fuzz_accepted++;
        double *ms = NULL;
        int steps = record_steps(&record, &ms);
        if (steps > record.count)
            abort();
        (void)record_number(record.summary, "step_ms");
        (void)record_text(record.header, "model");
        free(ms);
    }
    record_free(&record);
    return 0;
}

size_t fuzz_seed(unsigned number, uint8_t *data)
{
    static const char *const texts[] = {
        "{\"type\": \"header\", \"schema\": 1, \"model\": \"mlp\", \"gpus\": 2, \"params\": 3962890}\n"
        "{\"type\": \"step\", \"step\": 1, \"ms\": 12.5, \"loss\": 2.302585}\n"
        "{\"type\": \"step\", \"step\": 2, \"ms\": 11.5e0, \"loss\": null}\n"
        "{\"type\": \"summary\", \"status\": \"ok\", \"reason\": null, \"step_ms\": 12.0, \"text\": \"\\u00e4 \\\"x\\\"\"}\n",
        "{\"type\": \"run\", \"list\": [1, [2, {\"a\": true}], false]}\n"};

    return number < 2 ? fuzz_text(data, texts[number]) : 0;
}
