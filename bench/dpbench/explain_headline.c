/* SPDX-License-Identifier: MIT
 *
 * The verdict in a few sentences a band (explain.h): which is faster, why, what device 0 pays. The sentences in full
 * stand beside the figures and in the lists below; this file chooses among the same numbers.
 */
#include <math.h>
#include <stdio.h>

#include "explain.h"
#include "text.h"

/* All that went well was recorded (shape only), whatever device was asked for. */
static void say_only_recorded(const struct results *results, const struct speaker *to)
{
    if (table_find(&results->rows, 0, "status", "ok") < 0)
        return;
    sentence_begin(to, "Nothing was executed.");
    fputs("What is shown was recorded: bytes and memory are those of GPUs. No time was measured, of GPUs or of CPU "
          "cores.",
          to->out);
    sentence_end(to);
}

/* Whoever reads no further has to know what the times are of. */
void say_notice(const struct results *results, const struct speaker *to)
{
    if (executed_row(&results->rows, 0) < 0)
        say_only_recorded(results, to);
    if (!measured_on_soft(results))
        return;
    bool modelled = table_find(&results->modelled, 0, "status", "ok") >= 0;
    sentence_begin(to, "No GPU was used.");
    fprintf(
        to->out,
        "All times measured here are of CPU cores that stand in for GPUs (\"soft GPUs\"): they do not tell how fast "
        "GPUs would be. For GPUs read what is modelled%s. Bytes and memory are the same on both.",
        modelled ? "" : " (missing in this run)");
    sentence_end(to);
}

/* ---- memory and bytes ------------------------------------------------------------------------ */

/* MiB of one workload on its largest N. */
struct burden {
    const struct view *view;
    int n;
    double device0, others, ddp;
};

static struct burden burden_of(const struct view *view)
{
    struct burden burden = {.view = view, .n = view_largest(view, false)};
    burden.device0 = view_number(view, "dp", burden.n, "mem_device0_mib");
    burden.others = view_number(view, "dp", burden.n, "mem_median_others_mib");
    burden.ddp = view_number(view, "ddp", burden.n, "mem_peak_mib");
    return burden;
}

static const char *executed(const struct view *view)
{
    return view->workload->shape_gpus ? "recorded, not executed" : "counted";
}

/* The workload on which DP's device 0 holds most, beside DDP's fullest device. */
static void say_worst(const struct burden *worst, const struct speaker *to)
{
    double more;
    const char *what = fills_device0(worst->view, worst->n, &more);
    fprintf(
        to->out,
        "DP fills device 0 most on %s%s: %.0f MiB there and %.0f MiB on each other device; with DDP %.0f MiB on the "
        "fullest (%d devices, %s).",
        worst->view->workload->name, weak_note(worst->view->scaling), worst->device0, worst->others, worst->ddp,
        worst->n, executed(worst->view));
    if (what)
        fprintf(to->out, " What device 0 holds more is mostly %s.", what);
}

static bool ddp_needs_more(const struct burden *burden)
{
    return burden->ddp > burden->device0 + 0.5;
}

/* Where DDP's fullest device holds more than DP's, that is said too. */
static void say_counterexample(const struct burden *worst, const struct burden *best, const struct speaker *to)
{
    static const char why[] = "every device of DDP holds what DP's device 0 holds of the model, and buckets beside it";
    if (ddp_needs_more(worst))
        fprintf(to->out, " That is less than with DDP: %s.", why);
    else if (ddp_needs_more(best))
        fprintf(
            to->out,
            " It is the other way round on %s%s: the fullest device holds %.0f MiB with DP and %.0f MiB with DDP (%d "
            "devices, %s): %s.",
            best->view->workload->name, weak_note(best->view->scaling), best->device0, best->ddp, best->n,
            executed(best->view), why);
}

