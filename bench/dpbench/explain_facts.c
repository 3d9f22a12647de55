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

/* The row that a cell is held against: DDP's for DP's, DP's for DDP's, DDP's for DDP without overlap. -1: it did not
 * end well, or was not run. */
static int partner_row(const struct results *results, int row)
{
    const struct table *rows = &results->rows;
    struct view view = view_of_row(results, row);
    if (!view.workload)
        return -1;
    bool apart = !text_is(table_get(rows, row, "variant"), view.workload->variant);
    bool seek_ddp = apart || text_is(table_get(rows, row, "strategy"), "dp");
    return view_row(&view, seek_ddp ? "ddp" : "dp", (int)table_number(rows, row, "gpus"), false);
}

/* Cells of dp and ddp. */
struct proof {
    int equal[4]; /* by enum equality */
    int pairs;    /* compared ones of dp whose partner of ddp ended well */
    int alone;    /* compared with `single` only: there was no partner */
    int failed;   /* of all strategies */
};

static struct proof count_proof(const struct results *results)
{
    const struct table *rows = &results->rows;
    struct proof proof = {0};
    for (int row = 0; row < rows->row_count; row++) {
        const char *strategy = table_get(rows, row, "strategy"), *equal = table_get(rows, row, "equal");
        proof.failed += !text_is(table_get(rows, row, "status"), "ok");
        if (text_is(strategy, "single"))
            continue;
        for (int e = EQUAL_NA; e <= EQUAL_BIT; e++)
            proof.equal[e] += text_is(equal, equality_name((enum equality)e));
        if (text_is(equal, equality_name(EQUAL_NA)))
            continue;
        bool has_partner = partner_row(results, row) >= 0;
        proof.pairs += has_partner && text_is(strategy, "dp");
        proof.alone += !has_partner;
    }
    return proof;
}

/* "the same weights, bit for bit, ...": in what the compared cells agree. */
static void say_agreement(const struct results *results, const struct proof *proof, const struct speaker *to)
{
    static const char bit[] = "the same weights, bit for bit, after the 3 updates of the verification",
                      tolerance[] = "gradients of step 1 within 1e-5 and the last loss within 1 %, not bit for bit";
    int bits = proof->equal[EQUAL_BIT], close = proof->equal[EQUAL_TOLERANCE];
    if (bits && close)
        fprintf(to->out, "%d with %s, %d with %s.", bits, bit, close, tolerance);
    else
        fprintf(to->out, "%s.", bits ? bit : tolerance);
    fputs(equality_elsewhere(results), to->out);
}

/* Why no cell of DP stands beside one of DDP. */
static void say_no_pair(const struct results *results, const struct speaker *to)
{
    static const char *const strategies[] = {"dp", "ddp"}, *const names[] = {"DP", "DDP"};
    const struct table *rows = &results->rows;
    bool said = false;
    fputs("DP and DDP were not compared with each other: ", to->out);
    for (int s = 0; s < 2; s++) {
        int run = 0, good = 0;
        for (int row = -1; (row = table_find(rows, row + 1, "strategy", strategies[s])) >= 0;) {
            run += !strstr(table_get(rows, row, "variant"), SHAPE_ONLY);
            good += executed_row(rows, row) == row;
        }
        if (good)
            continue;
        fputs(said ? ", " : "", to->out);
        fprintf(to->out, run ? "every cell of %s failed" : "no cell of %s was run", names[s]);
        said = true;
    }
    fputs(said ? "." : "on no N did both end well.", to->out);
}

static void say_compared(const struct results *results, const struct proof *proof, const struct speaker *to)
{
    int compared = proof->equal[EQUAL_NO] + proof->equal[EQUAL_TOLERANCE] + proof->equal[EQUAL_BIT];
    const char *were = compared == 1 ? " was" : "s were", *devices = devices_measured(results);
    if (proof->equal[EQUAL_NO]) {
        fprintf(to->out, "NO: %d of %d cells did not train the same model. Their times compare nothing.",
                proof->equal[EQUAL_NO], compared);
        return;
    }
    if (!compared) {
        fputs("Nothing was compared in this sweep.", to->out);
        return;
    }
    if (!proof->pairs) {
        say_no_pair(results, to);
        fprintf(to->out, " %d cell%s compared with one device alone (single) on %s, and trained its model: ", compared,
                were, devices);
    } else {
        fprintf(to->out, "Yes. %d cell%s compared on %s, and each trained the same model as its partner", compared,
                were, devices);
        if (proof->alone)
            fprintf(to->out, " (%d without a partner: as one device alone)", proof->alone);
        fputs(": ", to->out);
    }
    say_agreement(results, proof, to);
}

void say_equality(const struct results *results, const struct speaker *to)
{
    const struct proof proof = count_proof(results);
    sentence_begin(to, "The same model?");
    say_compared(results, &proof, to);
    if (proof.failed)
        fprintf(to->out, " %d cell%s failed; the table says why, and the plots leave %s out.", proof.failed,
                proof.failed == 1 ? "" : "s", proof.failed == 1 ? "it" : "them");
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
            ": on %d devices a step of %s%s moves %.1f MiB with DP and %.1f MiB with DDP; the busiest device sends or "
            "receives %.1f MiB with DP and %.1f MiB with DDP (%.2f times as much with DP).",
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
