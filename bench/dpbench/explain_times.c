/* SPDX-License-Identifier: MIT
 *
 * What the clock says (explain.h): ratios with their intervals, and "no difference seen" where an interval holds 1.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "explain.h"
#include "text.h"

static bool is_oversubscribed(const struct table *table, int row)
{
    return text_is(table_get(table, row, "oversubscribed"), "yes");
}

static const char *plural(int count)
{
    return count == 1 ? "" : "s";
}

/* Up to so many rounds the bootstrap's interval is the range of the rounds, and is called no more than that. */
#define RANGE_ROUNDS 5

/* " (DP's step / DDP's 1.13, 95 % interval 1.11 to 1.14 in 9 rounds)"; inverted where the other side of the ratio is
 * told. */
static void say_interval(const struct table *pairs, int row, const char *what, const char *column, bool inverted,
                         const struct speaker *to)
{
    char low_column[32], high_column[32];
    snprintf(low_column, sizeof low_column, "%s_lo", column);
    snprintf(high_column, sizeof high_column, "%s_hi", column);
    double value = table_number(pairs, row, column), low = table_number(pairs, row, low_column);
    double high = table_number(pairs, row, high_column);
    if (inverted) {
        double kept = low;
        value = 1 / value;
        low = 1 / high;
        high = 1 / kept;
    }
    int rounds = (int)table_number(pairs, row, "rounds");
    fprintf(to->out, " (%s %.2f, ", what, value);
    if (!isfinite(low))
        fputs("one round: no interval)", to->out);
    else
        fprintf(to->out, "%s%.2f to %.2f in %d rounds)", rounds > RANGE_ROUNDS ? "95 % interval " : "", low, high,
                rounds);
}

/* A few rounds that agree are told as that, and not as a law. */
static bool few_rounds(const struct table *pairs, int row)
{
    return table_number(pairs, row, "rounds") <= RANGE_ROUNDS;
}

/* "Faster here? Measured on soft GPUs: mlp, strong scaling." and more before the full stop. */
static void say_begin(const char *head, const struct view *view, const char *more, const struct speaker *to)
{
    sentence_begin(to, head);
    fprintf(to->out, "Measured on %s: %s, %s scaling%s.", devices_measured(view->results), view->workload->name,
            scaling_name(view->scaling), more);
}

static enum seen pair_seen(const struct table *pairs, int row)
{
    return seen(table_number(pairs, row, "ratio_lo"), table_number(pairs, row, "ratio_hi"));
}

/* ---- dp beside ddp --------------------------------------------------------------------------- */

void say_faster(const struct view *view, int row, const struct speaker *to)
{
    const struct table *pairs = &view->results->pairs;
    enum seen what = pair_seen(pairs, row);
    if (what == SEEN_NONE || what == SEEN_UNKNOWN)
        fputs(what == SEEN_NONE ? "no difference seen" : "no claim", to->out);
    else
        fprintf(to->out, "%s %s", what == SEEN_ABOVE ? "DDP" : "DP",
                few_rounds(pairs, row) ? "had the shorter step in each round" : "is faster");
    bool inverted = what == SEEN_BELOW;
    say_interval(pairs, row, inverted ? "DDP's step / DP's" : "DP's step / DDP's", "ratio", inverted, to);
    putc('.', to->out);
}

/* "On 4 and 8 devices there are not enough cores: no claim." */
static void say_left_out(const int *numbers, int count, const struct speaker *to)
{
    fputs(" On ", to->out);
    for (int i = 0; i < count; i++)
        fprintf(to->out, "%s%d", i == 0 ? "" : i + 1 < count ? ", " : " and ", numbers[i]);
    fputs(" devices there are not enough cores: no claim.", to->out);
}

void say_times(const struct view *view, const struct speaker *to)
{
    const struct table *pairs = &view->results->pairs;
    int left_out[SETTINGS_MAX_GPUS], left_out_count = 0, found = 0;
    if (!view->workload->timed)
        return;
    for (int i = 0; i < view->gpu_count; i++) {
        int row = view_pair(view, view->gpus[i], "dp", "ddp");
        if (row < 0)
            continue;
        if (!found++)
            say_begin("Faster here?", view, "", to);
        if (is_oversubscribed(pairs, row))
            left_out[left_out_count++] = view->gpus[i];
        else {
            fprintf(to->out, " On %d device%s: ", view->gpus[i], plural(view->gpus[i]));
            say_faster(view, row, to);
        }
    }
    if (left_out_count)
        say_left_out(left_out, left_out_count, to);
    if (found)
        sentence_end(to);
}

/* ---- beside one device ----------------------------------------------------------------------- */

static void say_one_speedup(const struct table *pairs, int row, const char *name, const struct speaker *to)
{
    enum seen what = seen(table_number(pairs, row, "speedup_lo"), table_number(pairs, row, "speedup_hi"));
    if (what == SEEN_NONE || what == SEEN_UNKNOWN)
        fprintf(to->out, " %s: %s", name, what == SEEN_NONE ? "no difference seen" : "no claim");
    else
        fprintf(to->out, " %s %s %s%s", name, few_rounds(pairs, row) ? "was" : "is",
                what == SEEN_BELOW ? "slower than one device" : "faster",
                few_rounds(pairs, row) ? " in each round" : "");
    say_interval(pairs, row, "speed-up", "speedup", false, to);
    putc('.', to->out);
}

