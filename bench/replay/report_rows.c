/* SPDX-License-Identifier: MIT
 *
 * Rows: results.csv's columns (a test holds this list and dpbench's together), and JSON, one object a line. What a
 * replay can't know stays empty.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/results_columns.h"
#include "report.h"
#include "run/json_line.h"
#include "sys/exit_codes.h"
#include "sys/file.h"
#include "sys/log.h"

#define MAX_CSV_BYTES ((size_t)1 << 30)
#define MIB 1048576.0

const char *const report_columns[] = {RESULTS_COLUMNS};
const int report_column_count = sizeof(report_columns) / sizeof(report_columns[0]);

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct memory {
    double most, device0, others, imbalance; /* MiB; NAN: the record does not say */
};

static double program_device_mib(const struct report *report, int device)
{
    int base = 0;
    if (report->question->play.replicate)
        return report->study->by_rank[0]->peak_bytes[0] / MIB;
    for (int i = 0; i < report->study->count; i++) {
        const struct program *program = report->study->by_rank[i];
        if (device < base + program->devices)
            return program->peak_bytes[device - base] / MIB;
        base += program->devices;
    }
    return NAN;
}

static struct memory memory_of(const struct report *report)
{
    struct memory memory = {NAN, NAN, NAN, NAN};
    int n = report->result->devices;
    double *mib = malloc((size_t)n * sizeof(*mib)), sum = 0, most = 0;
    if (!mib)
        return memory;
    for (int d = 0; d < n; d++) {
        mib[d] = program_device_mib(report, d);
        sum += mib[d];
        most = mib[d] > most ? mib[d] : most;
    }
    if (most > 0) {
        memory.most = most;
        memory.device0 = mib[0];
        memory.imbalance = most / (sum / n);
        qsort(mib + 1, (size_t)n - 1, sizeof(*mib), compare_doubles);
        memory.others = n > 1 ? (mib[1 + (n - 2) / 2] + mib[1 + (n - 1) / 2]) / 2 : NAN;
    }
    free(mib);
    return memory;
}

/* ---- cells ---------------------------------------------------------------------------------------------------------
 */

struct cell {
    const char *column, *text; /* text NULL: the number */
    double number;
};

static int texts(const struct report *report, struct cell *cells)
{
    const struct program *program = report->study->by_rank[0];
    static const char *const copied[] = {"strategy", "model", "precision", "optimizer", "data", "accumulate", "params"};
    int count = 0;
    cells[count++] = (struct cell){"schema", "1", 0};
    cells[count++] = (struct cell){"backend", "soft", 0}; /* that the record is from */
    cells[count++] = (struct cell){"clock", "modelled", 0};
    cells[count++] = (struct cell){"machine", report->machine->name, 0};
    cells[count++] = (struct cell){"variant", report->variant, 0};
    cells[count++] = (struct cell){"comm_source", "modelled", 0};
    cells[count++] = (struct cell){"equal", "na", 0};
    cells[count++] = (struct cell){"oversubscribed", "no", 0};
    cells[count++] = (struct cell){"status", report->fits ? "ok" : "memory", 0};
    cells[count++] =
        (struct cell){"reason", report->fits ? "" : "a device's memory is smaller than the record's peak", 0};
    for (size_t i = 0; i < sizeof(copied) / sizeof(copied[0]); i++)
        cells[count++] = (struct cell){copied[i], program_setting(program, copied[i], ""), 0};
    return count;
}

static int numbers(const struct report *report, struct cell *cells)
{
    const struct summary *summary = &report->summary;
    struct memory memory = memory_of(report);
    bool marks = summary->slowest_device != NOBODY_SLOWEST;
    const struct cell all[] = {
        {"gpus", NULL, report->gpus},
        {"global_batch", NULL, report->global_batch},
        {"batch_per_gpu", NULL, report->global_batch / report->gpus},
        {"steps", NULL, summary->steps},
        {"step_ms", NULL, summary->step_ms},
        {"step_ms_mad", NULL, summary->steps ? summary->step_ms_mad : NAN},
        {"step_ms_p95", NULL, summary->steps ? summary->step_ms_p95 : NAN},
        {"samples_per_s", NULL, report->global_batch / summary->step_ms * 1e3},
        {"comm_hidden_ms", NULL, marks ? summary->hidden_ms : NAN},
        {"util_mean", NULL, summary->util_mean},
        {"util_device0", NULL, summary->util_device0},
        {"comm_mib", NULL, summary->comm_mib},
        {"busiest_link_mib", NULL, summary->busiest_link_mib},
        {"mem_peak_mib", NULL, memory.most},
        {"mem_device0_mib", NULL, memory.device0},
        {"mem_median_others_mib", NULL, memory.others},
        {"mem_imbalance", NULL, memory.imbalance},
    };
    memcpy(cells, all, sizeof(all));
    return (int)(sizeof(all) / sizeof(all[0]));
}

