/* SPDX-License-Identifier: MIT
 *
 * Results of a run of the kernel tests in a file, in the order of the cases, so that another run can be held against it.
 */
#ifndef TESTS_KERNELS_DUMP_H
#define TESTS_KERNELS_DUMP_H

#include <stdbool.h>
#include <stddef.h>

enum dump_mode { DUMP_NONE, DUMP_WRITE, DUMP_COMPARE, DUMP_IDENTICAL };

/* Returns 0 or an exit code (reported). */
int dump_open(enum dump_mode mode, const char *path);
/* 0, or EXIT_BAD_FILE if the file could not be written, or holds more than was compared. */
int dump_close(void);

/* Writes the result, or holds it against the file's next one: a float array within the tolerance (doubled, since both sides
 * may err), others and DUMP_IDENTICAL by bytes. Returns false, after printing the difference, if they differ. */
bool dump_floats(const char *test, const char *label, const float *got, size_t n, double relative, double absolute);
bool dump_bytes(const char *test, const char *label, const void *got, size_t bytes);

/* Is `got` within the tolerance of `expected`? NaN first. */
bool dump_close_enough(double got, double expected, double relative, double absolute);

#endif
