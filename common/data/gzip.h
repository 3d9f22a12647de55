/* SPDX-License-Identifier: MIT
 *
 * Unpacking a gzip file (RFC 1952) that lies in memory, when its unpacked length is known before. Needs zlib; without
 * it every function says so (EXIT_RESOURCE).
 *
 * A compressed file can unpack to a thousand times its size, so nothing is allocated for what it may hold, only for
 * what it must hold: the caller knows the length from the unpacked header, and the file's own last four bytes agree.
 */
#ifndef DATA_GZIP_H
#define DATA_GZIP_H

#include <stdbool.h>
#include <stddef.h>

/* Do these bytes begin as a gzip file does? */
bool gzip_recognize(const void *data, size_t bytes);

/* *unpacked := the unpacked length as the file's end tells it (modulo 2^32), if deflate could reach it with so many
 * bytes. EXIT_BAD_FILE (reported) if not, or if the file is too short to be gzip. */
int gzip_length(const char *name, const void *data, size_t bytes, size_t *unpacked);

/* Unpacks the first `count` bytes only, into the caller's memory. EXIT_BAD_FILE if there are fewer. */
int gzip_begin(const char *name, const void *data, size_t bytes, void *first, size_t count);

/* Unpacks all into new memory (free). Must give exactly `unpacked` bytes, with the right check sum, and nothing may
 * follow: else EXIT_BAD_FILE, reported with found and expected. */
int gzip_unpack(const char *name, const void *data, size_t bytes, size_t unpacked, void **content);

#endif
