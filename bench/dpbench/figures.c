/* SPDX-License-Identifier: MIT
 *
 * One small table of tab-separated numbers a figure, and gnuplot to draw it (report.h). Adding a figure: a function
 * that writes its rows, an entry in kinds[], a script in plots/.
 */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "explain.h"
#include "process.h"
#include "report.h"
#include "sys/exit_codes.h"
#include "sys/file.h"
#include "sys/log.h"
#include "text.h"
#include "view.h"

static const char *const strategies[] = {"dp", "ddp"};
static const char *const names[] = {"DP", "DDP"};

/* A number, or "?" which the scripts declare as missing. */
static void print_number(FILE *out, double value)
{
    if (isfinite(value))
        fprintf(out, "\t%.6g", value);
    else
        fputs("\t?", out);
}

/* ---- memory: a row a device ------------------------------------------------------------------ */

static const char *const categories[] = {"parameters", "gradients",     "optimizer", "activations",
                                         "outputs",    "communication", "data"};

static int print_memory(const struct view *view, const char *strategy, const char *name, int gpus, FILE *out)
{
    const struct table *devices = &view->results->devices;
    struct cell cell = cell_make(view->workload, view->scaling, strategy, gpus, false);
    int rows = 0;
    for (int row = -1; (row = results_find(devices, row + 1, &cell)) >= 0; rows++) {
        fprintf(out, "%s\t%s", name, table_get(devices, row, "device"));
        for (size_t c = 0; c < sizeof categories / sizeof *categories; c++) {
            char column[40];
            snprintf(column, sizeof column, "mem_%s_mib", categories[c]);
            print_number(out, table_number(devices, row, column));
        }
        putc('\n', out);
    }
    return rows;
}

static int write_memory(const struct view *view, FILE *out)
{
    int gpus = view_largest(view, false);
    if (gpus < 2 || view->workload->evaluated)
        return 0;
    fputs("strategy\tdevice", out);
    for (size_t c = 0; c < sizeof categories / sizeof *categories; c++)
        fprintf(out, "\t%s", categories[c]);
    putc('\n', out);
    int rows = 0;
    for (int s = 0; s < 2; s++) {
        fputs(s ? "\t\t0\t0\t0\t0\t0\t0\t0\n" : "", out); /* a gap between the two */
        rows += print_memory(view, strategies[s], names[s], gpus, out);
    }
    return rows;
}

/* ---- bytes: a row a strategy and N ----------------------------------------------------------- */

static const char *const moving_phases[] = {"scatter", "replicate", "gather", "loss", "reduce", "allreduce", "other"};
#define MOVING_PHASES (sizeof moving_phases / sizeof *moving_phases)

/* MiB a step between devices by phase; from and to the host are no link between devices. */
static void sum_traffic(const struct view *view, const char *strategy, int gpus, double mib[MOVING_PHASES])
{
    const struct table *traffic = &view->results->traffic;
    struct cell cell = cell_make(view->workload, view->scaling, strategy, gpus, false);
    memset(mib, 0, MOVING_PHASES * sizeof *mib);
    for (int row = -1; (row = results_find(traffic, row + 1, &cell)) >= 0;) {
        double from = table_number(traffic, row, "from"), to = table_number(traffic, row, "to");
        const char *phase = table_get(traffic, row, "phase");
        size_t p = 0;
        while (p < MOVING_PHASES - 1 && strncmp(phase, moving_phases[p], strlen(moving_phases[p])) != 0)
            p++;
        if (from >= 0 && to >= 0 && from != to)
            mib[p] += table_number(traffic, row, "bytes") / (1 << 20);
    }
}

