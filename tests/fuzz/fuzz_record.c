/* SPDX-License-Identifier: MIT
 *
 * Any bytes behind a right magic and a right checksum, as a record and as a program.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "program.h"
#include "replay/small_record.h"
#include "sys/checksum.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct record_file record;
    struct program program;
    char *copy = malloc(bytes + 1);
    if (!copy)
        return 0;
    memcpy(copy, data, bytes);
    if (bytes >= sizeof(struct soft_record_header)) {
        struct soft_record_header *header = (void *)copy;
        memcpy(header->magic, SOFT_RECORD_MAGIC, sizeof(header->magic));
        header->checksum = checksum(CHECKSUM_SEED, header + 1, bytes - sizeof(*header));
    }
    if (record_parse(&record, "fuzz", copy, bytes) == 0) {
        if (program_build(&program, &record) == 0) {
            program_close(&program);
            fuzz_accepted++;
        }
        record_close(&record);
    }
    free(copy);
    return 0;
}

size_t fuzz_seed(unsigned number, uint8_t *data)
{
    struct small_record file = small_record();

    if (number > 0)
        return 0;
    memcpy(data, &file, sizeof(file));
    return sizeof(file);
}
