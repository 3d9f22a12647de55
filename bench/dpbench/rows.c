/* SPDX-License-Identifier: MIT
 *
 * From a finished group's runs to rows (results.h): what the trainers measured is copied, medians and intervals over
 * the rounds are added, and what needs two cells (speed-up, overlap, pairs) is worked out. docs/results.md has the
 * formulas.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "resampling.h"
#include "results.h"
#include "run/statistics.h"
#include "text.h"

/* Columns taken as they are from the header, and from the summary of the middle round. */
static const char *const header_texts[] = {"time", "host", "backend", "device", "precision", "optimizer"};
static const char *const header_numbers[] = {"cores_per_device", "batch_per_gpu", "accumulate", "params"};
static const char *const middle_numbers[] = {
    "scatter_ms",           "replicate_ms", "forward_ms", "gather_ms", "loss_ms",        "backward_ms", "reduce_ms",
    "allreduce_exposed_ms", "update_ms",    "host_ms",    "wait_ms",   "comm_hidden_ms", "util_mean",   "util_device0",
};
static const char *const constant_numbers[] = {
    "mem_peak_mib",     "mem_device0_mib", "mem_median_others_mib",
    "mem_imbalance",    "comm_mib",        "comm_mib_formula",
    "busiest_link_mib", "loss_first",      "loss_last",
};

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static void copy_numbers(struct table *table, int row, const cJSON *from, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        table_set_number(table, row, names[i], record_number(from, names[i]));
}

static void copy_text(struct table *table, int row, const cJSON *from, const char *name)
{
    if (*record_text(from, name))
        table_set(table, row, name, "%s", record_text(from, name));
}

static void set_key(struct table *table, int row, const struct cell *cell)
{
    table_set(table, row, "strategy", "%s", cell->strategy);
    if (*cell->variant)
        table_set(table, row, "variant", "%s", cell->variant);
    table_set(table, row, "model", "%s", cell->workload->model);
    table_set(table, row, "data", "%s", cell->workload->data);
    table_set(table, row, "gpus", "%d", cell->gpus);
    table_set(table, row, "scaling", "%s", scaling_name(cell->scaling));
    table_set(table, row, "global_batch", "%zu", cell->global_batch);
}

/* Step times: the middle round's median; spread and tail over all steps of all rounds. */
static void set_times(struct table *table, int row, const struct measured *measured)
{
    size_t n = 0;
    double *all = NULL;
    for (int r = 0; r < measured->rounds; r++) {
        double *ms;
        size_t count = (size_t)record_steps(&measured->records[r], &ms);
        all = text_must(realloc(all, (n + count + 1) * sizeof *all));
        memcpy(all + n, ms, count * sizeof *ms);
        n += count;
        free(ms);
    }
    table_set(table, row, "steps", "%zu", n);
    table_set_number(table, row, "step_ms", measured->round_ms[measured->middle]);
    table_set_number(table, row, "step_ms_mad", statistics_mad(all, n));
    table_set_number(table, row, "step_ms_p95", statistics_quantile(all, n, 0.95));
    free(all);
    size_t rounds = (size_t)measured->rounds;
    struct interval interval = resampling_interval(measured->round_rate, rounds);
    table_set_number(table, row, "samples_per_s", statistics_median(measured->round_rate, rounds));
    table_set_number(table, row, "samples_per_s_lo", interval.low);
    table_set_number(table, row, "samples_per_s_hi", interval.high);
}

/* Median over the rounds of left / right, round by round. */
static double paired_ratio(const double *left, const double *right, int rounds, struct interval *interval)
{
    double *ratios = text_must(malloc((size_t)rounds * sizeof *ratios));
    for (int r = 0; r < rounds; r++)
        ratios[r] = left[r] / right[r];
    double ratio = statistics_median(ratios, (size_t)rounds);
    if (interval)
        *interval = resampling_interval(ratios, (size_t)rounds);
    free(ratios);
    return ratio;
}

/* Speed-up over single, where times mean something: never with more cores asked for than there are. */
static void set_speedup(struct table *table, int row, const struct plan *plan, const struct measured *measured,
                        const struct measured *single)
{
    if (!single || plan_oversubscribed(plan, measured->cell) || single->rounds != measured->rounds)
        return;
    double speedup = paired_ratio(measured->round_rate, single->round_rate, measured->rounds, NULL);
    table_set_number(table, row, "speedup", speedup);
    table_set_number(table, row, "efficiency", speedup / measured->cell->gpus);
}

