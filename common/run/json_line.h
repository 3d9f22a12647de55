/* SPDX-License-Identifier: MIT
 *
 * JSON, one object a line (docs/output.md). Numbers that are NAN or infinite become null: nothing unmeasured is printed
 * as a number.
 */
#ifndef RUN_JSON_LINE_H
#define RUN_JSON_LINE_H

#include <stdint.h>
#include <stdio.h>

void json_begin(FILE *out, const char *type);                   /* {"type": "..." */
void json_text(FILE *out, const char *name, const char *value); /* NULL: null */
void json_number(FILE *out, const char *name, double value);
void json_integer(FILE *out, const char *name, int64_t value);
void json_unsigned(FILE *out, const char *name, uint64_t value);
void json_end(FILE *out); /* } and the end of the line */

/* A string with its quotes, escaped. */
void json_quote(FILE *out, const char *text);

#endif
