/* SPDX-License-Identifier: MIT
 *
 * Any bytes as results.csv. What is accepted is the same again when it is written and read back: a resumed sweep depends on it.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../bench/results_columns.h"
#include "csv.h"
#include "fuzz.h"
#include "text.h"

static const char *const columns[] = {RESULTS_COLUMNS};
#define COLUMNS ((int)(sizeof(columns) / sizeof(columns[0])))

static int read_table(struct table *table, const void *data, size_t bytes)
{
    const char *name, *folder = fuzz_folder(&name, data, bytes);

    table_init(table, name, columns, COLUMNS);
    return table_read(table, folder);
}

static void compare(const struct table *a, const struct table *b)
{
    if (a->row_count != b->row_count)
        abort();
    for (int row = 0; row < a->row_count; row++)
        for (int c = 0; c < COLUMNS; c++)
            if (strcmp(table_get(a, row, columns[c]), table_get(b, row, columns[c])) != 0)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct table table, again;

    if (read_table(&table, data, bytes) == 0) {
        fuzz_accepted++;
        struct text text;
        text_open(&text);
        table_print(&table, text.out);
        text_close(&text);
        if (read_table(&again, text.data, text.size) != 0)
            abort();
        compare(&table, &again);
        table_free(&again);
        free(text.data);
    } else if (table.row_count != 0) {
        abort();
    }
    table_free(&table);
    return 0;
}

/* The header; that and a row of numbers; and rows with quotes, ends of lines in a field, and empty fields. */
size_t fuzz_seed(unsigned number, uint8_t *data)
{
    static const char *const fields[] = {"12.5", "\"two \"\"words\"\",\nand a line\"", ""};
    size_t at = 0;

    if (number > 3)
        return 0;
    for (int c = 0; c < COLUMNS; c++) {
        at += fuzz_text(data + at, columns[c]);
        data[at++] = c + 1 < COLUMNS ? ',' : '\n';
    }
    for (unsigned row = 0; row < number; row++)
        for (int c = 0; c < COLUMNS; c++) {
            at += fuzz_text(data + at, fields[(row + (unsigned)c) % 3]);
            data[at++] = c + 1 < COLUMNS ? ',' : '\n';
        }
    return at;
}