static void set_result(struct table *table, int row, const struct plan *plan, const struct group *group,
                       const struct measured *all, const struct measured *measured)
{
    const cJSON *summary = measured->records[measured->middle].summary;
    const struct cell *cell = measured->cell;
    if (!cell->workload->shape_gpus) {
        set_times(table, row, measured);
        copy_numbers(table, row, summary, middle_numbers, COUNT(middle_numbers));
    }
    copy_numbers(table, row, summary, constant_numbers, COUNT(constant_numbers));
    copy_text(table, row, summary, "comm_source");
    copy_text(table, row, summary, "checksum");
    if (*measured->checksum_ref)
        table_set(table, row, "checksum_ref", "%s", measured->checksum_ref);
    set_speedup(table, row, plan, measured, measured_find(all, group, "single", 1, false));
    const struct measured *apart = measured_find(all, group, cell->strategy, cell->gpus, true);
    if (apart && !cell->no_overlap)
        table_set_number(table, row, "overlap_saved_ms",
                         apart->round_ms[apart->middle] - measured->round_ms[measured->middle]);
}

static void add_row(struct table *table, const struct plan *plan, const struct group *group, const struct measured *all,
                    const struct measured *measured, const char *run_id)
{
    const cJSON *header = measured->rounds ? measured->records[0].header : NULL;
    int row = table_add_row(table);
    table_set(table, row, "schema", RESULTS_SCHEMA);
    table_set(table, row, "run", "%s", run_id);
    table_set(table, row, "clock", "measured");
    table_set(table, row, "rounds", "%d", measured->rounds);
    for (int i = 0; i < COUNT(header_texts); i++)
        copy_text(table, row, header, header_texts[i]);
    copy_numbers(table, row, header, header_numbers, COUNT(header_numbers));
    set_key(table, row, measured->cell);
    if (measured_ok(measured))
        set_result(table, row, plan, group, all, measured);
    table_set(table, row, "equal", "%s", equality_name(measured->equal));
    table_set(table, row, "oversubscribed", "%s", plan_oversubscribed(plan, measured->cell) ? "yes" : "no");
    table_set(table, row, "status", "%s",
              measured->equal == EQUAL_NO && measured_ok(measured) ? "failed" : measured->status);
    if (*measured->reason)
        table_set(table, row, "reason", "%s", measured->reason);
}

/* Rows of one record's lines of a type: texts and numbers by the columns' own names. */
static void add_lines(struct table *table, const struct cell *cell, const struct record *record, const char *type,
                      int first_column, int round)
{
    for (int i = 0; i < record->count; i++) {
        const cJSON *line = record->lines[i];
        if (!record_is(line, type))
            continue;
        int row = table_add_row(table);
        set_key(table, row, cell);
        for (int c = first_column; c < table->column_count; c++) {
            const char *column = table->columns[c];
            if (text_is(column, "round"))
                table_set(table, row, column, "%d", round);
            else if (*record_text(line, column))
                copy_text(table, row, line, column);
            else
                table_set_number(table, row, column, record_number(line, column));
        }
    }
}

#define KEY_COLUMNS 7

static void add_accuracy(struct table *table, const struct cell *cell, const cJSON *summary)
{
    static const char *const names[] = {"test_samples", "test_correct", "test_accuracy"};
    int row = table_add_row(table);
    set_key(table, row, cell);
    copy_numbers(table, row, summary, names, COUNT(names));
}

static void add_details(struct results *results, const struct measured *measured)
{
    const struct record *middle = &measured->records[measured->middle];
    add_lines(&results->devices, measured->cell, middle, "device", KEY_COLUMNS, 0);
    add_lines(&results->traffic, measured->cell, middle, "traffic", KEY_COLUMNS, 0);
    add_lines(&results->ledger, measured->cell, middle, "formula", KEY_COLUMNS, 0);
    if (record_number(middle->summary, "test_samples") > 0)
        add_accuracy(&results->accuracy, measured->cell, middle->summary);
    for (int r = 0; r < measured->rounds && !measured->cell->workload->shape_gpus; r++)
        add_lines(&results->steps, measured->cell, &measured->records[r], "step", KEY_COLUMNS, r);
}