/* "The busiest device sends or receives 2.01 to 7.31 times as many bytes with DP as with DDP." */
static void say_busiest(const struct view *views, int count, const struct speaker *to)
{
    double low = INFINITY, high = 0;
    for (int v = 0; v < count; v++) {
        int n = view_largest(&views[v], false);
        double ratio =
            view_number(&views[v], "dp", n, "busiest_link_mib") / view_number(&views[v], "ddp", n, "busiest_link_mib");
        if (n > 1 && isfinite(ratio) && !views[v].workload->evaluated) {
            low = fmin(low, ratio);
            high = fmax(high, ratio);
        }
    }
    if (high <= 0)
        return;
    fputs(" Each step, the busiest device sends or receives ", to->out);
    if (high - low >= 0.01)
        fprintf(to->out, "%.2f to ", low);
    fprintf(to->out, "%.2f times as many bytes with DP as with DDP (the largest N of each model).", high);
}

void say_headline_facts(const struct results *results, const struct speaker *to)
{
    struct view views[VIEWS_MAX];
    int count = views_make(results, views);
    struct burden worst = {0}, best = {0};
    for (int v = 0; v < count; v++) {
        struct burden burden = burden_of(&views[v]);
        if (burden.n < 2 || !isfinite(burden.device0 + burden.others + burden.ddp) || views[v].workload->evaluated)
            continue;
        if (!worst.view || burden.device0 / burden.ddp > worst.device0 / worst.ddp)
            worst = burden;
        if (!best.view || burden.device0 / burden.ddp < best.device0 / best.ddp)
            best = burden;
    }
    if (!worst.view)
        return;
    sentence_begin(to, "Memory and bytes.");
    say_worst(&worst, to);
    say_counterexample(&worst, &best, to);
    say_busiest(views, count, to);
    sentence_end(to);
}

/* ---- modelled -------------------------------------------------------------------------------- */

#define SLOWER 0.995 /* a speed-up that is below 1 as printed with two digits */

/* "DDP is modelled faster with all 4 devices: 2.05 times as fast on classes (yet slower than one device alone), 1.40
 * times on resnet50.": what one of them wins. */
static int say_wins(const struct results *results, const struct modelled_machine *machine, bool ddp_wins,
                    const char *between, const struct speaker *to)
{
    int count = 0, dp, ddp;
    for (int w = 0; w < workload_count; w++) {
        if (!find_modelled_pair(results, &workloads[w], machine, false, &dp, &ddp))
            continue;
        double ratio = step_ratio(&results->modelled, dp, ddp);
        if (!modelled_winner(ratio) || (ratio > 1) != ddp_wins)
            continue;
        if (count++ == 0)
            fprintf(to->out, "%s%s is modelled faster with all %d devices: ", between, ddp_wins ? "DDP" : "DP",
                    machine->devices);
        fprintf(to->out, "%s%.2f times %son %s", count > 1 ? ", " : "", ddp_wins ? ratio : 1 / ratio,
                count > 1 ? "" : "as fast ", workloads[w].name);
        if (table_number(&results->modelled, ddp_wins ? ddp : dp, "speedup") < SLOWER)
            fputs(" (yet slower than one device alone)", to->out);
    }
    if (count)
        putc('.', to->out);
    return count;
}

static int say_draws(const struct results *results, const struct modelled_machine *machine, const char *between,
                     const struct speaker *to)
{
    int count = 0, dp, ddp;
    for (int w = 0; w < workload_count; w++) {
        if (!find_modelled_pair(results, &workloads[w], machine, false, &dp, &ddp))
            continue;
        double ratio = step_ratio(&results->modelled, dp, ddp);
        if (modelled_winner(ratio))
            continue;
        fprintf(to->out, count++ == 0 ? "%sNo winner on " : ", ", between);
        fprintf(to->out, "%s (DP's step / DDP's %.2f, within the model's error)", workloads[w].name, ratio);
    }
    if (count)
        putc('.', to->out);
    return count;
}

