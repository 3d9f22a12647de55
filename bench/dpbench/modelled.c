/* SPDX-License-Identifier: MIT
 *
 * Records and replays in their order (modelled.h). A rank of DDP stands for all of them: its record on two devices is
 * replayed on N, which a record of N ranks would repeat N times. DP needs a record for each N.
 */
#include "modelled.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "process.h"
#include "sys/exit_codes.h"
#include "sys/log.h"
#include "text.h"

const struct modelled_machine modelled_machines[] = {
    {"pcie4x4", "4 x RTX 4090 on PCIe 4 without peer access", 4},
    {"a100x8", "8 x A100-SXM4-40GB on NVSwitch", 8},
};
const int modelled_machine_count = sizeof modelled_machines / sizeof *modelled_machines;

const int modelled_numbers[] = {1, 2, 4, 8};
const int modelled_number_count = sizeof modelled_numbers / sizeof *modelled_numbers;

#define RECORDS_MAX 8

struct recorded {
    const char *strategy;
    int gpus;   /* recorded on */
    char *path; /* what is replayed; NULL: failed */
    char reason[500];
};

struct band {
    const struct settings *settings;
    struct results *results;
    const char *run_id;
    char *replay; /* the program */
    int interrupted;
    struct recorded records[RECORDS_MAX];
    int record_count;
};

/* ---- cells ----------------------------------------------------------------------------------- */

int modelled_cells(const struct settings *settings, const struct workload *workload,
                   const struct modelled_machine *machine, struct modelled_cell cells[MODELLED_CELLS_MAX])
{
    int count = 0, largest = 1;
    if (settings->single)
        cells[count++] = (struct modelled_cell){workload, machine, "single", 1, false};
    for (int i = 0; i < modelled_number_count && modelled_numbers[i] <= machine->devices; i++) {
        largest = modelled_numbers[i];
        if (settings->dp)
            cells[count++] = (struct modelled_cell){workload, machine, "dp", largest, false};
        if (settings->ddp)
            cells[count++] = (struct modelled_cell){workload, machine, "ddp", largest, false};
    }
    if (settings->dp)
        cells[count++] = (struct modelled_cell){workload, machine, "dp", largest, true};
    if (settings->ddp)
        cells[count++] = (struct modelled_cell){workload, machine, "ddp", largest, true};
    return count;
}

void modelled_variant(const struct modelled_cell *cell, char *text, size_t size)
{
    static const char memory[] = "device_memory=81920"; /* that of the record; a shape-only workload has it already */
    const char *own = cell->workload->variant;
    int own_length = (int)strlen(own) - (cell->workload->shape_gpus ? (int)strlen(";" SHAPE_ONLY) : 0);
    char lock[40] = "";
    if (cell->lock)
        snprintf(lock, sizeof lock, ";launch_lock_us=%d", MODELLED_LOCK_US);
    snprintf(text, size, "%.*s%s%s%s", own_length, own, *own && !cell->workload->shape_gpus ? ";" : "",
             cell->workload->shape_gpus ? "" : memory, lock);
}

int modelled_find(const struct table *table, int start, const struct modelled_cell *cell)
{
    char variant[160];
    modelled_variant(cell, variant, sizeof variant);
    for (int row = start; row < table->row_count; row++)
        if (text_is(table_get(table, row, "machine"), cell->machine->name) &&
            text_is(table_get(table, row, "strategy"), cell->strategy) &&
            text_is(table_get(table, row, "variant"), variant) &&
            text_is(table_get(table, row, "model"), cell->workload->model) &&
            (int)table_number(table, row, "gpus") == cell->gpus)
            return row;
    return -1;
}

int modelled_ok(const struct results *results, const struct modelled_cell *cell)
{
    int row = modelled_find(&results->modelled, 0, cell);
    return row >= 0 && text_is(table_get(&results->modelled, row, "status"), "ok") ? row : -1;
}

/* ---- records --------------------------------------------------------------------------------- */

#define MAX_ARGUMENTS 40

/* Records are large: 1 to 10 MB each. A rank of DDP has a file of its own. */
static void forget_record(const struct band *band, const struct workload *workload, const char *strategy, int gpus)
{
    static const char *const ends[] = {"", ".0", ".1"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char *file = text_format("%s/runs/modelled-%s-%s-%d.rec%s", band->settings->out, workload->name, strategy, gpus,
                                 ends[i]);
        unlink(file);
        free(file);
    }
}

/* Why a program that was run gave nothing; "" if it did well. */
static void say_failure(const struct process_result *result, double limit, char *reason, size_t size)
{
    *reason = '\0';
    if (result->timed_out)
        snprintf(reason, size, "not finished after %.0f s", limit);
    else if (result->exit_code)
        process_describe_end(result, "", reason, size);
}

