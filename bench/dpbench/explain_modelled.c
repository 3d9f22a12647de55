/* SPDX-License-Identifier: MIT
 *
 * What the modelled band says in words (explain.h): who is faster on each machine, and which phases make the
 * difference. All of it from the rows; a cell that is missing or failed is left out of the sentence.
 */
#include <math.h>
#include <string.h>

#include "explain.h"
#include "modelled.h"
#include "text.h"

/* Ratios nearer to 1 are no difference that a model can tell. */
#define TOLD 0.02
/* A phase is named if it makes so much of the difference, and at most so many are. */
#define NAMED_SHARE 0.15
#define NAMED_PHASES 3

static const struct phase {
    const char *column, *words;
} phases[] = {
    {"gather_ms", "gathering the outputs on device 0 and handing their gradient back"},
    {"replicate_ms", "sending the parameters to every device"},
    {"reduce_ms", "reducing the gradients onto device 0"},
    {"loss_ms", "the loss of the whole batch on device 0"},
    {"allreduce_exposed_ms", "all-reduce that the backward pass does not hide"},
    {"scatter_ms", "scattering the batch"},
    {"wait_ms", "waiting for other devices"},
    {"forward_ms", "the forward pass"},
    {"backward_ms", "the backward pass (copies into buckets included)"},
    {"update_ms", "the update"},
    {"host_ms", "the host"},
};
#define PHASES (sizeof phases / sizeof *phases)

static double number(const struct table *rows, int row, const char *column)
{
    double value = table_number(rows, row, column);
    return isfinite(value) ? value : 0;
}

/* The phase that the slower one spends most more in, of those not yet said, if it is more than `least` ms; PHASES:
 * none.
 */
static size_t next_phase(const struct table *rows, int slow, int fast, const bool said[PHASES], double least,
                         double *more)
{
    size_t best = PHASES;
    *more = least;
    for (size_t p = 0; p < PHASES; p++) {
        double difference = number(rows, slow, phases[p].column) - number(rows, fast, phases[p].column);
        if (!said[p] && difference > *more) {
            *more = difference;
            best = p;
        }
    }
    return best;
}

/* ", because DP, of 330 ms a step, spends 193 ms more on ...": the largest first. */
static void say_because(const struct table *rows, int slow, int fast, const char *name, const struct speaker *to)
{
    double least = NAMED_SHARE * (number(rows, slow, "step_ms") - number(rows, fast, "step_ms")), more[NAMED_PHASES];
    size_t named[NAMED_PHASES];
    bool said[PHASES] = {false};
    int count = 0;
    while (count < NAMED_PHASES) {
        named[count] = next_phase(rows, slow, fast, said, least, &more[count]);
        if (named[count] == PHASES)
            break;
        said[named[count++]] = true;
    }
    for (int i = 0; i < count; i++) {
        if (i == 0)
            fprintf(to->out, ", because %s, of %.3g ms a step, spends", name, number(rows, slow, "step_ms"));
        fprintf(to->out, "%s %.3g ms more on %s",
                i == 0          ? ""
                : i + 1 < count ? ","
                                : " and",
                more[i], phases[named[i]].words);
    }
}

static void say_pair(const struct table *rows, int dp, int ddp, const struct modelled_cell *cell,
                     const struct speaker *to)
{
    double ratio = number(rows, dp, "step_ms") / number(rows, ddp, "step_ms");
    fprintf(to->out,
            to->html ? "<br><i>%s</i>, %zu samples per device, N = %d: " : " %s, %zu samples per device, N = %d: ",
            cell->workload->name, cell->workload->modelled_batch, cell->gpus);
    if (fabs(ratio - 1) < TOLD) {
        fprintf(to->out, "no difference that the model could tell (DP's step / DDP's %.2f).", ratio);
        return;
    }
    bool ddp_wins = ratio > 1;
    fprintf(to->out, "%s is modelled %.2f times as fast as %s", ddp_wins ? "DDP" : "DP", ddp_wins ? ratio : 1 / ratio,
            ddp_wins ? "DP" : "DDP");
    say_because(rows, ddp_wins ? dp : ddp, ddp_wins ? ddp : dp, ddp_wins ? "DP" : "DDP", to);
    double dp_speedup = table_number(rows, dp, "speedup"), ddp_speedup = table_number(rows, ddp, "speedup");
    if (isfinite(dp_speedup) && isfinite(ddp_speedup))
        fprintf(to->out, " (speed-up over one device: DP %.2f, DDP %.2f)", dp_speedup, ddp_speedup);
    putc('.', to->out);
}

