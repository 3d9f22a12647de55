/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a CIFAR file of as many records as they could be.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "data/cifar.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const struct cifar_format *const formats[] = {&cifar10, &cifar100};

    for (int f = 0; f < 2; f++) {
        size_t record = formats[f]->label_bytes + CIFAR_PIXELS, records = bytes / record;
        if (cifar_check(formats[f], "fuzz", data, bytes, records))
            continue;
        fuzz_accepted++;
        for (size_t i = 0; i < records; i++)
            if (data[i * record + formats[f]->label_bytes - 1] >= formats[f]->classes)
                abort();
    }
    return 0;
}

/* Two records of each format. */
size_t fuzz_seed(unsigned number, uint8_t *data)
{
    size_t record = number + 1 + CIFAR_PIXELS;

    if (number > 1)
        return 0;
    memset(data, 7, 2 * record);
    return 2 * record;
}
