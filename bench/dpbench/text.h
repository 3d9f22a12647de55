/* SPDX-License-Identifier: MIT
 *
 * Text that grows, and allocations that end the program with a message when memory runs out: a sweep has nothing better
 * to do then, its finished rows are on the disk, and its children die with it (PR_SET_PDEATHSIG).
 */
#ifndef DPBENCH_TEXT_H
#define DPBENCH_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static inline bool text_is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

struct text {
    char *data; /* valid after text_close; the caller frees */
    size_t size;
    FILE *out; /* print here */
};

void text_open(struct text *text);
void text_close(struct text *text);

/* The pointer itself; NULL: reported, exit(EXIT_RESOURCE). */
void *text_must(void *pointer);

/* A formatted string; the caller frees. */
char *text_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Text with < > & " replaced by their HTML entities. */
void text_html(FILE *out, const char *plain);

#endif