/* The pair on all devices of the machine; false: one of them is missing. */
static bool find_pair(const struct results *results, const struct workload *workload,
                      const struct modelled_machine *machine, bool lock, int *dp, int *ddp, struct modelled_cell *cell)
{
    *cell = (struct modelled_cell){workload, machine, "dp", machine->devices, lock};
    *dp = modelled_ok(results, cell);
    cell->strategy = "ddp";
    *ddp = modelled_ok(results, cell);
    return *dp >= 0 && *ddp >= 0;
}

static void say_machine(const struct results *results, const struct modelled_machine *machine, const struct speaker *to)
{
    struct modelled_cell cell;
    bool found = false;
    int dp, ddp;
    for (int w = 0; w < workload_count; w++) {
        if (!workloads[w].modelled_batch || !find_pair(results, &workloads[w], machine, false, &dp, &ddp, &cell))
            continue;
        if (!found) {
            sentence_begin(to, "Modelled");
            fprintf(to->out, "on %s (band 2 says how far to trust it).", machine->title);
        }
        found = true;
        say_pair(&results->modelled, dp, ddp, &cell, to);
    }
    if (found)
        sentence_end(to);
}

static void say_lock(const struct results *results, const struct modelled_machine *machine, const struct speaker *to)
{
    const struct table *rows = &results->modelled;
    struct modelled_cell cell;
    bool found = false;
    for (int w = 0; w < workload_count; w++) {
        int dp, ddp, slow_dp, slow_ddp;
        if (!workloads[w].modelled_batch || !find_pair(results, &workloads[w], machine, false, &dp, &ddp, &cell) ||
            !find_pair(results, &workloads[w], machine, true, &slow_dp, &slow_ddp, &cell))
            continue;
        if (!found) {
            sentence_begin(to, "A launch lock");
            fprintf(to->out,
                    "(emulation, modelled on %s: launches of one process wait for each other and take %d us longer, as "
                    "under an interpreter; CUDA programs in C have none). A step on %d devices takes longer by:",
                    machine->name, MODELLED_LOCK_US, machine->devices);
        }
        fprintf(to->out, "%s %s %.0f %% with DP, %.0f %% with DDP", found ? ";" : "", workloads[w].name,
                100 * (number(rows, slow_dp, "step_ms") / number(rows, dp, "step_ms") - 1),
                100 * (number(rows, slow_ddp, "step_ms") / number(rows, ddp, "step_ms") - 1));
        found = true;
    }
    if (found) {
        fputs(". DP launches for all devices from one process, DDP from one each.", to->out);
        sentence_end(to);
    }
}

static void say_left_out(const struct results *results, const struct speaker *to)
{
    const struct table *rows = &results->modelled;
    int count = 0, first = -1;
    for (int row = 0; row < rows->row_count; row++)
        if (!text_is(table_get(rows, row, "status"), "ok")) {
            count++;
            first = first < 0 ? row : first;
        }
    if (first < 0)
        return;
    sentence_begin(to, "Not modelled:");
    if (*table_get(rows, first, "model"))
        fprintf(to->out, "%d of %d cells; first: %s, %s on %s of %s: ", count, rows->row_count,
                table_get(rows, first, "model"), table_get(rows, first, "strategy"), table_get(rows, first, "gpus"),
                table_get(rows, first, "machine"));
    if (to->html)
        text_html(to->out, table_get(rows, first, "reason"));
    else
        fputs(table_get(rows, first, "reason"), to->out);
    putc('.', to->out);
    sentence_end(to);
}

void say_modelled(const struct results *results, const struct speaker *to)
{
    for (int m = 0; m < modelled_machine_count; m++)
        say_machine(results, &modelled_machines[m], to);
    for (int m = 0; m < modelled_machine_count; m++)
        say_lock(results, &modelled_machines[m], to);
    say_left_out(results, to);
}
