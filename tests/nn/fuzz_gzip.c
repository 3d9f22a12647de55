/* SPDX-License-Identifier: MIT
 *
 * libFuzzer target: any bytes as a compressed IDX file. Run as fuzz_idx is.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "data/idx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    for (int dimensions = 1; dimensions <= 3; dimensions += 2) {
        struct idx idx;
        void *content = NULL;
        unsigned sum = 0;
        if (idx_parse_gzip(&idx, "fuzz", data, bytes, dimensions, &content) == 0) {
            size_t values = dimensions == 1 ? idx.size[0] : idx.size[0] * idx.size[1] * idx.size[2];
            for (size_t i = 0; i < values; i++)
                sum += idx.values[i];
        }
        if (sum == 1u << 31)
            abort();
        free(content);
    }
    return 0;
}
