/* SPDX-License-Identifier: MIT
 *
 * Any bytes as an IDX file, of one or three dimensions.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "data/idx.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct idx images, labels;

    if (idx_parse(&images, "fuzz", data, bytes, 3) == 0) {
        fuzz_accepted++;
        size_t values = images.size[0] * images.size[1] * images.size[2];
        if (images.values + values != data + bytes)
            abort();
    }
    if (idx_parse(&labels, "fuzz", data, bytes, 1) == 0 && idx_check_labels("fuzz", &labels, &labels, 10) == 0) {
        fuzz_accepted++;
        for (size_t i = 0; i < labels.size[0]; i++)
            if (labels.values[i] >= 10)
                abort();
    }
    return 0;
}

size_t fuzz_seed(unsigned number, uint8_t *data)
{
    static const uint8_t images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 255, 254};
    static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 5, 0, 9, 3, 4, 1};

    if (number > 1)
        return 0;
    memcpy(data, number ? labels : images, number ? sizeof(labels) : sizeof(images));
    return number ? sizeof(labels) : sizeof(images);
}
