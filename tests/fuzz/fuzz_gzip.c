/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a compressed IDX file.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "data/idx.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    for (int dimensions = 1; dimensions <= 3; dimensions += 2) {
        struct idx idx;
        void *content = NULL;
        unsigned sum = 0;
        if (idx_parse_gzip(&idx, "fuzz", data, bytes, dimensions, &content) == 0) {
            fuzz_accepted++;
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

/* Few images, many (that deflate well), and labels. */
size_t fuzz_seed(unsigned number, uint8_t *data)
{
    static const uint8_t headers[][16] = {{0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 2},
                                          {0, 0, 8, 3, 0, 0, 3, 232, 0, 0, 0, 28, 0, 0, 0, 28},
                                          {0, 0, 8, 1, 0, 0, 0, 40}};
    static const size_t lengths[] = {16 + 12, 16 + 784000, 8 + 40};
    z_stream stream = {0};

    if (number >= 3)
        return 0;
    uint8_t *plain = calloc(1, lengths[number]);
    if (!plain || deflateInit2(&stream, 9, Z_DEFLATED, MAX_WBITS + 16, 9, Z_DEFAULT_STRATEGY) != Z_OK)
        abort();
    memcpy(plain, headers[number], number < 2 ? 16 : 8);
    stream.next_in = plain;
    stream.avail_in = (uInt)lengths[number];
    stream.next_out = data;
    stream.avail_out = FUZZ_MAX_BYTES;
    if (deflate(&stream, Z_FINISH) != Z_STREAM_END)
        abort();
    (void)deflateEnd(&stream);
    free(plain);
    return FUZZ_MAX_BYTES - stream.avail_out;
}
