/* SPDX-License-Identifier: MIT
 *
 * The verdict in words (report.h). Each sentence is made from rows of the tables; a sentence whose numbers are missing
 * is left out. What is true on any machine comes first; times come last, with what they do not say.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report.h"
#include "text.h"
#include "view.h"

struct speaker {
    FILE *out;
    bool html;
};

static void sentence_begin(const struct speaker *to, const char *head)
{
    fprintf(to->out, to->html ? "<li><b>%s</b> " : "%s ", head);
}

static void sentence_end(const struct speaker *to)
{
    fputs(to->html ? "</li>\n" : "\n", to->out);
}

/* ---- equality -------------------------------------------------------------------------------- */

static void say_equality(const struct results *results, const struct speaker *to)
{
    const struct table *rows = &results->rows;
    int counts[4] = {0}, failed = 0;
    for (int row = 0; row < rows->row_count; row++) {
        for (int e = EQUAL_NA; e <= EQUAL_BIT; e++)
            counts[e] += text_is(table_get(rows, row, "equal"), equality_name((enum equality)e)) &&
                         !text_is(table_get(rows, row, "strategy"), "single");
        failed += !text_is(table_get(rows, row, "status"), "ok");
    }
    int compared = counts[EQUAL_NO] + counts[EQUAL_TOLERANCE] + counts[EQUAL_BIT];
    sentence_begin(to, "The same model?");
    if (counts[EQUAL_NO])
        fprintf(to->out, "NO: %d of %d cells did not train the same model. Their times compare nothing.",
                counts[EQUAL_NO], compared);
    else if (compared && !counts[EQUAL_TOLERANCE])
        fprintf(to->out,
                "Yes. In all %d compared cells DP and DDP trained the same model: the same weights, bit for bit.",
                compared);
    else if (compared)
        fprintf(to->out,
                "Yes. In all %d compared cells DP and DDP trained the same model: %d with the same weights bit for "
                "bit, %d with gradients within 1e-5.",
                compared, counts[EQUAL_BIT], counts[EQUAL_TOLERANCE]);
    else
        fputs("Nothing was compared in this sweep.", to->out);
    if (failed)
        fprintf(to->out, " %d cells failed; the table says why, and the plots leave them out.", failed);
    sentence_end(to);
}

/* Real data: do all cells classify the test set alike? */
static void say_accuracy(const struct view *view, const struct speaker *to)
{
    const struct table *table = &view->results->accuracy;
    double low = INFINITY, high = -INFINITY, samples = 0;
    int cells = 0;
    for (int row = 0; row < table->row_count; row++) {
        double accuracy = table_number(table, row, "test_correct") / table_number(table, row, "test_samples");
        if (!text_is(table_get(table, row, "data"), view->workload->data) || !isfinite(accuracy))
            continue;
        low = fmin(low, accuracy);
        high = fmax(high, accuracy);
        samples = table_number(table, row, "test_samples");
        cells++;
    }
    if (cells == 0)
        return;
    sentence_begin(to, "Real data.");
    fprintf(to->out, "On %s the %d cells classify ", view->workload->name, cells);
    if (low < high)
        fprintf(to->out, "%.2f to %.2f %%", 100 * low, 100 * high);
    else
        fprintf(to->out, "the same %.2f %%", 100 * low);
    fprintf(to->out, " of the %.0f test samples correctly.", samples);
    sentence_end(to);
}

/* ---- bytes and memory ------------------------------------------------------------------------ */

static void say_bytes(const struct view *view, const struct speaker *to)
{
    int n = view_largest(view, false);
    double dp = view_number(view, "dp", n, "comm_mib"), ddp = view_number(view, "ddp", n, "comm_mib");
    double dp_link = view_number(view, "dp", n, "busiest_link_mib"),
           ddp_link = view_number(view, "ddp", n, "busiest_link_mib");
    if (n < 2 || !isfinite(dp) || !isfinite(ddp) || !isfinite(dp_link) || !isfinite(ddp_link))
        return;
    sentence_begin(to, "Bytes.");
    fprintf(to->out,
            "On %d devices a step of %s moves %.1f MiB with DP and %.1f MiB with DDP; but the busiest link carries "
            "%.1f MiB with DP, %.1f times the %.1f MiB with DDP.",
            n, view->workload->name, dp, ddp, dp_link, dp_link / ddp_link, ddp_link);
    sentence_end(to);
}

/* The category that device 0 has most more of than device 1. */
static const char *fills_device0(const struct view *view, int n, double *more)
{
    static const char *const columns[] = {"mem_parameters_mib",  "mem_gradients_mib", "mem_optimizer_mib",
                                          "mem_activations_mib", "mem_outputs_mib",   "mem_communication_mib",
                                          "mem_data_mib"};
    static const char *const words[] = {"parameters",
                                        "gradients",
                                        "the optimizer's state",
                                        "activations",
                                        "the gathered outputs and their gradient",
                                        "communication buffers",
                                        "data"};
    struct cell cell = cell_make(view->workload, view->scaling, "dp", n, false);
    const struct table *devices = &view->results->devices;
    int zero = results_find(devices, 0, &cell), one = zero >= 0 ? results_find(devices, zero + 1, &cell) : -1;
    const char *what = NULL;
    *more = 0;
    for (size_t c = 0; one >= 0 && c < sizeof columns / sizeof *columns; c++) {
        double difference = table_number(devices, zero, columns[c]) - table_number(devices, one, columns[c]);
        if (difference > *more) {
            *more = difference;
            what = words[c];
        }
    }
    return what;
}