static void make_record(struct band *band, const struct workload *workload, const char *strategy, int gpus)
{
    struct recorded *record = &band->records[band->record_count++];
    const struct settings *settings = band->settings;
    bool is_ddp = text_is(strategy, "ddp");
    char *program = text_format("%s/%s", settings->programs, is_ddp ? "ddp-train" : "dp-train");
    char *file = text_format("%s/runs/modelled-%s-%s-%d.rec", settings->out, workload->name, strategy, gpus);
    char *log = text_format("%s/runs/modelled-%s-%s-%d.log", settings->out, workload->name, strategy, gpus);
    char *number = text_format("%d", gpus), *batch = text_format("%zu", workload->modelled_batch * (size_t)gpus);
    const char *argv[MAX_ARGUMENTS] = {program,  "--gpus",       number,           "--model",  workload->model,
                                       "--data", workload->data, "--global-batch", batch,      "--steps",
                                       "2",      "--device",     "soft",           "--record", file};
    int n = 15;
    for (int i = 0; workload->arguments[i]; i++)
        argv[n++] = workload->arguments[i];
    for (int i = 0; i < 3 && !workload->shape_gpus; i++)
        argv[n++] = (const char *const[]){"--shape-only", "--device-memory", "81920"}[i];
    for (int i = 0; i < 2 && !is_ddp; i++)
        argv[n++] = i ? strategy : "--strategy";
    *record = (struct recorded){.strategy = strategy, .gpus = gpus};
    forget_record(band, workload, strategy, gpus); /* of a sweep that was killed */
    struct process_result result;
    if (process_run(argv, log, settings->run_timeout, &result))
        result.exit_code = EXIT_RESOURCE;
    band->interrupted = result.interrupted ? result.interrupted : process_pending_signal();
    char failure[450];
    say_failure(&result, settings->run_timeout, failure, sizeof failure);
    if (*failure)
        snprintf(record->reason, sizeof record->reason, "its record: %s", failure);
    else
        record->path = text_format("%s%s", file, is_ddp && gpus > 1 ? ".0" : "");
    free(batch);
    free(number);
    free(log);
    free(file);
    free(program);
}

static void make_records(struct band *band, const struct workload *workload)
{
    const struct settings *settings = band->settings;
    if (settings->single)
        make_record(band, workload, "single", 1);
    for (int i = 0; i < modelled_number_count && settings->dp && !band->interrupted; i++)
        make_record(band, workload, "dp", modelled_numbers[i]);
    for (int gpus = 1; gpus <= 2 && settings->ddp && !band->interrupted; gpus++)
        make_record(band, workload, "ddp", gpus);
}

/* They have served. */
static void forget_records(struct band *band, const struct workload *workload)
{
    for (int r = 0; r < band->record_count; r++) {
        const struct recorded *record = &band->records[r];
        forget_record(band, workload, record->strategy, record->gpus);
        free(record->path);
    }
    band->record_count = 0;
}

static const struct recorded *find_record(const struct band *band, const struct modelled_cell *cell)
{
    int gpus = text_is(cell->strategy, "ddp") && cell->gpus > 2 ? 2 : cell->gpus;
    for (int r = 0; r < band->record_count; r++)
        if (text_is(band->records[r].strategy, cell->strategy) && band->records[r].gpus == gpus)
            return &band->records[r];
    return NULL;
}

/* ---- replays --------------------------------------------------------------------------------- */

/* Runs the program; "" or why it gave nothing. */
static void run_replay(struct band *band, const struct modelled_cell *cell, const char *record, const char *base,
                       const char *trace, char *reason, size_t size)
{
    char *json = text_format("%s.json", base), *log = text_format("%s.log", base);
    char *number = text_format("%d", cell->gpus), *lock = text_format("%d", MODELLED_LOCK_US);
    const char *argv[MAX_ARGUMENTS] = {band->replay, record, "--machine", cell->machine->name, "--json", json};
    int n = 6;
    if (text_is(cell->strategy, "ddp") && cell->gpus > 1) {
        argv[n++] = "--gpus";
        argv[n++] = number;
    }
    if (cell->lock) {
        argv[n++] = "--launch-lock";
        argv[n++] = lock;
    }
    if (trace) {
        argv[n++] = "--trace";
        argv[n++] = trace;
        unlink(trace);
    }
    unlink(json); /* of a sweep that was killed */
    struct process_result result;
    if (process_run(argv, log, band->settings->run_timeout, &result))
        result.exit_code = EXIT_RESOURCE;
    band->interrupted = result.interrupted ? result.interrupted : process_pending_signal();
    char failure[450];
    say_failure(&result, band->settings->run_timeout, failure, sizeof failure);
    snprintf(reason, size, "%s%s", *failure ? "its replay: " : "", failure);
    if (!*failure)
        unlink(log); /* it repeats the JSON lines in words */
    free(lock);
    free(number);
    free(log);
    free(json);
}

/* The two timelines that the page shows are those of the largest N. */
static bool has_timeline(const struct modelled_cell *cell)
{
    return !cell->lock && cell->gpus == cell->machine->devices;
}

