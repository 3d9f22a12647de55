/* SPDX-License-Identifier: MIT
 *
 * What is true on any machine, in words (explain.h): equality, bytes, memory, the largest batch.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "explain.h"
#include "largest.h"
#include "text.h"

/* ---- equality -------------------------------------------------------------------------------- */

/* What is promised elsewhere, so that nobody expects the same bits of GPUs. */
static const char *equality_elsewhere(const struct results *results)
{
    return measured_on_soft(results) ? " On GPUs equality is promised within a tolerance, not bit for bit." : "";
}

static void say_compared(const struct results *results, const int counts[4], const struct speaker *to)
{
    int bits = counts[EQUAL_BIT], close = counts[EQUAL_TOLERANCE], compared = counts[EQUAL_NO] + close + bits;
    if (counts[EQUAL_NO])
        fprintf(to->out, "NO: %d of %d cells did not train the same model. Their times compare nothing.",
                counts[EQUAL_NO], compared);
    else if (!compared)
        fputs("Nothing was compared in this sweep.", to->out);
    else
        fprintf(to->out, "Yes. %d cell%s compared on %s, and each trained the same model as its partner: ", compared,
                compared == 1 ? " was" : "s were", devices_measured(results));
    if (counts[EQUAL_NO] || !compared)
        return;
    static const char bit[] = "the same weights, bit for bit, after the 3 updates of the verification",
                      tolerance[] = "gradients of step 1 within 1e-5 and the last loss within 1 %, not bit for bit";
    if (bits && close)
        fprintf(to->out, "%d with %s, %d with %s.", bits, bit, close, tolerance);
    else
        fprintf(to->out, "%s.", bits ? bit : tolerance);
    fputs(equality_elsewhere(results), to->out);
}

void say_equality(const struct results *results, const struct speaker *to)
{
    const struct table *rows = &results->rows;
    int counts[4] = {0}, failed = 0;
    for (int row = 0; row < rows->row_count; row++) {
        for (int e = EQUAL_NA; e <= EQUAL_BIT; e++)
            counts[e] += text_is(table_get(rows, row, "equal"), equality_name((enum equality)e)) &&
                         !text_is(table_get(rows, row, "strategy"), "single");
        failed += !text_is(table_get(rows, row, "status"), "ok");
    }
    sentence_begin(to, "The same model?");
    say_compared(results, counts, to);
    if (failed)
        fprintf(to->out, " %d cell%s failed; the table says why, and the plots leave %s out.", failed,
                failed == 1 ? "" : "s", failed == 1 ? "it" : "them");
    sentence_end(to);
}

/* Real data: how many test samples does each cell get right? */
void say_accuracy(const struct view *view, const struct speaker *to)
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
    fprintf(to->out, "Measured on %s: ", devices_measured(view->results));
    if (low < high)
        fprintf(to->out, "on %s the %d cells get %.0f to %.0f of the %.0f test samples right (%.2f to %.2f %%).",
                view->workload->name, cells, low, high, samples, 100 * low / samples, 100 * high / samples);
    else
        fprintf(to->out, "on %s %s gets %.0f of the %.0f test samples right (%.2f %%)%s.", view->workload->name,
                cells == 1 ? "the one cell" : "each cell", low, samples, 100 * low / samples,
                cells == 1 ? "" : "; that is a count: whether they are the same samples is not compared");
    sentence_end(to);
}

/* ---- bytes and memory ------------------------------------------------------------------------ */

/* Where a workload's bytes and MiB come from: "Counted on soft GPUs". */
static void say_source(const struct view *view, bool derived, const struct speaker *to)
{
    if (view->workload->shape_gpus)
        fputs("Recorded, not executed", to->out);
    else
        fprintf(to->out, "%s on %s", derived ? "Derived by formula" : "Counted", devices_measured(view->results));
}

void say_bytes(const struct view *view, const struct speaker *to)
{
    int n = view_largest(view, false);
    double dp = view_number(view, "dp", n, "comm_mib"), ddp = view_number(view, "ddp", n, "comm_mib");
    double dp_link = view_number(view, "dp", n, "busiest_link_mib"),
           ddp_link = view_number(view, "ddp", n, "busiest_link_mib");
    if (n < 2 || !isfinite(dp + ddp + dp_link + ddp_link) || view->workload->evaluated)
        return;
    int row = view_row(view, "ddp", n, false);
    sentence_begin(to, "Bytes.");
    say_source(view, text_is(table_get(&view->results->rows, row, "comm_source"), "derived"), to);
    fprintf(to->out,
            ": on %d devices a step of %s%s moves %.1f MiB with DP and %.1f MiB with DDP; the busiest link carries "
            "%.1f MiB with DP and %.1f MiB with DDP (%.2f times as much with DP).",
            n, view->workload->name, weak_note(view->scaling), dp, ddp, dp_link, ddp_link, dp_link / ddp_link);
    sentence_end(to);
}

const char *fills_device0(const struct view *view, int n, double *more)
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

void say_memory(const struct view *view, const struct speaker *to)
{
    int n = view_largest(view, false);
    double zero = view_number(view, "dp", n, "mem_device0_mib"),
           others = view_number(view, "dp", n, "mem_median_others_mib");
    double ddp = view_number(view, "ddp", n, "mem_peak_mib"), more;
    if (n < 2 || !isfinite(zero) || !isfinite(others) || view->workload->evaluated)
        return;
    const char *what = fills_device0(view, n, &more);
    sentence_begin(to, "Memory.");
    say_source(view, false, to);
    fprintf(to->out, ", %s%s on %d devices: with DP device 0 needs %.0f MiB and the other%s %.0f MiB",
            view->workload->name, weak_note(view->scaling), n, zero, n == 2 ? "" : "s", others);
    if (what)
        fprintf(to->out, ", most of the difference for %s (%.0f MiB)", what, more);
    if (isfinite(ddp))
        fprintf(to->out, "; with DDP the fullest needs %.0f MiB", ddp);
    fputs(".", to->out);
    sentence_end(to);
}

/* "On the same memory DDP fits N % more": from --find-batch of both. */
void say_largest(const struct view *view, const struct speaker *to)
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
        speak_text(to, table_get(table, failed, "reason"));
        sentence_end(to);
    }
    if (!isfinite(batch[0]) || !isfinite(batch[1]))
        return;
    sentence_begin(to, "Largest batch.");
    double more = 100 * (batch[1] / batch[0] - 1);
    fprintf(to->out, "Recorded, not executed: %s on %d devices of %.0f MiB: DP fits %.0f samples per device, DDP %.0f",
            view->workload->name, view->workload->shape_gpus, memory, batch[0], batch[1]);
    if (more)
        fprintf(to->out, "; on the same memory DDP fits %.0f %% %s", fabs(more), more > 0 ? "more" : "less");
    fprintf(to->out,
            ". Outputs and their gradient take %.0f MiB of the fullest device with DP (device %.0f) and %.0f MiB with "
            "DDP.",
            outputs[0], fullest[0], outputs[1]);
    sentence_end(to);
}
