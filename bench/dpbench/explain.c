/* SPDX-License-Identifier: MIT
 *
 * The verdict in words (report.h). Each sentence is made from rows of the tables; a sentence whose numbers are missing
 * is left out. What is true on any machine stands here; times come last, from explain_times.c.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "explain.h"
#include "largest.h"
#include "report.h"
#include "text.h"
#include "view.h"

void sentence_begin(const struct speaker *to, const char *head)
{
    fprintf(to->out, to->html ? "<li><b>%s</b> " : "%s ", head);
}

void sentence_end(const struct speaker *to)
{
    fputs(to->html ? "</li>\n" : "\n", to->out);
}

const char *weak_note(enum scaling scaling)
{
    return scaling == SCALING_WEAK ? " (weak scaling)" : "";
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
                "Yes. %d cell%s compared, and each trained the same model as its partner: after the 3 updates of the "
                "verification both have the same weights, bit for bit.",
                compared, compared == 1 ? " was" : "s were");
    else if (compared)
        fprintf(
            to->out,
            "Yes. %d cell%s compared, and each trained the same model as its partner: %d with the same weights, bit "
            "for bit, after the 3 updates of the verification, %d with gradients within 1e-5.",
            compared, compared == 1 ? " was" : "s were", counts[EQUAL_BIT], counts[EQUAL_TOLERANCE]);
    else
        fputs("Nothing was compared in this sweep.", to->out);
    if (failed)
        fprintf(to->out, " %d cell%s failed; the table says why, and the plots leave %s out.", failed,
                failed == 1 ? "" : "s", failed == 1 ? "it" : "them");
    sentence_end(to);
}

/* Real data: how many test samples does each cell get right? */
static void say_accuracy(const struct view *view, const struct speaker *to)
{
    const struct table *table = &view->results->accuracy;
    double low = INFINITY, high = -INFINITY, samples = 0;
    int cells = 0;
    for (int row = 0; row < table->row_count; row++) {
        double correct = table_number(table, row, "test_correct");
        if (!text_is(table_get(table, row, "data"), view->workload->data) || !isfinite(correct))
            continue;
        low = fmin(low, correct);
        high = fmax(high, correct);
        samples = table_number(table, row, "test_samples");
        cells++;
    }
    if (cells == 0)
        return;
    sentence_begin(to, "Real data.");
    if (low < high)
        fprintf(to->out, "On %s the %d cells get %.0f to %.0f of the %.0f test samples right (%.2f to %.2f %%).",
                view->workload->name, cells, low, high, samples, 100 * low / samples, 100 * high / samples);
    else
        fprintf(to->out, "On %s %s gets %.0f of the %.0f test samples right (%.2f %%)%s.", view->workload->name,
                cells == 1 ? "the one cell" : "each cell", low, samples, 100 * low / samples,
                cells == 1 ? "" : "; that is a count: whether they are the same samples is not compared");
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
            "On %d devices a step of %s%s moves %.1f MiB with DP and %.1f MiB with DDP; the busiest link carries "
            "%.1f MiB with DP and %.1f MiB with DDP (%.2f times as much with DP).",
            n, view->workload->name, weak_note(view->scaling), dp, ddp, dp_link, ddp_link, dp_link / ddp_link);
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
    fprintf(to->out, "%s%s on %d devices%s: with DP device 0 needs %.0f MiB and the other%s %.0f MiB",
            view->workload->name, weak_note(view->scaling), n,
            view->workload->shape_gpus ? " (recorded, not executed)" : "", zero, n == 2 ? "" : "s", others);
    if (what)
        fprintf(to->out, ", most of the difference for %s (%.0f MiB)", what, more);
    if (isfinite(ddp))
        fprintf(to->out, "; with DDP the fullest needs %.0f MiB", ddp);
    fputs(".", to->out);
    sentence_end(to);
}

/* "On the same memory DDP fits N % more": from --find-batch of both. */
static void say_largest(const struct view *view, const struct speaker *to)
{
    const struct table *table = &view->results->largest;
    static const char *const strategies[] = {"dp", "ddp"};
    double batch[2], fullest[2], outputs[2], memory = NAN;
    for (int s = 0; s < 2; s++) {
        int row = largest_find(view->results, view->workload, strategies[s]);
        batch[s] = row >= 0 ? table_number(table, row, "batch_per_gpu") : NAN;
        fullest[s] = row >= 0 ? table_number(table, row, "fullest_device") : NAN;
        outputs[s] = row >= 0 ? table_number(table, row, "outputs_mib") : NAN;
        memory = row >= 0 ? table_number(table, row, "device_mib") : memory;
    }
    int failed = table_find(table, 0, "status", "failed");
    if (failed >= 0 && text_is(table_get(table, failed, "model"), view->workload->model)) {
        sentence_begin(to, "Largest batch.");
        fprintf(to->out, "Not found for %s: ", table_get(table, failed, "strategy"));
        text_html(to->out, table_get(table, failed, "reason"));
        sentence_end(to);
    }
    if (!isfinite(batch[0]) || !isfinite(batch[1]))
        return;
    sentence_begin(to, "Largest batch.");
    double more = 100 * (batch[1] / batch[0] - 1);
    fprintf(to->out, "%s on %d devices of %.0f MiB: DP fits %.0f samples per device, DDP %.0f", view->workload->name,
            view->workload->shape_gpus, memory, batch[0], batch[1]);
    if (more)
        fprintf(to->out, "; on the same memory DDP fits %.0f %% %s", fabs(more), more > 0 ? "more" : "less");
    fprintf(to->out,
            ". Outputs and their gradient take %.0f MiB of the fullest device with DP (device %.0f) and %.0f MiB with "
            "DDP.",
            outputs[0], fullest[0], outputs[1]);
    sentence_end(to);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void explain(const struct results *results, const struct speaker *to)
{
    struct view views[VIEWS_MAX];
    int count = views_make(results, views);
    say_equality(results, to);
    for (int v = 0; v < count; v++)
        if (views[v].workload->evaluated)
            say_accuracy(&views[v], to);
    for (int v = 0; v < count; v++)
        if (views[v].workload->timed || views[v].workload->shape_gpus)
            say_bytes(&views[v], to);
    for (int v = 0; v < count; v++)
        if (!views[v].workload->evaluated)
            say_memory(&views[v], to);
    for (int v = 0; v < count; v++)
        say_largest(&views[v], to);
    say_modelled(results, to);
    for (int v = 0; v < count; v++)
        say_times(&views[v], to);
    for (int v = 0; v < count; v++)
        say_speedup(&views[v], to);
    for (int v = 0; v < count; v++)
        say_wrapper(&views[v], to);
    for (int v = 0; v < count; v++)
        say_overlap(&views[v], to);
    say_unsteady(results, to);
    say_what_of_gpus(results, to);
}

void explain_verdict(const struct results *results, FILE *out)
{
    explain(results, &(struct speaker){.out = out, .html = true});
}

void explain_print(const struct results *results, FILE *out)
{
    explain(results, &(struct speaker){.out = out, .html = false});
}
