/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a text, the first two of them as the length of a sample.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "data/text.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct dataset dataset = {0};
    size_t block = bytes < 2 ? 1 : data[0] + 256 * (size_t)(data[1] % 16);
    int32_t *tokens = malloc((block + 1) * sizeof *tokens), *targets = malloc((block + 1) * sizeof *targets);

    text_open(&dataset, data, bytes);
    if (dataset_fit(&dataset, &(struct sample_shape){block, block, TEXT_VOCABULARY, true}) == 0) {
        fuzz_accepted++;
        for (uint32_t i = 0; i < dataset.train_count + dataset.test_count; i++) {
            dataset_gather(&dataset, &i, 1, tokens, targets);
            for (size_t j = 0; j + 1 < block; j++)
                if (tokens[j + 1] != targets[j] || targets[j] < 0 || targets[j] >= TEXT_VOCABULARY)
                    abort();
        }
    }
    free(tokens);
    free(targets);
    return 0;
}

size_t fuzz_seed(unsigned number, uint8_t *data)
{
    static const char *const texts[] = {"\x04\x10" "the quick brown fox jumps over the lazy dog; the quick brown fox jumps over the lazy dog",
                                        "\x01\x10" "ab"};
    return number < 2 ? fuzz_text(data, texts[number]) : 0;
}
