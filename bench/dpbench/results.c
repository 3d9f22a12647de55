/* SPDX-License-Identifier: MIT
 *
 * The files of a sweep: columns, reading and writing (results.h). The rows are made in rows.c.
 */
#include "results.h"
#include "bench/results_columns.h"

#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "sys/exit_codes.h"
#include "sys/file.h"
#include "text.h"

/* What names a cell in every table. */
#define KEY "strategy", "variant", "model", "data", "gpus", "scaling", "global_batch"

static const char *const row_columns[] = {RESULTS_COLUMNS};
static const char *const device_columns[] = {
    KEY,
    "device",
    "rank",
    "cores",
    "mem_peak_mib",
    "mem_parameters_mib",
    "mem_gradients_mib",
    "mem_optimizer_mib",
    "mem_activations_mib",
    "mem_outputs_mib",
    "mem_communication_mib",
    "mem_data_mib",
    "util",
    "busy_ms",
    "sent_mib",
    "received_mib",
};
static const char *const step_columns[] = {KEY, "round", "step", "ms", "loss"};
static const char *const traffic_columns[] = {KEY, "phase", "from", "to", "bytes", "mib"};
static const char *const ledger_columns[] = {KEY, "phase", "counted", "formula"};
static const char *const accuracy_columns[] = {KEY, "test_samples", "test_correct", "test_accuracy"};
static const char *const pair_columns[] = {
    "model",           "data",           "variant",    "gpus",     "scaling",
    "global_batch",    "left",           "right",      "rounds",   "left_step_ms",
    "right_step_ms",   "ratio",          "ratio_lo",   "ratio_hi", "p_value",
    "speedup",         "speedup_lo",     "speedup_hi", "equal",    "gradient_difference",
    "loss_difference", "oversubscribed",
};
static const char *const key_columns[] = {KEY};
static const char *const largest_columns[] = {
    "model",           "data",           "gpus",
    "strategy",        "device_mib",     "batch_per_gpu",
    "global_batch",    "fullest_device", "total_mib",
    "parameters_mib",  "gradients_mib",  "optimizer_mib",
    "activations_mib", "outputs_mib",    "communication_mib",
    "data_mib",        "status",         "reason",
};
static const char *const more_columns[] = {"machine",   KEY, "exposed_ms", "collective_ms", "alpha_beta_step_ms",
                                           "bottleneck"};
static const char *const modelled_device_columns[] = {"machine",    KEY,        "device",      "util",
                                                      "collective", "sent_mib", "received_mib"};
static const char *const timeline_columns[] = {"machine", KEY, "device", "lane", "phase", "start_ms", "end_ms"};

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

void results_open(struct results *results)
{
    table_init(&results->rows, "results.csv", row_columns, COUNT(row_columns));
    table_init(&results->devices, "devices.csv", device_columns, COUNT(device_columns));
    table_init(&results->steps, "steps.csv", step_columns, COUNT(step_columns));
    table_init(&results->traffic, "traffic.csv", traffic_columns, COUNT(traffic_columns));
    table_init(&results->ledger, "ledger.csv", ledger_columns, COUNT(ledger_columns));
    table_init(&results->accuracy, "accuracy.csv", accuracy_columns, COUNT(accuracy_columns));
    table_init(&results->pairs, "pairs.csv", pair_columns, COUNT(pair_columns));
    table_init(&results->largest, "largest.csv", largest_columns, COUNT(largest_columns));
    table_init(&results->modelled, "results.csv", row_columns, COUNT(row_columns));
    table_init(&results->modelled_more, "modelled.csv", more_columns, COUNT(more_columns));
    table_init(&results->modelled_devices, "modelled_devices.csv", modelled_device_columns,
               COUNT(modelled_device_columns));
    table_init(&results->timeline, "timeline.csv", timeline_columns, COUNT(timeline_columns));
}

/* All tables, results.csv last. */
#define TABLES 7
static void list_tables(struct results *results, struct table *tables[TABLES])
{
    struct table *all[TABLES] = {&results->devices,  &results->steps, &results->traffic, &results->ledger,
                                 &results->accuracy, &results->pairs, &results->rows};
    memcpy(tables, all, sizeof all);
}

/* Files of what is not executed; a sweep that has none of it has no such file, nor one that it had before. */
#define OPTIONAL_TABLES 4
static struct table *optional_table(struct results *results, int t)
{
    struct table *const all[OPTIONAL_TABLES] = {&results->largest, &results->modelled_more, &results->modelled_devices,
                                                &results->timeline};
    return all[t];
}

void results_close(struct results *results)
{
    struct table *tables[TABLES];
    list_tables(results, tables);
    for (int t = 0; t < TABLES; t++)
        table_free(tables[t]);
    table_free(&results->modelled);
    for (int t = 0; t < OPTIONAL_TABLES; t++)
        table_free(optional_table(results, t));
}

int results_find(const struct table *table, int start, const struct cell *cell)
{
    for (int row = start; row < table->row_count; row++)
        if (text_is(table_get(table, row, "strategy"), cell->strategy) &&
            text_is(table_get(table, row, "variant"), cell->variant) &&
            text_is(table_get(table, row, "model"), cell->workload->model) &&
            text_is(table_get(table, row, "data"), cell->workload->data) &&
            (int)table_number(table, row, "gpus") == cell->gpus &&
            text_is(table_get(table, row, "scaling"), scaling_name(cell->scaling)) &&
            (size_t)table_number(table, row, "global_batch") == cell->global_batch)
            return row;
    return -1;
}

