/* SPDX-License-Identifier: MIT
 *
 * Reads a record (docs/record.md). A file is believed only after its length, its checksum and every field of every
 * entry have been looked at: what is behind record_parse needs no check of a number, string or kind again.
 */
#ifndef REPLAY_RECORD_FILE_H
#define REPLAY_RECORD_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "softgpu/record.h"

#define RECORD_MAX_STRINGS                                                                                             \
    65536                    /* names of a file: 256 KiB of offsets, all that is allocated beside the file itself      \
                              */
#define RECORD_MAX_COST 1e18 /* floating point operations or bytes of one task */

struct record_file {
    const char *path; /* borrowed; for messages */
    const struct soft_record_header *header;
    const struct soft_record_entry *entries; /* [count] */
    uint64_t count;
    uint32_t *offsets; /* [header->string_count] into text */
    const char *text;
    void *data; /* owned; NULL: the caller's */
};

/* Looks at a file's bytes, which the caller keeps, 8-byte aligned, until record_close. Damaged: reported as place,
 * found, expected; EXIT_BAD_FILE. */
int record_parse(struct record_file *record, const char *path, const void *data, size_t bytes);

/* The same for a file. Allocates its size and at most 1 MiB more. */
int record_load(struct record_file *record, const char *path);
void record_close(struct record_file *record);

/* The entry as facts of a collective (its kind says so). */
const struct soft_record_facts *record_facts(const struct soft_record_entry *entry);
const char *record_string(const struct record_file *record, uint32_t number);

#endif
