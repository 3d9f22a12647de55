/* SPDX-License-Identifier: MIT
 *
 * Whole files, safely.
 */
#ifndef SYS_FILE_H
#define SYS_FILE_H

#include <stddef.h>

/* Reads a file whole; *data is the caller's (free). More than limit bytes, or any error: reported, EXIT_BAD_FILE. */
int file_read(const char *path, size_t limit, void **data, size_t *bytes);

/* Writes temporary name in the same folder, fsync, rename, fsync the folder: the old content or the new, whole, always.
 * Errors are reported with the path: EXIT_RESOURCE; the old file stays and the temporary one is gone. */
int file_write_atomic(const char *path, const void *data, size_t bytes);

/* Can a file be made at this path? Makes and removes a temporary beside it. EXIT_RESOURCE if not (reported). */
int file_check_writable(const char *path);

#endif
