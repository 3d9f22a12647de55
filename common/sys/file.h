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
 * A symbolic link is followed. What stands there and is no regular file (a device, a pipe, a folder) is refused. Errors
 * are reported with the path: EXIT_RESOURCE; the old file stays and the temporary one is gone. */
int file_write_atomic(const char *path, const void *data, size_t bytes);

/* Can file_write_atomic write this path? Makes and removes a temporary beside it. EXIT_RESOURCE if not (reported). */
int file_check_writable(const char *path);

/* The same for text that others may read as it comes: into a pipe, a terminal, or whatever stdout and stderr lead to
 * (/dev/stdout), it is written as it is; every other path is file_write_atomic's. A pipe without a reader, or whose
 * reader takes nothing for 10 s, is an error. */
int file_write_output(const char *path, const void *data, size_t bytes);
int file_check_output(const char *path); /* does not open a pipe: its reader would see an end */

#endif