static int phases(const struct report *report, struct cell *cells, char names[PLAY_PHASES][32])
{
    if (report->summary.slowest_device == NOBODY_SLOWEST)
        return 0;
    for (int p = 0; p < PLAY_PHASES; p++) {
        snprintf(names[p], 32, "%s_ms", play_phase_names[p]);
        cells[p] = (struct cell){names[p], NULL, report->summary.phase_ms[p]};
    }
    return PLAY_PHASES;
}

static void print_cell(FILE *out, const struct cell *cell)
{
    if (!cell->text) {
        if (!isnan(cell->number))
            fprintf(out, "%.9g", cell->number);
        return;
    }
    bool quote = strpbrk(cell->text, ",\"\r\n") != NULL;
    fprintf(out, "%s", quote ? "\"" : "");
    for (const char *at = cell->text; *at; at++)
        fprintf(out, *at == '"' ? "\"\"" : "%c", *at);
    fprintf(out, "%s", quote ? "\"" : "");
}

#define MAX_CELLS 64

static void print_row(const struct report *report, FILE *out)
{
    struct cell cells[MAX_CELLS];
    char names[PLAY_PHASES][32];
    int count = texts(report, cells);
    count += numbers(report, cells + count);
    count += phases(report, cells + count, names);
    for (int c = 0; c < report_column_count; c++) {
        fprintf(out, "%s", c ? "," : "");
        for (int i = 0; i < count; i++)
            if (!strcmp(cells[i].column, report_columns[c]))
                print_cell(out, &cells[i]);
    }
    fprintf(out, "\r\n");
}

/* ---- files ---------------------------------------------------------------------------------------------------------
 */

int report_csv(const struct report *report, const char *path)
{
    char *text = NULL;
    void *before = NULL;
    size_t bytes = 0, length = 0;
    FILE *probe = fopen(path, "r");
    if (probe)
        fclose(probe);
    if (probe && file_read(path, MAX_CSV_BYTES, &before, &length))
        return EXIT_BAD_FILE;
    FILE *out = open_memstream(&text, &bytes);
    if (!out) {
        free(before);
        log_error("%s: no memory for the row", path);
        return EXIT_RESOURCE;
    }
    if (length)
        fwrite(before, 1, length, out);
    for (int c = 0; c < report_column_count && !length; c++)
        fprintf(out, "%s%s%s", c ? "," : "", report_columns[c], c + 1 == report_column_count ? "\r\n" : "");
    print_row(report, out);
    bool failed = ferror(out) || fclose(out);
    int status = failed ? EXIT_RESOURCE : file_write_atomic(path, text, bytes);
    free(before);
    free(text);
    return status;
}

/* What was moved from where to where, all steps; -1 is the host. */
static void print_links(const struct play_result *result, FILE *out)
{
    int side = result->devices + 1;
    for (int i = 0; i < side * side && result->pair_bytes; i++) {
        if (!(result->pair_bytes[i] > 0))
            continue;
        int from = i / side, to = i % side;
        json_begin(out, "link");
        json_integer(out, "from", from == result->devices ? HOST_SIDE : from);
        json_integer(out, "to", to == result->devices ? HOST_SIDE : to);
        json_number(out, "bytes", result->pair_bytes[i]);
        json_end(out);
    }
}

static void print_json(const struct report *report, FILE *out)
{
    const struct play_result *result = report->result;
    struct cell cells[MAX_CELLS];
    char names[PLAY_PHASES][32];
    int count = texts(report, cells);
    count += numbers(report, cells + count);
    count += phases(report, cells + count, names);
    json_begin(out, "modelled");
    for (int i = 0; i < count; i++) {
        if (cells[i].text)
            json_text(out, cells[i].column, cells[i].text);
        else
            json_number(out, cells[i].column, cells[i].number);
    }
    json_number(out, "exposed_ms", report->summary.exposed_ms);
    json_number(out, "collective_ms", report->summary.collective_ms);
    json_number(out, "alpha_beta_step_ms", report->alpha_beta_ms);
    json_number(out, "own_work", report->machine->own_work);
    json_number(out, "own_work_ms", report->machine->own_work > 0 ? report->summary.own_work_ms : NAN);
    json_text(out, "bottleneck", report->summary.bottleneck);
    json_end(out);
    for (int s = 0; s < result->steps; s++) {
        json_begin(out, "step");
        json_integer(out, "step", s);
        json_integer(out, "ps", result->step_ps[s]);
        json_end(out);
    }
    for (int d = 0; d < result->devices; d++) {
        json_begin(out, "device");
        json_integer(out, "device", d);
        json_integer(out, "busy_ps", result->device[d].engine.busy_ps);
        json_integer(out, "idle_ps", result->device[d].engine.idle_ps);
        json_integer(out, "collective_ps", result->device[d].collective_ps);
        json_number(out, "sent_bytes", result->device[d].sent);
        json_number(out, "received_bytes", result->device[d].received);
        json_end(out);
    }
    print_links(result, out);
}

int report_json(const struct report *report, const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out) {
        log_error("%s: no memory for the results", path);
        return EXIT_RESOURCE;
    }
    print_json(report, out);
    bool failed = ferror(out) || fclose(out);
    int status = failed ? EXIT_RESOURCE : file_write_atomic(path, text, bytes);
    free(text);
    return status;
}
