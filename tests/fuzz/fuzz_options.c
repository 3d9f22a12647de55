/* SPDX-License-Identifier: MIT
 *
 * Any words as a trainer's command line, the first byte says whose. What is accepted is within its limits.
 */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "fuzz.h"
#include "run/options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct options options;
    char *arguments[64], *text = malloc(bytes + 1);
    const char *program = bytes && data[0] % 2 ? "ddp-train" : "dp-train";

    if (!text || bytes == 0) {
        free(text);
        return 0;
    }
    int count = fuzz_words(text, arguments, 64, program, data + 1, bytes - 1);
    int status = options_parse(&options, program, count, arguments);
    fuzz_accepted += status <= 0; /* -1: --help, --version */
    if (status == 0) {
        if (options.gpus < 1 || options.gpus > 64 || options.accumulate < 1 || !(options.timeout > 0) ||
            !isfinite(options.optimizer.lr) || options.steps < 1)
            abort();
    }
    free(text);
    return 0;
}

size_t fuzz_seed(unsigned number, uint8_t *data)
{
    static const char *const lines[] = {
        "0--gpus 4 --model mlp --width 64 --depth 2 --global-batch 32 --lr 0.05 --momentum 0.9 --precision fp16 --json out.json",
        "1--gpus 8 --sampler distributed --batch-per-gpu 8 --accumulate 2 --bucket-cap-mb 0.5 --no-overlap --timeout 3.5 --seed 7",
        "0--strategy single --data digits --epochs 3 --optimizer adamw --schedule cosine --clip-norm 1 --loss sum --checksum",
        "0--dp-transport p2p --dp-loss replica --output-device 1 --gpus=2 --device-memory 512 --save a --resume b",
        "1--help", "0--version", "1--loss-average ranks --rendezvous-timeout 1 --local_rank 1"};

    return number < sizeof(lines) / sizeof(lines[0]) ? fuzz_text(data, lines[number]) : 0;
}
