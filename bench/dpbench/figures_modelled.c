/* SPDX-License-Identifier: MIT
 *
 * The modelled band's figures (report.h): for each machine and workload throughput, one step's timeline, breakdown and
 * utilization. Their scripts are those of the measured ones where the columns are the same; their files and titles say
 * "modelled".
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explain.h"
#include "modelled.h"
#include "report.h"
#include "sys/file.h"
#include "text.h"

static const char *const strategies[] = {"dp", "ddp"};
static const char *const names[] = {"DP", "DDP"};

/* What a figure is of. */
struct subject {
    const struct results *results;
    const struct workload *workload;
    const struct modelled_machine *machine;
};

static int subject_row(const struct subject *of, const char *strategy, int gpus)
{
    return modelled_ok(of->results, &(struct modelled_cell){of->workload, of->machine, strategy, gpus, false});
}

/* A tab and the number, or "?" which the scripts declare as missing. */
static void print_number(FILE *out, const struct table *table, int row, const char *column, double factor)
{
    double value = row >= 0 ? factor * table_number(table, row, column) : NAN;
    if (isfinite(value))
        fprintf(out, "\t%.6g", value);
    else
        fputs("\t?", out);
}

/* Columns as throughput.gp has them; a model has no intervals. */
static int write_throughput(const struct subject *of, FILE *out)
{
    const struct table *rows = &of->results->modelled;
    int count = 0, single = subject_row(of, "single", 1);
    fputs("gpus\tdp_samples_per_s\t\t\tdp_speedup\t\t\tddp_samples_per_s\t\t\tddp_speedup\t\t\tsingle\n", out);
    for (int i = 0; i < modelled_number_count && modelled_numbers[i] <= of->machine->devices; i++) {
        int found[2];
        for (int s = 0; s < 2; s++)
            found[s] = subject_row(of, strategies[s], modelled_numbers[i]);
        if (found[0] < 0 && found[1] < 0)
            continue;
        fprintf(out, "%d", modelled_numbers[i]);
        for (int s = 0; s < 2; s++) {
            print_number(out, rows, found[s], "samples_per_s", 1);
            fputs("\t?\t?", out);
            print_number(out, rows, found[s], "speedup", 1);
            fputs("\t?\t?", out);
        }
        print_number(out, rows, single, "samples_per_s", 1);
        putc('\n', out);
        count++;
    }
    return count;
}

static const char *const phases[] = {"forward", "loss",   "backward",          "update", "scatter", "replicate",
                                     "gather",  "reduce", "allreduce_exposed", "host",   "wait",    "other"};
#define PHASES (sizeof phases / sizeof *phases)
#define PHASES_OF_A_STEP (PHASES - 1) /* `other`, copies out of buckets, is a part of the backward pass there */

static int print_breakdown(const struct subject *of, const char *strategy, const char *label, int gpus, FILE *out)
{
    int row = subject_row(of, strategy, gpus);
    if (row < 0)
        return 0;
    fputs(label, out);
    if (!text_is(strategy, "single"))
        fprintf(out, " ×%d", gpus);
    for (size_t p = 0; p < PHASES_OF_A_STEP; p++) {
        char column[40];
        snprintf(column, sizeof column, "%s_ms", phases[p]);
        double ms = table_number(&of->results->modelled, row, column);
        fprintf(out, "\t%.6g", isfinite(ms) ? ms : 0);
    }
    putc('\n', out);
    return 1;
}

static int write_breakdown(const struct subject *of, FILE *out)
{
    fputs("label", out);
    for (size_t p = 0; p < PHASES_OF_A_STEP; p++)
        fprintf(out, "\t%s", text_is(phases[p], "allreduce_exposed") ? "all-reduce (exposed)" : phases[p]);
    putc('\n', out);
    int count = print_breakdown(of, "single", "single", 1, out);
    for (int i = 0; i < modelled_number_count && modelled_numbers[i] <= of->machine->devices; i++)
        for (int s = 0; s < 2 && modelled_numbers[i] > 1; s++)
            count += print_breakdown(of, strategies[s], names[s], modelled_numbers[i], out);
    return count;
}

static int write_utilization(const struct subject *of, FILE *out)
{
    const struct table *devices = &of->results->modelled_devices;
    int count = 0;
    fputs("label\tdp\tddp\n", out);
    for (int s = 0; s < 2; s++) {
        struct modelled_cell cell = {of->workload, of->machine, strategies[s], of->machine->devices, false};
        fputs(s ? "\t?\t?\n" : "", out); /* a gap between the two */
        for (int row = -1; (row = modelled_find(devices, row + 1, &cell)) >= 0; count++) {
            fputs(table_get(devices, row, "device"), out);
            print_number(out, devices, s == 0 ? row : -1, "util", 100);
            print_number(out, devices, s == 1 ? row : -1, "util", 100);
            putc('\n', out);
        }
    }
    return count;
}

