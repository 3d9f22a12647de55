/* SPDX-License-Identifier: MIT
 *
 * Reading IDX from memory: see idx.h. Also what the fuzz target tests/nn/fuzz_idx.c calls.
 */
#include "data/idx.h"

#include <stdio.h>

#include "data/gzip.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

#define TYPE_UNSIGNED_BYTE 8u

static uint32_t big_endian(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static size_t header_bytes(int dimensions)
{
    return 4 + 4 * (size_t)dimensions;
}

/* Reads the header of a file of `bytes` bytes; only the header lies at `file`. */
static int parse_header(struct idx *idx, const char *name, const uint8_t *file, size_t bytes, int dimensions)
{
    size_t header = header_bytes(dimensions);
    uint32_t magic_expected = TYPE_UNSIGNED_BYTE << 8 | (uint32_t)dimensions;

    if (bytes < header) {
        log_error("%s: %zu bytes found, expected at least the %zu of an IDX header with %d dimensions", name, bytes,
                  header, dimensions);
        return EXIT_BAD_FILE;
    }
    uint32_t magic = big_endian(file);
    if (magic != magic_expected) {
        log_error("%s: byte 0: magic number 0x%08x found, expected 0x%08x (unsigned bytes, %d dimensions)", name, magic,
                  magic_expected, dimensions);
        return EXIT_BAD_FILE;
    }

    size_t room = bytes - header; /* what is left for the values: bounds the product, so that it can't wrap */
    size_t values = 1;
    for (int i = 0; i < dimensions; i++) {
        uint32_t size = big_endian(file + 4 + 4 * i);
        if (size == 0 || size > room / values) {
            log_error("%s: byte %d: dimension %d of size %u found, expected 1 to %zu in a file of %zu bytes", name,
                      4 + 4 * i, i, size, room / values, bytes);
            return EXIT_BAD_FILE;
        }
        values *= size;
        idx->size[i] = size;
    }
    if (values != room) {
        log_error("%s: byte %zu: %zu bytes of values found, expected %zu by the header", name, header, room, values);
        return EXIT_BAD_FILE;
    }
    idx->dimensions = dimensions;
    return EXIT_OK;
}

int idx_parse(struct idx *idx, const char *name, const void *data, size_t bytes, int dimensions)
{
    int status = parse_header(idx, name, data, bytes, dimensions);

    if (!status)
        idx->values = (const uint8_t *)data + header_bytes(dimensions);
    return status;
}

int idx_parse_gzip(struct idx *idx, const char *name, const void *data, size_t bytes, int dimensions, void **content)
{
    uint8_t header[4 + 4 * IDX_MAX_DIMENSIONS] = {0};
    size_t unpacked = 0;
    char unpacked_name[1100];

    *content = NULL;
    snprintf(unpacked_name, sizeof unpacked_name, "%s, unpacked", name);
    int status = gzip_length(name, data, bytes, &unpacked);
    if (!status && unpacked > IDX_MAX_BYTES) {
        log_error("%s: byte %zu: an unpacked length of %zu found, expected at most %zu", name, bytes - 4, unpacked, IDX_MAX_BYTES);
        status = EXIT_BAD_FILE;
    }
    if (!status)
        status = gzip_begin(name, data, bytes, header, unpacked < sizeof header ? unpacked : sizeof header);
    if (!status)
        status = parse_header(idx, unpacked_name, header, unpacked, dimensions);
    if (!status)
        status = gzip_unpack(name, data, bytes, unpacked, content);
    if (!status)
        idx->values = (const uint8_t *)*content + header_bytes(dimensions);
    return status;
}

int idx_check_labels(const char *name, const struct idx *labels, const struct idx *images, unsigned classes)
{
    if (labels->size[0] != images->size[0]) {
        log_error("%s: byte 4: %zu labels found, expected %zu, one per image", name, labels->size[0], images->size[0]);
        return EXIT_BAD_FILE;
    }
    for (size_t i = 0; i < labels->size[0]; i++) {
        if (labels->values[i] >= classes) {
            log_error("%s: byte %zu: label %u found, expected 0 to %u", name, 8 + i, labels->values[i], classes - 1);
            return EXIT_BAD_FILE;
        }
    }
    return EXIT_OK;
}
