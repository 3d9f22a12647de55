/* SPDX-License-Identifier: MIT
 *
 * The one sentence that a figure is there for (explain.h), from the very numbers that it shows.
 */
#include <math.h>
#include <stdio.h>

#include "explain.h"
#include "text.h"

static const char *const strategies[] = {"dp", "ddp"};

/* ---- where a step's time goes ---------------------------------------------------------------- */

/* ms in phases that move data, of the whole step's. */
static double moving(const struct table *rows, int row)
{
    static const char *const phases[] = {"scatter_ms", "replicate_ms", "gather_ms", "reduce_ms",
                                         "allreduce_exposed_ms"};
    double sum = 0;
    for (size_t p = 0; p < sizeof phases / sizeof *phases; p++) {
        double ms = table_number(rows, row, phases[p]);
        sum += isfinite(ms) ? ms : 0;
    }
    return sum;
}

static void say_moving(const struct table *rows, int dp, int ddp, const struct speaker *to)
{
    double steps[] = {table_number(rows, dp, "step_ms"), table_number(rows, ddp, "step_ms")};
    double parts[] = {moving(rows, dp), moving(rows, ddp)};
    fprintf(to->out,
            "of DP's %.3g ms a step, %.3g ms (%.0f %%) move data that no computing hides; of DDP's %.3g ms, %.3g ms "
            "(%.0f %%).",
            steps[0], parts[0], 100 * parts[0] / steps[0], steps[1], parts[1], 100 * parts[1] / steps[1]);
}

void tell_breakdown(const struct view *view, const struct speaker *to)
{
    int n = view_largest(view, true);
    if (n < 2)
        return;
    fprintf(to->out, "Measured on %s, %d devices: ", devices_measured(view->results), n);
    say_moving(&view->results->rows, view_row(view, "dp", n, false), view_row(view, "ddp", n, false), to);
}

void tell_modelled_breakdown(const struct results *results, const struct workload *workload,
                             const struct modelled_machine *machine, const struct speaker *to)
{
    int dp, ddp;
    if (!find_modelled_pair(results, workload, machine, false, &dp, &ddp))
        return;
    fprintf(to->out, "Modelled, %d devices: ", machine->devices);
    say_moving(&results->modelled, dp, ddp, to);
}

/* ---- throughput ------------------------------------------------------------------------------ */

void tell_throughput(const struct view *view, const struct speaker *to)
{
    int n = view_largest(view, true), pair = view_pair(view, n, "dp", "ddp");
    if (n < 2 || pair < 0)
        return;
    fprintf(to->out, "Measured on %s, %d devices: ", devices_measured(view->results), n);
    say_faster(view, pair, to);
}

void tell_modelled_throughput(const struct results *results, const struct workload *workload,
                              const struct modelled_machine *machine, const struct speaker *to)
{
    int dp, ddp;
    if (!find_modelled_pair(results, workload, machine, false, &dp, &ddp))
        return;
    fprintf(to->out, "Modelled, %d devices: ", machine->devices);
    say_modelled_pair(&results->modelled, dp, ddp, to);
}

/* ---- busy time ------------------------------------------------------------------------------- */

struct busy {
    double device0, low, high; /* per cent; low and high of the other devices */
    int others;
};

static void add_busy(struct busy *busy, const struct table *devices, int row)
{
    double per_cent = 100 * table_number(devices, row, "util");
    if (table_number(devices, row, "device") == 0) {
        busy->device0 = per_cent;
    } else {
        busy->low = busy->others ? fmin(busy->low, per_cent) : per_cent;
        busy->high = busy->others ? fmax(busy->high, per_cent) : per_cent;
        busy->others++;
    }
}

static void say_busy(const struct busy busy[2], const struct speaker *to)
{
    static const char *const names[] = {"DP's", "DDP's"};
    for (int s = 0; s < 2; s++) {
        fprintf(to->out, "%s%s device 0 is busy %.0f %% of the step, the other%s ", s ? "; " : "", names[s],
                busy[s].device0, busy[s].others > 1 ? "s" : "");
        if (busy[s].high - busy[s].low >= 1)
            fprintf(to->out, "%.0f to ", busy[s].low);
        fprintf(to->out, "%.0f %%", busy[s].high);
    }
    putc('.', to->out);
}