static int phase_number(const char *phase)
{
    for (size_t p = 0; p < PHASES; p++)
        if (text_is(phases[p], phase))
            return (int)p + 1;
    return (int)PHASES;
}

/* A row a span: start, end (ms), strategy (0 dp, 1 ddp), device, lane (0 compute, 1 communication), phase from 1. */
static int write_timeline(const struct subject *of, FILE *out)
{
    const struct table *timeline = &of->results->timeline;
    int count = 0;
    fputs("start\tend\tstrategy\tdevice\tlane\tphase\n", out);
    for (int s = 0; s < 2; s++) {
        struct modelled_cell cell = {of->workload, of->machine, strategies[s], of->machine->devices, false};
        for (int row = -1; (row = modelled_find(timeline, row + 1, &cell)) >= 0; count++)
            fprintf(out, "%s\t%s\t%d\t%s\t%d\t%d\n", table_get(timeline, row, "start_ms"),
                    table_get(timeline, row, "end_ms"), s, table_get(timeline, row, "device"),
                    text_is(table_get(timeline, row, "lane"), "communication"),
                    phase_number(table_get(timeline, row, "phase")));
    }
    return count;
}

static const struct kind {
    const char *name, *title, *caption;
    bool all_devices;
    int (*write)(const struct subject *of, FILE *out); /* returns the rows written; 0: no figure */
    void (*tell)(const struct results *results, const struct workload *workload, const struct modelled_machine *machine,
                 const struct speaker *to); /* its take-away */
} kinds[] = {
    {"throughput", "Throughput and speed-up",
     "Higher is better. Weak scaling: the batch per device stays the same, so the ideal (dotted) is N times the "
     "samples of single (dashed).",
     false, write_throughput, tell_modelled_throughput},
    {"timeline", "One step on each device",
     "DP's devices above, DDP's below, on one scale of time; white: the device waits. Under each of DDP's devices a "
     "thin line shows its all-reduces, a block a bucket. Copy from bucket: an all-reduced gradient back to where the "
     "update reads it.",
     true, write_timeline, tell_timeline},
    {"breakdown", "Where a step's time goes",
     "The slowest device, phase by phase: blue and green compute, yellow to wine move data (all-reduce: the part "
     "that no computing hides).",
     false, write_breakdown, tell_modelled_breakdown},
    {"utilization", "Busy time of each device",
     "Share of the replayed time in which the device's compute engine ran; copies between devices and collectives do "
     "not count.",
     true, write_utilization, tell_modelled_utilization},
};

static void describe(const struct subject *of, const struct kind *kind, struct figure *figure)
{
    char number[24] = "";
    if (kind->all_devices)
        snprintf(number, sizeof number, "N = %d, ", of->machine->devices);
    *figure = (struct figure){.band = 2, .machine = of->machine->name, .workload = of->workload->name};
    figure->folded = kind->write == write_breakdown || kind->write == write_utilization;
    snprintf(figure->name, sizeof figure->name, "modelled-%s-%s-%s", kind->name, of->workload->name, of->machine->name);
    snprintf(figure->script, sizeof figure->script, "%s.gp", kind->name);
    snprintf(figure->title, sizeof figure->title, "%s: %s, %zu per device, %smodelled on %s", kind->title,
             of->workload->name, of->workload->modelled_batch, number, of->machine->title);
    snprintf(figure->caption, sizeof figure->caption, "Modelled on %s. %s", of->machine->title, kind->caption);
    struct text text;
    text_open(&text);
    kind->tell(of->results, of->workload, of->machine, &(struct speaker){text.out, MANNER_CAPTION});
    text_close(&text);
    snprintf(figure->takeaway, sizeof figure->takeaway, "%s", text.data);
    free(text.data);
}

/* 1: written; 0: nothing to show; -1: the folder can't be written (reported). */
static int write_one(const struct subject *of, const struct kind *kind, const char *folder, struct figure *figure)
{
    struct text text;
    text_open(&text);
    int rows = kind->write(of, text.out), rc = 0;
    text_close(&text);
    if (rows > 0) {
        describe(of, kind, figure);
        char *path = text_format("%s/figures/%s.tsv", folder, figure->name);
        rc = file_write_atomic(path, text.data, text.size) ? -1 : 1;
        free(path);
    }
    free(text.data);
    return rc;
}

int figures_write_modelled(const struct results *results, const char *folder, struct figure *figures, int room)
{
    int count = 0;
    for (int m = 0; m < modelled_machine_count; m++)
        for (int w = 0; w < workload_count; w++)
            for (size_t k = 0; k < sizeof kinds / sizeof *kinds && count < room && workloads[w].modelled_batch; k++) {
                struct subject of = {results, &workloads[w], &modelled_machines[m]};
                int made = write_one(&of, &kinds[k], folder, &figures[count]);
                if (made < 0)
                    return -1;
                count += made;
            }
    return count;
}