/* results.csv: the measured rows, then the modelled ones. */
static int write_rows(const struct results *results, const char *folder)
{
    struct table whole;
    table_init(&whole, results->rows.name, results->rows.columns, results->rows.column_count);
    for (int row = 0; row < results->rows.row_count; row++)
        table_copy_row(&whole, &results->rows, row);
    for (int row = 0; row < results->modelled.row_count; row++)
        table_copy_row(&whole, &results->modelled, row);
    int rc = table_write(&whole, folder);
    table_free(&whole);
    return rc;
}

int results_write(const struct results *results, const char *folder)
{
    struct results copy = *results;
    struct table *tables[TABLES];
    list_tables(&copy, tables);
    int rc = EXIT_OK;
    for (int t = 0; !rc && t < OPTIONAL_TABLES; t++)
        if (optional_table(&copy, t)->row_count)
            rc = table_write(optional_table(&copy, t), folder);
    for (int t = 0; !rc && t < TABLES - 1; t++)
        rc = table_write(tables[t], folder);
    rc = rc ? rc : write_rows(results, folder);
    for (int t = 0; !rc && t < OPTIONAL_TABLES; t++)
        if (!optional_table(&copy, t)->row_count)
            rc = table_forget(optional_table(&copy, t), folder);
    return rc;
}

/* Does the cell of this row stand in results.csv (context)? If not, the sweep was cut off between two files. */
static bool unfinished(const struct table *table, int row, void *context)
{
    const struct table *rows = context;
    for (int other = 0; other < rows->row_count; other++) {
        int same = 0;
        for (int k = 0; k < COUNT(key_columns); k++)
            same += text_is(table_get(table, row, key_columns[k]), table_get(rows, other, key_columns[k]));
        if (same == COUNT(key_columns))
            return false;
    }
    return true;
}

/* The same for pairs.csv, whose rows name two strategies: the variant tells the group well enough. */
static bool unfinished_pair(const struct table *table, int row, void *context)
{
    static const char *const shared[] = {"model", "data", "scaling", "global_batch"};
    const struct table *rows = context;
    for (int other = 0; other < rows->row_count; other++) {
        int same = 0;
        for (int k = 0; k < COUNT(shared); k++)
            same += text_is(table_get(table, row, shared[k]), table_get(rows, other, shared[k]));
        const char *variant = table_get(table, row, "variant");
        if (same == COUNT(shared) && strncmp(variant, table_get(rows, other, "variant"), strlen(variant)) == 0)
            return false;
    }
    return true;
}

static bool is_modelled(const struct table *table, int row, void *context)
{
    (void)context;
    return text_is(table_get(table, row, "clock"), "modelled");
}

static int read_optional(struct results *results, const char *folder)
{
    int rc = EXIT_OK;
    for (int row = 0; row < results->rows.row_count; row++)
        if (is_modelled(&results->rows, row, NULL))
            table_copy_row(&results->modelled, &results->rows, row);
    table_remove(&results->rows, is_modelled, NULL);
    for (int t = 0; !rc && t < OPTIONAL_TABLES; t++)
        if (folder_has(folder, optional_table(results, t)->name))
            rc = table_read(optional_table(results, t), folder);
    return rc;
}

int results_read(struct results *results, const char *folder)
{
    struct table *tables[TABLES];
    list_tables(results, tables);
    int rc = EXIT_OK;
    for (int t = 0; !rc && t < TABLES; t++)
        rc = table_read(tables[t], folder);
    rc = rc ? rc : read_optional(results, folder);
    for (int t = 0; !rc && t < TABLES - 2; t++)
        table_remove(tables[t], unfinished, &results->rows);
    if (!rc)
        table_remove(&results->pairs, unfinished_pair, &results->rows);
    return rc;
}

/* Text as a JSON number if it is one, null if empty, else a string. Checksums stay strings. */
static void add_json_field(cJSON *object, const struct table *table, int row, const char *column)
{
    const char *text = table_get(table, row, column);
    char *end;
    double value = strtod(text, &end);
    bool is_text = strstr(column, "checksum") || text_is(column, "cores") || text_is(column, "run");
    if (!*text)
        cJSON_AddNullToObject(object, column);
    else if (!*end && !is_text && strcspn(text, "0123456789") < strlen(text))
        cJSON_AddNumberToObject(object, column, value);
    else
        cJSON_AddStringToObject(object, column, text);
}

static void add_json_rows(cJSON *array, const struct table *table)
{
    for (int row = 0; row < table->row_count; row++) {
        cJSON *object = text_must(cJSON_CreateObject());
        for (int c = 0; c < table->column_count; c++)
            add_json_field(object, table, row, table->columns[c]);
        cJSON_AddItemToArray(array, object);
    }
}

static void add_json_table(cJSON *whole, const struct table *table, const struct table *also)
{
    char name[32] = {0};
    memcpy(name, table->name, strcspn(table->name, "."));
    cJSON *array = text_must(cJSON_AddArrayToObject(whole, name));
    add_json_rows(array, table);
    if (also)
        add_json_rows(array, also);
}

int results_write_json(const struct results *results, const char *folder)
{
    struct results copy = *results;
    struct table *tables[TABLES];
    list_tables(&copy, tables);
    cJSON *whole = text_must(cJSON_CreateObject());
    for (int t = TABLES - 1; t >= 0; t--)
        add_json_table(whole, tables[t], t == TABLES - 1 ? &results->modelled : NULL);
    for (int t = 0; t < OPTIONAL_TABLES; t++)
        add_json_table(whole, optional_table(&copy, t), NULL);
    char *json = text_must(cJSON_PrintUnformatted(whole));
    char *path = text_format("%s/results.json", folder);
    int rc = file_write_atomic(path, json, strlen(json));
    free(path);
    cJSON_free(json);
    cJSON_Delete(whole);
    return rc;
}
