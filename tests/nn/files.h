/* SPDX-License-Identifier: MIT
 *
 * Files for tests of readers, and what the readers allocate for them.
 */
#ifndef TESTS_NN_FILES_H
#define TESTS_NN_FILES_H

#include <stddef.h>

/* The path of `name` in this test program's own folder, made at the first call; valid until the next call but three. */
const char *test_path(const char *name);
/* Removes the folder and all files in it. A cmocka teardown. */
int remove_test_folder(void **state);

/* Writes a file, not durably; fails the test if it can't. */
void put_file(const char *path, const void *data, size_t bytes);
/* Reads a file into new memory (free). */
void *get_file(const char *path, size_t *bytes);

/* Bytes asked of malloc, calloc and realloc since the last reset, freed or not. The program is linked with --wrap for
 * these three, so this project's own calls are counted; cJSON's are through its hooks, which the first reset sets. */
size_t allocated_bytes(void);
void reset_allocated_bytes(void);

#endif