static void say_memory(const struct view *view, const struct speaker *to)
{
    int n = view_largest(view, false);
    double zero = view_number(view, "dp", n, "mem_device0_mib"),
           others = view_number(view, "dp", n, "mem_median_others_mib");
    double ddp = view_number(view, "ddp", n, "mem_peak_mib"), more;
    if (n < 2 || !isfinite(zero) || !isfinite(others))
        return;
    const char *what = fills_device0(view, n, &more);
    sentence_begin(to, "Memory.");
    fprintf(to->out, "%s on %d devices: with DP device 0 needs %.0f MiB and the others %.0f MiB", view->workload->name,
            n, zero, others);
    if (what)
        fprintf(to->out, ", most of the difference for %s (%.0f MiB)", what, more);
    if (isfinite(ddp))
        fprintf(to->out, "; with DDP the fullest needs %.0f MiB", ddp);
    fputs(".", to->out);
    sentence_end(to);
}

/* ---- times ----------------------------------------------------------------------------------- */

/* ratio = left's step time / right's, so the right one is faster above 1. */
static void say_faster(const struct table *pairs, int row, const char *left, const char *right,
                       const struct speaker *to)
{
    double ratio = table_number(pairs, row, "ratio"), low = table_number(pairs, row, "ratio_lo");
    double high = table_number(pairs, row, "ratio_hi");
    const char *n = table_get(pairs, row, "gpus");
    if (!isfinite(low))
        fprintf(to->out, " On %s: %s takes %.2f times %s's step (one round, no interval).", n, left, ratio, right);
    else if (low <= 1 && high >= 1)
        fprintf(to->out, " On %s: no difference that %s rounds can show (%s/%s %.2f, 95 %% interval %.2f to %.2f).", n,
                table_get(pairs, row, "rounds"), left, right, ratio, low, high);
    else
        fprintf(to->out, " On %s: %s is %.2f times as fast (95 %% interval %.2f to %.2f over %s rounds).", n,
                ratio > 1 ? right : left, ratio > 1 ? ratio : 1 / ratio, ratio > 1 ? low : 1 / high,
                ratio > 1 ? high : 1 / low, table_get(pairs, row, "rounds"));
}

static void say_times(const struct view *view, const struct speaker *to)
{
    const struct table *pairs = &view->results->pairs, *rows = &view->results->rows;
    bool soft = rows->row_count && text_is(table_get(rows, 0, "backend"), "soft");
    int left_out = 0;
    if (!view->workload->timed)
        return;
    sentence_begin(to, "Faster here?");
    fprintf(to->out, "%s, %s scaling.", view->workload->name, scaling_name(view->scaling));
    for (int i = 0; i < view->gpu_count; i++) {
        int row = view_pair(view, view->gpus[i], "dp", "ddp");
        if (row >= 0 && !text_is(table_get(pairs, row, "oversubscribed"), "yes"))
            say_faster(pairs, row, "DP", "DDP", to);
        left_out += row >= 0 && text_is(table_get(pairs, row, "oversubscribed"), "yes");
    }
    if (left_out)
        fprintf(to->out, " For %d larger number%s of devices there are not enough cores: no claim.", left_out,
                left_out == 1 ? "" : "s");
    sentence_end(to);
    if (!soft)
        return;
    sentence_begin(to, "And on GPUs?");
    fputs("These times do not say. Soft GPUs share one memory and have no links: what DP loses on device 0's link "
          "costs almost "
          "nothing here. Bytes, memory and equality above do hold on GPUs.",
          to->out);
    sentence_end(to);
}

/* What wrapping one device costs. */
static void say_wrapper(const struct view *view, const struct speaker *to)
{
    int row = view_pair(view, 1, "ddp", "single");
    if (row < 0 || !view->workload->timed)
        return;
    const struct table *pairs = &view->results->pairs;
    double ratio = table_number(pairs, row, "ratio"), low = table_number(pairs, row, "ratio_lo");
    sentence_begin(to, "One device.");
    fprintf(to->out, "DDP with N = 1 takes %.3f times the step of a single device without a wrapper", ratio);
    if (isfinite(low))
        fprintf(to->out, " (95 %% interval %.3f to %.3f)", low, table_number(pairs, row, "ratio_hi"));
    fputs(".", to->out);
    sentence_end(to);
}

static void explain(const struct results *results, const struct speaker *to)
{
    struct view views[VIEWS_MAX];
    int count = views_make(results, views);
    say_equality(results, to);
    for (int v = 0; v < count; v++)
        if (views[v].workload->evaluated)
            say_accuracy(&views[v], to);
    for (int v = 0; v < count; v++)
        if (views[v].workload->timed)
            say_bytes(&views[v], to);
    for (int v = 0; v < count; v++)
        if (!views[v].workload->evaluated)
            say_memory(&views[v], to);
    for (int v = 0; v < count; v++)
        say_times(&views[v], to);
    for (int v = 0; v < count; v++)
        say_wrapper(&views[v], to);
}

void explain_verdict(const struct results *results, FILE *out)
{
    explain(results, &(struct speaker){.out = out, .html = true});
}

void explain_print(const struct results *results, FILE *out)
{
    explain(results, &(struct speaker){.out = out, .html = false});
}