/* The largest N on which one of them ran with cores of its own. */
void say_speedup(const struct view *view, const struct speaker *to)
{
    static const char *const strategies[] = {"dp", "ddp"}, *const names[] = {"DP", "DDP"};
    const struct table *pairs = &view->results->pairs;
    bool found = false;
    for (int i = view->gpu_count - 1; i >= 0 && !found && view->gpus[i] > 1 && view->workload->timed; i--)
        for (int s = 0; s < 2; s++) {
            int row = view_pair(view, view->gpus[i], strategies[s], "single");
            if (row < 0 || is_oversubscribed(pairs, row))
                continue;
            if (!found) {
                char beside[40];
                snprintf(beside, sizeof beside, ", %d devices beside single", view->gpus[i]);
                say_begin("Faster than one device?", view, beside, to);
            }
            found = true;
            say_one_speedup(pairs, row, names[s], to);
        }
    if (found)
        sentence_end(to);
}

/* What wrapping one device costs. */
void say_wrapper(const struct view *view, const struct speaker *to)
{
    static const char *const strategies[] = {"dp", "ddp"}, *const names[] = {"DP", "DDP"};
    const struct table *pairs = &view->results->pairs;
    bool found = false;
    for (int s = 0; s < 2 && view->workload->timed; s++) {
        int row = view_pair(view, 1, strategies[s], "single");
        if (row < 0 || is_oversubscribed(pairs, row))
            continue;
        if (!found) {
            say_begin("What the wrapper costs.", view, ", N = 1 beside single", to);
        }
        found = true;
        enum seen what = pair_seen(pairs, row);
        fprintf(to->out, " %s: %s", names[s],
                what == SEEN_NONE    ? "no difference seen"
                : what == SEEN_ABOVE ? "a longer step"
                : what == SEEN_BELOW ? "a shorter step"
                                     : "measured once");
        if (few_rounds(pairs, row) && (what == SEEN_ABOVE || what == SEEN_BELOW))
            fputs(" in each round", to->out);
        say_interval(pairs, row, "step / single's", "ratio", false, to);
        putc('.', to->out);
    }
    if (found)
        sentence_end(to);
}

/* ---- overlap --------------------------------------------------------------------------------- */

void say_overlap(const struct view *view, const struct speaker *to)
{
    const struct table *pairs = &view->results->pairs;
    bool found = false;
    for (int i = 0; i < view->gpu_count && view->workload->timed; i++) {
        int row = view_pair(view, view->gpus[i], "ddp;no_overlap=1", "ddp");
        if (row < 0 || is_oversubscribed(pairs, row))
            continue;
        double saved = view_number(view, "ddp", view->gpus[i], "overlap_saved_ms");
        enum seen what = view_overlap(view, view->gpus[i]);
        if (!found) {
            say_begin("Overlap.", view, ", DDP reducing during the backward pass instead of after it", to);
        }
        found = true;
        fprintf(to->out, " On %d devices: ", view->gpus[i]);
        if (what == SEEN_NONE)
            fputs("no difference seen", to->out);
        else
            fprintf(to->out, "it %s %.2f ms a step%s", saved >= 0 ? "saves" : "costs", fabs(saved),
                    what == SEEN_UNKNOWN     ? ", more than the steps scatter"
                    : few_rounds(pairs, row) ? " between the middle rounds, and something in each round"
                                             : " between the middle rounds");
        say_interval(pairs, row, "step without / with", "ratio", false, to);
        putc('.', to->out);
    }
    if (found)
        sentence_end(to);
}

/* ---- how far to trust all that ---------------------------------------------------------------- */

#define NAMED 4

void say_unsteady(const struct results *results, const struct speaker *to)
{
    const struct table *rows = &results->rows;
    struct text names;
    int count = 0;
    text_open(&names);
    for (int row = 0; row < rows->row_count; row++) {
        const struct workload *workload = row_workload(rows, row);
        if (!(row_spread(rows, row) > UNSTEADY) || is_oversubscribed(rows, row) || !workload)
            continue;
        if (count < NAMED)
            fprintf(names.out, "%s%s %s%s on %s%s: %.0f %%", count ? "; " : "", workload->name,
                    table_get(rows, row, "strategy"),
                    text_is(table_get(rows, row, "variant"), workload->variant) ? "" : " without overlap",
                    table_get(rows, row, "gpus"), weak_note(view_of_row(results, row).scaling),
                    100 * row_spread(rows, row));
        count++;
    }
    text_close(&names);
    if (count) {
        sentence_begin(to, "Unsteady.");
        fprintf(to->out,
                "Measured on %s: in %d cell%s the steps scatter by more than %.0f %% of their median (MAD; %s%s): do "
                "not build on "
                "%s times. Let nothing else run, and take more steps.",
                devices_measured(results), count, plural(count), 100 * UNSTEADY, names.data,
                count > NAMED ? "; ..." : "", count == 1 ? "its" : "their");
        sentence_end(to);
    }
    free(names.data);
}

void say_what_of_gpus(const struct results *results, const struct speaker *to)
{
    if (!measured_on_soft(results))
        return;
    sentence_begin(to, "And on GPUs?");
    fputs(
        "Times measured here do not say. Soft GPUs share one memory and have no links: what DP loses on device 0's "
        "link costs almost nothing here. Bytes and memory do hold on GPUs, equality within a tolerance (the same bits "
        "are not promised there).",
        to->out);
    sentence_end(to);
}
