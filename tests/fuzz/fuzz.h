/* SPDX-License-Identifier: MIT
 *
 * What a fuzz target is: a reader of files or command lines that is given any bytes, and good ones to begin with. Each is built
 * with driver.c as an ordinary test (some thousand inputs, the same every time), or, by clang with -Dfuzz=true, with libFuzzer:
 *
 *     CC=clang CXX=clang++ meson setup build-fuzz -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false
 *     ninja -C build-fuzz && mkdir corpus && build-fuzz/tests/fuzz/fuzz_idx corpus -max_total_time=60
 *
 * What it finds is an input that ends the program: a signal, a sanitizer's report, or abort() where a promise is not kept.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#define FUZZ_MAX_BYTES 16384

/* Each target's own: reads bytes that it may not write and that may lie at any address. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Counted by each target: inputs that its reader took for good. A target whose reader refuses all that it is given tests little. */
extern unsigned long fuzz_accepted;

/* Each target's own: good input `number` (from 0) into data [FUZZ_MAX_BYTES]. Its length; 0: there are no more. */
size_t fuzz_seed(unsigned number, uint8_t *data);

/* Before the first input: what the readers say is dropped. Also called by libFuzzer. */
int LLVMFuzzerInitialize(int *count, char ***arguments);

/* ---- for targets whose reader wants a file: input.c ---- */

/* A file with these bytes, the same one for each call; valid until the next. */
const char *fuzz_file(const void *data, size_t bytes);
/* The same as a file `name` in a folder. */
const char *fuzz_folder(const char **name, const void *data, size_t bytes);
/* The bytes as words, separated by spaces and ends of lines, behind arguments[0] = program: a command line. text[bytes + 1] holds
 * them. Returns their number; arguments[most] ends with NULL. */
int fuzz_words(char *text, char **arguments, int most, const char *program, const uint8_t *data, size_t bytes);
/* Copies a text, without its 0. */
size_t fuzz_text(uint8_t *data, const char *text);

#endif
