/* SPDX-License-Identifier: MIT
 *
 * libFuzzer target: any bytes as an IDX file, of one or three dimensions. Built with -Dfuzz=true and clang:
 *
 *     tests/nn/fuzz_idx -max_total_time=60 -max_len=4096 -close_fd_mask=2
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "data/idx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct idx images, labels;

    if (idx_parse(&images, "fuzz", data, bytes, 3) == 0) {
        size_t values = images.size[0] * images.size[1] * images.size[2];
        if (images.values + values != data + bytes)
            abort();
    }
    if (idx_parse(&labels, "fuzz", data, bytes, 1) == 0 && idx_check_labels("fuzz", &labels, &labels, 10) == 0) {
        for (size_t i = 0; i < labels.size[0]; i++)
            if (labels.values[i] >= 10)
                abort();
    }
    return 0;
}