static int write_traffic(const struct view *view, FILE *out)
{
    int rows = 0;
    fputs("label", out);
    for (size_t p = 0; p < MOVING_PHASES; p++)
        fprintf(out, "\t%s", moving_phases[p]);
    fputs("\tbusiest device\n", out);
    for (int i = 0; i < view->gpu_count; i++)
        for (int s = 0; s < 2 && view->gpus[i] > 1; s++) {
            if (view_row(view, strategies[s], view->gpus[i], false) < 0)
                continue;
            double mib[MOVING_PHASES];
            sum_traffic(view, strategies[s], view->gpus[i], mib);
            fprintf(out, "%s ×%d", names[s], view->gpus[i]);
            for (size_t p = 0; p < MOVING_PHASES; p++)
                print_number(out, mib[p]);
            print_number(out, view_number(view, strategies[s], view->gpus[i], "busiest_link_mib"));
            putc('\n', out);
            rows++;
        }
    return view->workload->evaluated ? 0 : rows;
}

/* ---- times: only where every device has cores of its own ------------------------------------- */

static int write_throughput(const struct view *view, FILE *out)
{
    static const char *const columns[] = {"samples_per_s", "samples_per_s_lo", "samples_per_s_hi",
                                          "speedup",       "speedup_lo",       "speedup_hi"};
    int rows = 0;
    fputs("gpus", out);
    for (int s = 0; s < 2; s++)
        for (size_t c = 0; c < 6; c++)
            fprintf(out, "\t%s_%s", strategies[s], columns[c]);
    fputs("\tsingle\n", out);
    for (int i = 0; i < view->gpu_count; i++) {
        int n = view->gpus[i];
        bool measured = view_row(view, "dp", n, false) >= 0 || view_row(view, "ddp", n, false) >= 0;
        if (!measured || view_oversubscribed(view, "dp", n) || view_oversubscribed(view, "ddp", n))
            continue;
        fprintf(out, "%d", n);
        for (int s = 0; s < 2; s++) {
            for (size_t c = 0; c < 4; c++)
                print_number(out, view_number(view, strategies[s], n, columns[c]));
            int pair = view_pair(view, n, strategies[s], "single");
            for (size_t c = 4; c < 6; c++)
                print_number(out, pair >= 0 ? table_number(&view->results->pairs, pair, columns[c]) : NAN);
        }
        print_number(out, view_number(view, "single", 1, "samples_per_s"));
        putc('\n', out);
        rows++;
    }
    return view->workload->timed ? rows : 0;
}

static int write_utilization(const struct view *view, FILE *out)
{
    int gpus = view_largest(view, true), rows = 0;
    const struct table *devices = &view->results->devices;
    if (!view->workload->timed || gpus < 2)
        return 0;
    fputs("label\tdp\tddp\n", out);
    for (int s = 0; s < 2; s++) {
        struct cell cell = cell_make(view->workload, view->scaling, strategies[s], gpus, false);
        fputs(s ? "\t?\t?\n" : "", out); /* a gap between the two */
        for (int row = -1; (row = results_find(devices, row + 1, &cell)) >= 0;) {
            rows += isfinite(table_number(devices, row, "util")); /* CUDA has none: no figure */
            fputs(table_get(devices, row, "device"), out);
            print_number(out, s == 0 ? 100 * table_number(devices, row, "util") : NAN);
            print_number(out, s == 1 ? 100 * table_number(devices, row, "util") : NAN);
            putc('\n', out);
        }
    }
    return rows;
}

static const char *const phases[] = {"forward", "loss",   "backward",          "update", "scatter", "replicate",
                                     "gather",  "reduce", "allreduce_exposed", "host",   "wait"};
#define PHASE_COUNT (sizeof phases / sizeof *phases)

static int print_breakdown(const struct view *view, const char *strategy, const char *name, int gpus, FILE *out)
{
    if (view_row(view, strategy, gpus, false) < 0 || view_oversubscribed(view, strategy, gpus))
        return 0;
    fputs(name, out);
    if (!text_is(strategy, "single"))
        fprintf(out, " ×%d", gpus);
    for (size_t p = 0; p < PHASE_COUNT; p++) {
        char column[40];
        snprintf(column, sizeof column, "%s_ms", phases[p]);
        double ms = view_number(view, strategy, gpus, column);
        print_number(out,
                     isfinite(ms) ? ms : 0); /* a phase that the strategy does not have takes no room in the stack */
    }
    putc('\n', out);
    return 1;
}

