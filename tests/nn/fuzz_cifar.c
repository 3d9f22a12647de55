/* SPDX-License-Identifier: MIT
 *
 * libFuzzer target: any bytes as a CIFAR file of as many records as they could be. Run as fuzz_idx is, with
 * -max_len=10000.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "data/cifar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const struct cifar_format *const formats[] = {&cifar10, &cifar100};

    for (int f = 0; f < 2; f++) {
        size_t record = formats[f]->label_bytes + CIFAR_PIXELS, records = bytes / record;
        if (cifar_check(formats[f], "fuzz", data, bytes, records))
            continue;
        for (size_t i = 0; i < records; i++)
            if (data[i * record + formats[f]->label_bytes - 1] >= formats[f]->classes)
                abort();
    }
    return 0;
}