static void model_cell(struct band *band, const struct modelled_cell *cell)
{
    const struct recorded *record = find_record(band, cell);
    char *base = text_format("%s/runs/modelled-%s-%s-%s-%d%s", band->settings->out, cell->workload->name,
                             cell->machine->name, cell->strategy, cell->gpus, cell->lock ? "-lock" : "");
    char *json = text_format("%s.json", base), *trace = has_timeline(cell) ? text_format("%s.trace", base) : NULL;
    char reason[500];
    snprintf(reason, sizeof reason, "%s", record ? record->reason : "it was not recorded");
    if (!*reason)
        run_replay(band, cell, record->path, base, trace, reason, sizeof reason);
    if (!*reason && !band->interrupted) {
        const char *wrong = modelled_add(band->results, cell, band->run_id, json, trace);
        snprintf(reason, sizeof reason, "%s", wrong ? wrong : "");
    }
    if (*reason && !band->interrupted)
        modelled_add_failure(band->results, cell, band->run_id, "failed", reason);
    if (trace)
        unlink(trace);
    free(trace);
    free(json);
    free(base);
}

/* ---- workloads ------------------------------------------------------------------------------- */

/* One line for the one who waits. */
static void tell(const struct band *band, const struct modelled_cell *cells, int count)
{
    const struct table *rows = &band->results->modelled;
    printf("modelled %-10s on %s:", cells[0].workload->name, cells[0].machine->name);
    for (int c = 0; c < count; c++) {
        int row = modelled_find(rows, 0, &cells[c]);
        if (row < 0 || cells[c].lock || cells[c].gpus != cells[c].machine->devices)
            continue;
        const char *status = table_get(rows, row, "status");
        if (text_is(status, "ok"))
            printf(" %s %.0f samples/s on %d.", cells[c].strategy, table_number(rows, row, "samples_per_s"),
                   cells[c].gpus);
        else
            printf(" %s %s: %s.", cells[c].strategy, status, table_get(rows, row, "reason"));
    }
    printf("\n");
}

static bool is_of_workload(const struct table *table, int row, void *context)
{
    const char *const *model = context;
    return text_is(table_get(table, row, "model"), *model);
}

static void drop(struct results *results, const struct workload *workload)
{
    const char *model = workload->model;
    void *context = &model;
    table_remove(&results->modelled, is_of_workload, context);
    table_remove(&results->modelled_more, is_of_workload, context);
    table_remove(&results->modelled_devices, is_of_workload, context);
    table_remove(&results->timeline, is_of_workload, context);
}

static bool is_finished(const struct band *band, const struct workload *workload)
{
    struct modelled_cell cells[MODELLED_CELLS_MAX];
    for (int m = 0; m < modelled_machine_count; m++) {
        int count = modelled_cells(band->settings, workload, &modelled_machines[m], cells);
        for (int c = 0; c < count; c++) {
            int row = modelled_find(&band->results->modelled, 0, &cells[c]);
            if (row < 0 || text_is(table_get(&band->results->modelled, row, "status"), "failed"))
                return false;
        }
    }
    return true;
}

static void model_workload(struct band *band, const struct workload *workload)
{
    struct modelled_cell cells[MODELLED_CELLS_MAX];
    drop(band->results, workload);
    make_records(band, workload);
    for (int m = 0; m < modelled_machine_count && !band->interrupted; m++) {
        int count = modelled_cells(band->settings, workload, &modelled_machines[m], cells);
        for (int c = 0; c < count && !band->interrupted; c++)
            model_cell(band, &cells[c]);
        modelled_add_speedups(band->results, cells, count);
        if (!band->interrupted && count)
            tell(band, cells, count);
    }
    forget_records(band, workload);
    if (band->interrupted)
        drop(band->results, workload);
}

static bool is_left_out(const struct table *table, int row, void *context)
{
    (void)context;
    return text_is(table_get(table, row, "status"), "left_out");
}

/* No replay: the band is one row that says so, and the sweep goes on. */
static int leave_out(struct band *band)
{
    char reason[400];
    snprintf(reason, sizeof reason, "%.300s: %s; nothing is modelled without the replay", band->replay,
             strerror(errno));
    log_warning("the modelled band is left out: %s", reason);
    modelled_add_failure(band->results, NULL, band->run_id, "left_out", reason);
    return results_write(band->results, band->settings->out);
}

int modelled_run(const struct settings *settings, struct results *results, const char *run_id, int *interrupted)
{
    struct band band = {.settings = settings, .results = results, .run_id = run_id};
    bool wanted = false;
    for (int w = 0; w < workload_count; w++)
        wanted |= (settings->workloads >> w & 1U) && workloads[w].modelled_batch && !is_finished(&band, &workloads[w]);
    if (!wanted)
        return EXIT_OK;
    int rc = EXIT_OK;
    band.replay = text_format("%s/bench/replay/replay", settings->programs);
    table_remove(&results->modelled, is_left_out, NULL);
    if (access(band.replay, X_OK))
        rc = leave_out(&band);
    else
        for (int w = 0; w < workload_count && !rc && !band.interrupted; w++) {
            if (!(settings->workloads >> w & 1U) || !workloads[w].modelled_batch || is_finished(&band, &workloads[w]))
                continue;
            model_workload(&band, &workloads[w]);
            rc = results_write(results, settings->out);
        }
    free(band.replay);
    *interrupted = band.interrupted;
    return rc;
}
