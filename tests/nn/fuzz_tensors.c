/* SPDX-License-Identifier: MIT
 *
 * libFuzzer target: any bytes as a file of tensors. The checksum is put right first, or the fuzzer would never get past
 * it. Built with -Dfuzz=true and clang:
 *
 *     tests/nn/fuzz_tensors -max_total_time=60 -max_len=4096 -close_fd_mask=2
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "data/tensors.h"
#include "sys/checksum.h"

#define PREFIX "{\"__metadata__\":{\"checksum\":\""

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Length (of `blocks` x 64 bytes with its own 8), prefix and checksum as a writer would have put them round these
 * bytes. */
static size_t seal(uint8_t *file, unsigned blocks, const uint8_t *data, size_t bytes)
{
    size_t header = blocks * (size_t)64 - 8, at = 8 + sizeof PREFIX - 1;
    char digits[17];

    memcpy(file + at + 16, data, bytes);
    size_t total = at + 16 + bytes;
    for (int b = 0; b < 8; b++)
        file[b] = (uint8_t)((uint64_t)header >> (8 * b));
    memcpy(file + 8, PREFIX "0000000000000000", at + 16 - 8);
    uint64_t sum = checksum(CHECKSUM_SEED, file, at);
    sum = checksum(sum, file + at, 16);
    snprintf(digits, sizeof digits, "%016" PRIx64, checksum(sum, file + at + 16, bytes));
    memcpy(file + at, digits, 16);
    return total;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static uint8_t file[1 << 16];
    struct tensor_file tensors;
    char path[64];

    if (bytes == 0 || bytes > sizeof file - 64)
        return 0;
    size_t total = seal(file, data[0], data + 1, bytes - 1);
    int descriptor = memfd_create("fuzz", MFD_CLOEXEC);
    if (descriptor < 0 || write(descriptor, file, total) != (ssize_t)total)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    if (tensors_read(path, &tensors) == 0) {
        for (size_t i = 0; i < tensors.count; i++) /* reads all that was promised */
            (void)checksum(CHECKSUM_SEED, tensors.views[i].data, tensors.views[i].count * sizeof(float));
        tensors_close(&tensors);
    }
    close(descriptor);
    return 0;
}