static int write_breakdown(const struct view *view, FILE *out)
{
    if (!view->workload->timed)
        return 0;
    fputs("label", out);
    for (size_t p = 0; p < PHASE_COUNT; p++)
        fprintf(out, "\t%s", text_is(phases[p], "allreduce_exposed") ? "all-reduce (exposed)" : phases[p]);
    putc('\n', out);
    int rows = print_breakdown(view, "single", "single", 1, out);
    for (int i = 0; i < view->gpu_count; i++)
        for (int s = 0; s < 2; s++)
            rows += print_breakdown(view, strategies[s], names[s], view->gpus[i], out);
    return rows;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static const struct kind {
    const char *name, *title, *caption;
    int band;
    bool folded;
    int (*write)(const struct view *view, FILE *out);                /* returns the rows written; 0: no figure */
    void (*tell)(const struct view *view, const struct speaker *to); /* its take-away */
} kinds[] = {
    {"memory", "Peak memory per device",
     "One bar a device: DataParallel on the left, DistributedDataParallel on the right. Outputs: what the last layer "
     "puts out, and its gradient; DP gathers those of all devices on device 0, which alone keeps the optimizer's "
     "state. Communication: in DDP the buckets, copies of the gradients that are all-reduced. Each colour is the "
     "peak of its category.",
     1, false, write_memory, say_memory},
    {"traffic", "Bytes between devices in one step",
     "Left: all bytes between devices, by what they are moved for (gather: outputs, and their gradient back); bytes "
     "from the host are not in it. Right: the most that any one device sends to all others, or receives from them. "
     "With "
     "DP all of it passes device 0.",
     1, false, write_traffic, say_bytes},
    {"throughput", "Throughput and speed-up",
     "Higher is better. Samples by the total time of the timed steps, the median of the rounds; dashed: single, "
     "dotted: N times single. Only numbers of devices that have cores of their own. Bars: 95 % interval over the "
     "rounds (up to 5 rounds: their range); none with one round.",
     3, false, write_throughput, tell_throughput},
    {"breakdown", "Where a step's time goes",
     "One step, the median of the middle round, on its slowest device; which is faster all rounds tell, above. Blue "
     "and green compute, yellow to wine move data (all-reduce: the part that no computing hides), grey is the host's "
     "own work and waiting.",
     3, false, write_breakdown, tell_breakdown},
    {"utilization", "Busy time of each device",
     "CPU time of the device's threads, by the step and the device's cores: kernels, products, copies and "
     "collectives, so moving data counts as busy here.",
     3, true, write_utilization, tell_utilization},
};
#define KIND_COUNT (sizeof kinds / sizeof *kinds)

static void describe(const struct view *view, const struct kind *kind, struct figure *figure)
{
    const struct table *rows = &view->results->rows;
    int gpus = kind->write == write_memory        ? view_largest(view, false)
               : kind->write == write_utilization ? view_largest(view, true)
                                                  : 0;
    int good = executed_row(rows, 0);
    const char *backend = good >= 0 ? table_get(rows, good, "backend") : "";
    const char *machine = view->workload->shape_gpus ? "recorded, not executed"
                          : text_is(backend, "soft") ? "soft GPUs on CPU cores"
                          : text_is(backend, "cuda") ? "CUDA GPUs"
                                                     : "";
    char number[24] = "";
    if (gpus)
        snprintf(number, sizeof number, "N = %d, ", gpus);
    bool weak = view->scaling == SCALING_WEAK;
    *figure = (struct figure){0};
    snprintf(figure->name, sizeof figure->name, "%s-%s%s", kind->name, view->workload->name, weak ? "-weak" : "");
    snprintf(figure->script, sizeof figure->script, "%s.gp", kind->name);
    snprintf(figure->title, sizeof figure->title, "%s: %s, %s %zu, %s%s", kind->title, view->workload->name,
             weak ? "batch per device" : "global batch", view->workload->batch, number, machine);
    snprintf(figure->caption, sizeof figure->caption, "%s", kind->caption);
    figure->band = kind->band;
    figure->folded = kind->folded;
    struct text text;
    text_open(&text);
    kind->tell(view, &(struct speaker){text.out, MANNER_CAPTION});
    text_close(&text);
    snprintf(figure->takeaway, sizeof figure->takeaway, "%s", text.data);
    free(text.data);
}

static int write_one(const struct view *view, const struct kind *kind, const char *folder, struct figure *figure)
{
    struct text text;
    text_open(&text);
    int rows = kind->write(view, text.out);
    text_close(&text);
    int rc = EXIT_OK;
    if (rows > 0) {
        describe(view, kind, figure);
        char *path = text_format("%s/figures/%s.tsv", folder, figure->name);
        rc = file_write_atomic(path, text.data, text.size);
        free(path);
    }
    free(text.data);
    return rc ? -1 : rows > 0;
}

int figures_write(const struct results *results, const char *folder, struct figure figures[FIGURES_MAX])
{
    char *path = text_format("%s/figures", folder);
    mkdir(path, 0755);
    free(path);
    struct view views[VIEWS_MAX];
    int view_count = views_make(results, views), count = 0;
    for (size_t k = 0; k < KIND_COUNT; k++)
        for (int v = 0; v < view_count && count < FIGURES_MAX; v++) {
            int made = write_one(&views[v], &kinds[k], folder, &figures[count]);
            if (made < 0)
                return -1;
            count += made;
        }
    int modelled = figures_write_modelled(results, folder, figures + count, FIGURES_MAX - count);
    return modelled < 0 ? -1 : count + modelled;
}

/* FOLDER/figures/NAME.tsv, FOLDER/NAME.svg and FOLDER/NAME.png. */
static void forget_figure(const char *folder, const char *name, int length)
{
    static const char *const forms[] = {"%s/figures/%.*s.tsv", "%s/%.*s.svg", "%s/%.*s.png"};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        char *path = text_format(forms[i], folder, length, name);
        unlink(path);
        free(path);
    }
}

