/* SPDX-License-Identifier: MIT
 *
 * Tables as RFC 4180 text (csv.h). Lines end with \n alone: spreadsheets accept it, and diff and grep like it better.
 */
#include "csv.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sys/exit_codes.h"
#include "sys/file.h"
#include "sys/log.h"
#include "text.h"

#define CSV_LIMIT ((size_t)256 << 20) /* bytes; a file beyond is none of ours */

void table_init(struct table *table, const char *name, const char *const *columns, int column_count)
{
    *table = (struct table){.name = name, .columns = columns, .column_count = column_count};
}

static void clear_row(struct table *table, int row)
{
    for (int c = 0; c < table->column_count; c++)
        free(table->cells[row * table->column_count + c]);
}

void table_free(struct table *table)
{
    for (int row = 0; row < table->row_count; row++)
        clear_row(table, row);
    free(table->cells);
    table->cells = NULL;
    table->row_count = table->row_capacity = 0;
}

int table_add_row(struct table *table)
{
    size_t width = (size_t)table->column_count;
    if (table->row_count == table->row_capacity) {
        int capacity = table->row_capacity ? 2 * table->row_capacity : 64;
        table->cells = text_must(realloc(table->cells, (size_t)capacity * width * sizeof *table->cells));
        table->row_capacity = capacity;
    }
    memset(table->cells + (size_t)table->row_count * width, 0, width * sizeof *table->cells);
    return table->row_count++;
}

void table_copy_row(struct table *table, const struct table *from, int row)
{
    size_t width = (size_t)table->column_count;
    int at = table_add_row(table);
    char **to = table->cells + (size_t)at * width;
    for (size_t c = 0; c < width; c++) {
        const char *text = from->cells[(size_t)row * width + c];
        to[c] = text ? text_format("%s", text) : NULL;
    }
}

void table_remove(struct table *table, bool (*drop)(const struct table *table, int row, void *context), void *context)
{
    size_t width = (size_t)table->column_count;
    int kept = 0;
    for (int row = 0; row < table->row_count; row++) {
        if (drop(table, row, context)) {
            clear_row(table, row);
            continue;
        }
        if (kept != row)
            memcpy(table->cells + (size_t)kept * width, table->cells + (size_t)row * width,
                   width * sizeof *table->cells);
        kept++;
    }
    table->row_count = kept;
}

static char **cell(const struct table *table, int row, const char *column)
{
    for (int c = 0; c < table->column_count; c++)
        if (text_is(table->columns[c], column))
            return &table->cells[row * table->column_count + c];
    log_error("%s has no column '%s'", table->name, column);
    abort();
}

void table_set(struct table *table, int row, const char *column, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = NULL;
    if (vasprintf(&text, format, arguments) < 0)
        text = NULL;
    va_end(arguments);
    char **place = cell(table, row, column);
    free(*place);
    *place = text_must(text);
}

void table_set_number(struct table *table, int row, const char *column, double value)
{
    if (isfinite(value))
        table_set(table, row, column, "%.9g", value);
}

const char *table_get(const struct table *table, int row, const char *column)
{
    const char *text = *cell(table, row, column);
    return text ? text : "";
}

double table_number(const struct table *table, int row, const char *column)
{
    const char *text = table_get(table, row, column);
    char *end;
    double value = strtod(text, &end);
    return *text && !*end ? value : NAN;
}

int table_find(const struct table *table, int start, const char *column, const char *value)
{
    for (int row = start; row < table->row_count; row++)
        if (text_is(table_get(table, row, column), value))
            return row;
    return -1;
}

static void print_field(const char *field, FILE *out)
{
    if (!field)
        return;
    if (!strpbrk(field, ",\"\r\n")) {
        fputs(field, out);
        return;
    }
    putc('"', out);
    for (; *field; field++) {
        if (*field == '"')
            putc('"', out);
        putc(*field, out);
    }
    putc('"', out);
}

