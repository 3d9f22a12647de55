/* SPDX-License-Identifier: MIT
 *
 * Tables with named columns, kept as text and written as RFC 4180. All files of a sweep are such tables, and the report
 * reads nothing else. Reading a file of ours and writing it again gives the same bytes: a resumed sweep depends on it.
 */
#ifndef DPBENCH_CSV_H
#define DPBENCH_CSV_H

#include <stdbool.h>
#include <stdio.h>

struct table {
    const char *name;           /* "results.csv" */
    const char *const *columns; /* borrowed, in the file's order */
    int column_count;
    char **cells; /* [row_count][column_count]; NULL: empty */
    int row_count, row_capacity;
};

void table_init(struct table *table, const char *name, const char *const *columns, int column_count);
void table_free(struct table *table);

/* Appends a row of empty fields and returns its index. Memory that runs out ends the program with EXIT_RESOURCE. */
int table_add_row(struct table *table);

/* Appends a copy of a row of another table with the same columns. */
void table_copy_row(struct table *table, const struct table *from, int row);

/* Removes the rows for which `drop` says so, keeping the order of the others. */
void table_remove(struct table *table, bool (*drop)(const struct table *table, int row, void *context), void *context);

/* Sets a field; the column must exist (abort otherwise: a mistake of the program). */
void table_set(struct table *table, int row, const char *column, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* A number with up to nine significant digits; NAN leaves the field empty: what was not measured is never 0. */
void table_set_number(struct table *table, int row, const char *column, double value);

/* The text of a field, "" if empty. */
const char *table_get(const struct table *table, int row, const char *column);

/* The number in a field; NAN if it is empty or no number. */
double table_number(const struct table *table, int row, const char *column);

/* First row at or after `start` in which column = value; -1: none. */
int table_find(const struct table *table, int start, const char *column, const char *value);

/* Writes header and rows to a stream: `,` between fields, `"` round fields that need it, CRLF only inside fields. */
void table_print(const struct table *table, FILE *out);

/* Replaces the file FOLDER/NAME whole (file_write_atomic). 0 or EXIT_RESOURCE. */
int table_write(const struct table *table, const char *folder);

/* Removes FOLDER/NAME if it is there. 0 or EXIT_RESOURCE (reported). */
int table_forget(const struct table *table, const char *folder);

/* Appends the rows of FOLDER/NAME. Another header, a row with another number of fields, an open quote or a cut last
 * line: EXIT_BAD_FILE, reported with line, found and expected; nothing is kept. */
int table_read(struct table *table, const char *folder);

#endif