void figures_forget(const char *folder)
{
    char *path = text_format("%s/figures", folder);
    DIR *figures = opendir(path);
    for (const struct dirent *entry; figures && (entry = readdir(figures));) {
        int length = (int)strlen(entry->d_name) - (int)strlen(".tsv");
        if (length > 0 && text_is(entry->d_name + length, ".tsv"))
            forget_figure(folder, entry->d_name, length);
    }
    if (figures)
        closedir(figures);
    free(path);
}

static int draw(const struct figure *figure, const char *folder, const char *plots, const char *type)
{
    char *script = text_format("%s/%s", plots, figure->script);
    char *style = text_format("%s/style.gp", plots);
    char *data = text_format("%s/figures/%s.tsv", folder, figure->name);
    char *picture = text_format("%s/%s.%s", folder, figure->name, type);
    char *log = text_format("%s/figures/%s.%s.log", folder, figure->name, type);
    const char *argv[] = {"gnuplot", "-c", script, style, data, picture, type, figure->title, NULL};
    struct process_result result;
    int rc = process_run(argv, log, 60, &result);
    if (!rc && result.exit_code) {
        log_error("%s: gnuplot ended with %d: %s", picture, result.exit_code, result.last_line);
        unlink(picture); /* a part of one */
        rc = EXIT_RESOURCE;
    } else if (!rc) {
        remove(log);
    }
    free(log);
    free(picture);
    free(data);
    free(style);
    free(script);
    return rc;
}

int figures_draw(const struct figure *figures, int count, const char *folder, const char *plots)
{
    for (int i = 0; i < count; i++)
        if (draw(&figures[i], folder, plots, "svg") || draw(&figures[i], folder, plots, "png")) {
            log_warning(
                "no plots: their data is in %s/figures, the scripts in %s; install gnuplot, then: dpbench report %s",
                folder, plots, folder);
            return EXIT_RESOURCE;
        }
    return EXIT_OK;
}