/* The pair that is furthest apart, and what it is that the slower one spends more on. */
static void say_why(const struct results *results, const struct modelled_machine *machine, const struct speaker *to)
{
    double furthest = 1;
    int dp, ddp, slowest[2] = {-1, -1};
    const struct workload *of = NULL;
    for (int w = 0; w < workload_count; w++) {
        if (!find_modelled_pair(results, &workloads[w], machine, false, &dp, &ddp))
            continue;
        double ratio = step_ratio(&results->modelled, dp, ddp), apart = fmax(ratio, 1 / ratio);
        if (!modelled_winner(ratio) || apart <= furthest)
            continue;
        furthest = apart;
        of = &workloads[w];
        slowest[0] = dp;
        slowest[1] = ddp;
    }
    if (!of)
        return;
    char lead[60];
    snprintf(lead, sizeof lead, " On %s ", of->name);
    if (say_because(&results->modelled, slowest[0], slowest[1], 1, lead, to))
        putc('.', to->out);
}

void say_headline_modelled(const struct results *results, const struct speaker *to)
{
    for (int m = 0; m < modelled_machine_count; m++) {
        const struct modelled_machine *machine = &modelled_machines[m];
        int dp, ddp, pairs = 0;
        for (int w = 0; w < workload_count; w++)
            pairs += find_modelled_pair(results, &workloads[w], machine, false, &dp, &ddp);
        if (!pairs)
            continue;
        char head[160];
        snprintf(head, sizeof head, "Modelled on %s (band 2: how far to trust it).", machine->title);
        sentence_begin(to, head);
        int said = say_wins(results, machine, true, "", to);
        said += say_wins(results, machine, false, said ? " " : "", to);
        say_draws(results, machine, said ? " " : "", to);
        say_why(results, machine, to);
        sentence_end(to);
    }
}

/* ---- measured here --------------------------------------------------------------------------- */

/* On GPUs the phase that makes most of the difference; soft GPUs' phases tell of cores and not of links. */
static void say_measured_why(const struct view *view, int n, int pair, const struct speaker *to)
{
    const struct table *rows = &view->results->rows, *pairs = &view->results->pairs;
    int dp = view_row(view, "dp", n, false), ddp = view_row(view, "ddp", n, false);
    enum seen what = seen(table_number(pairs, pair, "ratio_lo"), table_number(pairs, pair, "ratio_hi"));
    double ratio = step_ratio(rows, dp, ddp); /* of the middle rounds, whose phases these are */
    if (measured_on_soft(view->results) || !(what == SEEN_ABOVE ? ratio > 1 : what == SEEN_BELOW && ratio < 1))
        return;
    if (say_because(rows, dp, ddp, 1, " In the middle round ", to))
        putc('.', to->out);
}

static bool is_unsteady(const struct view *view, int n)
{
    const struct table *rows = &view->results->rows;
    return row_spread(rows, view_row(view, "dp", n, false)) > UNSTEADY ||
           row_spread(rows, view_row(view, "ddp", n, false)) > UNSTEADY;
}

void say_headline_times(const struct results *results, const struct speaker *to)
{
    struct view views[VIEWS_MAX];
    int count = views_make(results, views), found = 0;
    char head[80];
    snprintf(head, sizeof head, "Measured here, on %s.", devices_measured(results));
    for (int v = 0; v < count; v++) {
        int n = view_largest(&views[v], true), pair = view_pair(&views[v], n, "dp", "ddp");
        if (!views[v].workload->timed || n < 2 || pair < 0)
            continue;
        if (!found++)
            sentence_begin(to, head);
        fprintf(to->out, "%s%s%s on %d devices: ", found > 1 ? " " : "", views[v].workload->name,
                weak_note(views[v].scaling), n);
        say_faster(&views[v], pair, to);
        enum seen what =
            seen(table_number(&results->pairs, pair, "ratio_lo"), table_number(&results->pairs, pair, "ratio_hi"));
        if ((what == SEEN_ABOVE || what == SEEN_BELOW) && is_unsteady(&views[v], n))
            fputs(" Its steps scatter too much to build on.", to->out);
        say_measured_why(&views[v], n, pair, to);
    }
    if (!found) {
        sentence_begin(to, head);
        fputs("DP and DDP were not timed side by side on two devices or more with cores of their own: no claim.",
              to->out);
    }
    if (measured_on_soft(results))
        fputs(" Soft GPUs have no links: what DP sends through device 0 costs little here.", to->out);
    sentence_end(to);
}