/* left's step / right's, of the rounds' medians: both steps do the same work. */
static void set_ratio(struct table *table, int row, const struct measured *left, const struct measured *right)
{
    struct interval interval;
    double ratio = paired_ratio(left->round_ms, right->round_ms, left->rounds, &interval);
    table_set_number(table, row, "ratio", ratio);
    table_set_number(table, row, "ratio_lo", interval.low);
    table_set_number(table, row, "ratio_hi", interval.high);
    table_set_number(
        table, row, "p_value",
        resampling_rank_test(left->round_ms, (size_t)left->rounds, right->round_ms, (size_t)right->rounds));
}

/* results.csv's speed-up of the left one over `single`, with its interval: of total times, so batches may differ. */
static void set_pair_speedup(struct table *table, int row, const struct measured *left, const struct measured *single)
{
    struct interval interval;
    double speedup = paired_ratio(left->round_rate, single->round_rate, left->rounds, &interval);
    table_set_number(table, row, "speedup", speedup);
    table_set_number(table, row, "speedup_lo", interval.low);
    table_set_number(table, row, "speedup_hi", interval.high);
}

static void add_pair(struct table *table, const struct plan *plan, const struct measured *left, const char *left_name,
                     const struct measured *right, const char *right_name)
{
    if (!left || !right || left->rounds != right->rounds)
        return;
    const struct cell *cell = left->cell;
    int row = table_add_row(table);
    table_set(table, row, "model", "%s", cell->workload->model);
    table_set(table, row, "data", "%s", cell->workload->data);
    if (*cell->workload->variant)
        table_set(table, row, "variant", "%s", cell->workload->variant);
    table_set(table, row, "gpus", "%d", cell->gpus);
    table_set(table, row, "scaling", "%s", scaling_name(cell->scaling));
    table_set(table, row, "global_batch", "%zu", cell->global_batch);
    table_set(table, row, "left", "%s", left_name);
    table_set(table, row, "right", "%s", right_name);
    table_set(table, row, "rounds", "%d", left->rounds);
    table_set_number(table, row, "left_step_ms", left->round_ms[left->middle]);
    table_set_number(table, row, "right_step_ms", right->round_ms[right->middle]);
    if (left->cell->global_batch == right->cell->global_batch)
        set_ratio(table, row, left, right);
    if (text_is(right_name, "single") && !plan_oversubscribed(plan, cell))
        set_pair_speedup(table, row, left, right);
    table_set(table, row, "oversubscribed", "%s", plan_oversubscribed(plan, cell) ? "yes" : "no");
    if (!text_is(left_name, "dp") || !text_is(right_name, "ddp"))
        return;
    table_set(table, row, "equal", "%s", equality_name(right->pair.equal));
    table_set_number(table, row, "gradient_difference", right->pair.gradient);
    table_set_number(table, row, "loss_difference", right->pair.loss);
}

/* dp over ddp at each N; ddp without overlap over with; all over single: speed-up, and on one device what the wrapper
 * costs. */
static void add_pairs(struct table *table, const struct plan *plan, const struct group *group,
                      const struct measured *all)
{
    for (int c = 0; c < group->cell_count; c++) {
        const struct cell *cell = &group->cells[c];
        const struct measured *right = measured_find(all, group, cell->strategy, cell->gpus, cell->no_overlap);
        if (!text_is(cell->strategy, "single"))
            add_pair(table, plan, right, cell->no_overlap ? "ddp;no_overlap=1" : cell->strategy,
                     measured_find(all, group, "single", 1, false), "single");
        if (cell->no_overlap || !text_is(cell->strategy, "ddp"))
            continue;
        add_pair(table, plan, measured_find(all, group, "dp", cell->gpus, false), "dp", right, "ddp");
        add_pair(table, plan, measured_find(all, group, "ddp", cell->gpus, true), "ddp;no_overlap=1", right, "ddp");
    }
}

void results_add_group(struct results *results, const struct plan *plan, const struct group *group,
                       const struct measured *all, const char *run_id)
{
    for (int c = 0; c < group->cell_count; c++) {
        const struct measured *measured = &all[c];
        if (results_find(&results->rows, 0, measured->cell) >= 0)
            continue;
        add_row(&results->rows, plan, group, all, measured, run_id);
        if (measured_ok(measured))
            add_details(results, measured);
    }
    if (!group->cells[0].workload->shape_gpus)
        add_pairs(&results->pairs, plan, group, all);
}