void table_print(const struct table *table, FILE *out)
{
    for (int c = 0; c < table->column_count; c++)
        fprintf(out, "%s%s", c ? "," : "", table->columns[c]);
    putc('\n', out);
    for (int row = 0; row < table->row_count; row++) {
        for (int c = 0; c < table->column_count; c++) {
            if (c)
                putc(',', out);
            print_field(table->cells[row * table->column_count + c], out);
        }
        putc('\n', out);
    }
}

int table_write(const struct table *table, const char *folder)
{
    struct text text;
    text_open(&text);
    table_print(table, text.out);
    text_close(&text);
    char *path = text_format("%s/%s", folder, table->name);
    int rc = file_write_atomic(path, text.data, text.size);
    free(path);
    free(text.data);
    return rc;
}

int table_forget(const struct table *table, const char *folder)
{
    char *path = text_format("%s/%s", folder, table->name);
    int rc = unlink(path) && errno != ENOENT ? EXIT_RESOURCE : EXIT_OK;
    if (rc)
        log_error("%s: cannot be removed: %s", path, strerror(errno));
    free(path);
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct reader {
    const char *path;
    const char *at, *end;
    int line;    /* of the record that is being read */
    char *field; /* room for the longest field: as long as the file */
};

/* Reads one field into reader->field and returns the character after it: ',', '\n', or 0 for text that is cut. */
static int read_field(struct reader *reader)
{
    char *out = reader->field;
    bool quoted = reader->at < reader->end && *reader->at == '"';
    if (quoted)
        reader->at++;
    while (reader->at < reader->end) {
        char c = *reader->at++;
        if (quoted && c == '"') {
            if (reader->at < reader->end && *reader->at == '"') {
                *out++ = *reader->at++;
                continue;
            }
            quoted = false;
            continue;
        }
        if (!quoted && (c == ',' || c == '\n')) {
            *out = '\0';
            return c;
        }
        if (!quoted && c == '\r' && reader->at < reader->end && *reader->at == '\n')
            continue;
        *out++ = c;
    }
    *out = '\0';
    return 0;
}

static int read_header(struct reader *reader, const struct table *table)
{
    for (int c = 0; c < table->column_count; c++) {
        int after = read_field(reader);
        bool last = c == table->column_count - 1;
        if (!text_is(reader->field, table->columns[c]) || after != (last ? '\n' : ',')) {
            log_error("%s: line 1: column %d is '%s', expected '%s'%s", reader->path, c + 1, reader->field,
                      table->columns[c], last ? " as the last" : "");
            return EXIT_BAD_FILE;
        }
    }
    return EXIT_OK;
}

static int read_row(struct reader *reader, struct table *table)
{
    int row = table_add_row(table);
    for (int c = 0; c < table->column_count; c++) {
        int after = read_field(reader);
        if (after != (c == table->column_count - 1 ? '\n' : ',')) {
            log_error("%s: line %d: %s after field %d, expected %d fields and a line end", reader->path, reader->line,
                      after == 0     ? "the file ends"
                      : after == ',' ? "another field"
                                     : "the line ends",
                      c + 1, table->column_count);
            return EXIT_BAD_FILE;
        }
        if (*reader->field)
            table_set(table, row, table->columns[c], "%s", reader->field);
    }
    return EXIT_OK;
}

int table_read(struct table *table, const char *folder)
{
    char *path = text_format("%s/%s", folder, table->name);
    void *data = NULL;
    size_t bytes;
    int rows_before = table->row_count;
    int rc = file_read(path, CSV_LIMIT, &data, &bytes);
    if (!rc) {
        struct reader reader = {.path = path,
                                .at = data,
                                .end = (const char *)data + bytes,
                                .line = 1,
                                .field = text_must(malloc(bytes + 1))};
        rc = read_header(&reader, table);
        while (!rc && reader.at < reader.end) {
            reader.line++;
            rc = read_row(&reader, table);
        }
        free(reader.field);
    }
    while (rc && table->row_count > rows_before)
        clear_row(table, --table->row_count);
    free(data);
    free(path);
    return rc;
}
