/* SPDX-License-Identifier: MIT
 *
 * What a replay says, as rows (modelled.h). Names of its JSON members are results.csv's columns.
 */
#include <math.h>
#include <string.h>

#include "modelled.h"
#include "record.h"
#include "sys/exit_codes.h"
#include "text.h"

#define MIB 1048576.0

void modelled_set_key(struct table *table, int row, const struct modelled_cell *cell)
{
    char variant[160];
    modelled_variant(cell, variant, sizeof variant);
    table_set(table, row, "machine", "%s", cell->machine->name);
    table_set(table, row, "strategy", "%s", cell->strategy);
    table_set(table, row, "variant", "%s", variant);
    table_set(table, row, "model", "%s", cell->workload->model);
    table_set(table, row, "data", "%s", cell->workload->data);
    table_set(table, row, "gpus", "%d", cell->gpus);
    table_set(table, row, "scaling", "weak");
    table_set(table, row, "global_batch", "%zu", cell->workload->modelled_batch * (size_t)cell->gpus);
}

static const cJSON *find_line(const struct record *record, const char *type)
{
    for (int i = 0; i < record->count; i++)
        if (record_is(record->lines[i], type))
            return record->lines[i];
    return NULL;
}

/* Is this the answer to what was asked? NULL, or why not. */
static const char *check_answer(const struct modelled_cell *cell, const cJSON *answer)
{
    char variant[160];
    modelled_variant(cell, variant, sizeof variant);
    if (!answer)
        return "its replay gave no result";
    if (!text_is(record_text(answer, "clock"), "modelled") ||
        !text_is(record_text(answer, "machine"), cell->machine->name) ||
        !text_is(record_text(answer, "strategy"), cell->strategy) ||
        !text_is(record_text(answer, "variant"), variant) ||
        !text_is(record_text(answer, "model"), cell->workload->model) || record_number(answer, "gpus") != cell->gpus ||
        record_number(answer, "global_batch") != (double)(cell->workload->modelled_batch * (size_t)cell->gpus))
        return "its replay answered something else than was asked: see its .json in runs/";
    if (!(record_number(answer, "step_ms") > 0))
        return "its replay has no step";
    return NULL;
}

static int add_row(struct table *rows, const struct modelled_cell *cell, const char *run_id)
{
    int row = table_add_row(rows);
    table_set(rows, row, "schema", RESULTS_SCHEMA);
    table_set(rows, row, "run", "%s", run_id);
    table_set(rows, row, "clock", "modelled");
    table_set(rows, row, "equal", "na");
    if (cell)
        modelled_set_key(rows, row, cell);
    return row;
}

/* Each column that is empty and that the replay knows. */
static void fill_row(struct table *rows, int row, const cJSON *answer)
{
    for (int c = 0; c < rows->column_count; c++) {
        const char *column = rows->columns[c];
        if (*table_get(rows, row, column) || text_is(column, "status"))
            continue;
        if (*record_text(answer, column))
            table_set(rows, row, column, "%s", record_text(answer, column));
        else
            table_set_number(rows, row, column, record_number(answer, column));
    }
    bool fits = !text_is(record_text(answer, "status"), "memory");
    table_set(rows, row, "status", "%s", fits ? record_text(answer, "status") : "out_of_memory");
}

/* What results.csv has no column for. */
static void add_more(struct table *more, const struct modelled_cell *cell, const cJSON *answer)
{
    static const char *const numbers[] = {"exposed_ms", "collective_ms", "alpha_beta_step_ms"};
    int row = table_add_row(more);
    modelled_set_key(more, row, cell);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        table_set_number(more, row, numbers[i], record_number(answer, numbers[i]));
    table_set(more, row, "bottleneck", "%s", record_text(answer, "bottleneck"));
}

/* Shares of the replayed time, bytes a step. */
static void add_devices(struct table *devices, const struct modelled_cell *cell, const struct record *record,
                        double steps)
{
    for (int i = 0; i < record->count; i++) {
        const cJSON *line = record->lines[i];
        if (!record_is(line, "device"))
            continue;
        double busy = record_number(line, "busy_ps"), all = busy + record_number(line, "idle_ps");
        int row = table_add_row(devices);
        modelled_set_key(devices, row, cell);
        table_set_number(devices, row, "device", record_number(line, "device"));
        table_set_number(devices, row, "util", busy / all);
        table_set_number(devices, row, "collective", record_number(line, "collective_ps") / all);
        table_set_number(devices, row, "sent_mib", record_number(line, "sent_bytes") / MIB / steps);
        table_set_number(devices, row, "received_mib", record_number(line, "received_bytes") / MIB / steps);
    }
}

const char *modelled_add(struct results *results, const struct modelled_cell *cell, const char *run_id,
                         const char *json, const char *trace)
{
    struct record record;
    if (record_read(&record, json))
        return "its replay's answer can't be read";
    const cJSON *answer = find_line(&record, "modelled"), *step = find_line(&record, "step");
    const char *wrong = check_answer(cell, answer);
    if (!wrong && trace)
        wrong = timeline_add(&results->timeline, cell, trace, record_number(step, "ps") / 1e9);
    if (!wrong) {
        fill_row(&results->modelled, add_row(&results->modelled, cell, run_id), answer);
        add_more(&results->modelled_more, cell, answer);
        add_devices(&results->modelled_devices, cell, &record, record_number(answer, "steps"));
    }
    record_free(&record);
    return wrong;
}

void modelled_add_failure(struct results *results, const struct modelled_cell *cell, const char *run_id,
                          const char *status, const char *reason)
{
    int row = add_row(&results->modelled, cell, run_id);
    table_set(&results->modelled, row, "status", "%s", status);
    table_set(&results->modelled, row, "reason", "%s", reason);
}

void modelled_add_speedups(struct results *results, const struct modelled_cell *cells, int count)
{
    struct table *rows = &results->modelled;
    for (int c = 0; c < count; c++) {
        struct modelled_cell single = cells[c];
        single.strategy = "single";
        single.gpus = 1;
        single.lock = false;
        int base = modelled_ok(results, &single), row = modelled_ok(results, &cells[c]);
        if (base < 0 || row < 0)
            continue;
        double speedup = table_number(rows, row, "samples_per_s") / table_number(rows, base, "samples_per_s");
        table_set_number(rows, row, "speedup", speedup);
        table_set_number(rows, row, "efficiency", speedup / cells[c].gpus);
    }
}