static bool is_whole(const struct busy busy[2])
{
    return busy[0].others && busy[1].others && isfinite(busy[0].device0 + busy[1].device0) &&
           isfinite(busy[0].high + busy[1].high);
}

void tell_utilization(const struct view *view, const struct speaker *to)
{
    struct busy busy[2] = {{.device0 = NAN}, {.device0 = NAN}};
    int n = view_largest(view, true);
    for (int s = 0; s < 2 && n > 1; s++) {
        struct cell cell = cell_make(view->workload, view->scaling, strategies[s], n, false);
        for (int row = -1; (row = results_find(&view->results->devices, row + 1, &cell)) >= 0;)
            add_busy(&busy[s], &view->results->devices, row);
    }
    if (!is_whole(busy))
        return;
    fprintf(to->out, "Measured on %s: ", devices_measured(view->results));
    say_busy(busy, to);
}

void tell_modelled_utilization(const struct results *results, const struct workload *workload,
                               const struct modelled_machine *machine, const struct speaker *to)
{
    struct busy busy[2] = {{.device0 = NAN}, {.device0 = NAN}};
    for (int s = 0; s < 2; s++) {
        struct modelled_cell cell = {workload, machine, strategies[s], machine->devices, false};
        for (int row = -1; (row = modelled_find(&results->modelled_devices, row + 1, &cell)) >= 0;)
            add_busy(&busy[s], &results->modelled_devices, row);
    }
    if (!is_whole(busy))
        return;
    fputs("Modelled: ", to->out);
    say_busy(busy, to);
}

/* ---- timeline -------------------------------------------------------------------------------- */

static bool is_hiding(const char *phase)
{
    return text_is(phase, "forward") || text_is(phase, "loss") || text_is(phase, "backward");
}

/* ms of the span of row `collective` during which the same device computes. Spans of one lane do not overlap. */
static double hidden(const struct table *timeline, const struct modelled_cell *cell, int collective)
{
    double start = table_number(timeline, collective, "start_ms"), end = table_number(timeline, collective, "end_ms");
    double sum = 0;
    for (int row = -1; (row = modelled_find(timeline, row + 1, cell)) >= 0;)
        if (text_is(table_get(timeline, row, "device"), table_get(timeline, collective, "device")) &&
            text_is(table_get(timeline, row, "lane"), "compute") && is_hiding(table_get(timeline, row, "phase")))
            sum += fmax(0, fmin(end, table_number(timeline, row, "end_ms")) -
                               fmax(start, table_number(timeline, row, "start_ms")));
    return sum;
}

void tell_timeline(const struct results *results, const struct workload *workload,
                   const struct modelled_machine *machine, const struct speaker *to)
{
    const struct table *timeline = &results->timeline;
    struct modelled_cell cell = {workload, machine, "ddp", machine->devices, false};
    double total = 0, within = 0;
    int dp, ddp, buckets = 0;
    if (!find_modelled_pair(results, workload, machine, false, &dp, &ddp))
        return;
    for (int row = -1; (row = modelled_find(timeline, row + 1, &cell)) >= 0;) {
        if (!text_is(table_get(timeline, row, "phase"), "allreduce_exposed") ||
            !text_is(table_get(timeline, row, "device"), "0"))
            continue;
        total += table_number(timeline, row, "end_ms") - table_number(timeline, row, "start_ms");
        within += hidden(timeline, &cell, row);
        buckets++;
    }
    fprintf(to->out, "Modelled: a step takes %.3g ms with DP and %.3g ms with DDP.",
            table_number(&results->modelled, dp, "step_ms"), table_number(&results->modelled, ddp, "step_ms"));
    if (buckets)
        fprintf(
            to->out,
            " DDP all-reduces %d bucket%s in %.3g ms, of which %.3g ms (%.0f %%) lie beside its computing; the rest "
            "comes after the backward pass: the device waits, or copies averaged gradients back from buckets.",
            buckets, buckets == 1 ? "" : "s", total, within, 100 * within / total);
}
