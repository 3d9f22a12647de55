/* SPDX-License-Identifier: MIT
 *
 * What the modelled band says in words (explain.h): who is faster on each machine, and which phases make the
 * difference. All of it from the rows; a cell that is missing or failed is left out of the sentence.
 */
#include <math.h>
#include <string.h>

#include "explain.h"
#include "text.h"

/* How far off the model may be where it is good: docs/fidelity.md, half of its predictions. What is no further from 1,
 * as printed with two digits, has no winner. */
#define MODEL_ERROR 0.05
#define HALF_DIGIT 0.005
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
    {"backward_ms", "the backward pass (copies into and out of buckets included)"},
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

double step_ratio(const struct table *rows, int dp, int ddp)
{
    return number(rows, dp, "step_ms") / number(rows, ddp, "step_ms");
}

bool modelled_winner(double ratio)
{
    return fmax(ratio, 1 / ratio) >= 1 + MODEL_ERROR + HALF_DIGIT;
}

bool say_because(const struct table *rows, int dp, int ddp, int most, const char *lead, const struct speaker *to)
{
    bool ddp_wins = step_ratio(rows, dp, ddp) > 1;
    int slow = ddp_wins ? dp : ddp, fast = ddp_wins ? ddp : dp, count = 0;
    double least = NAMED_SHARE * (number(rows, slow, "step_ms") - number(rows, fast, "step_ms")), more[NAMED_PHASES] = {0};
    size_t named[NAMED_PHASES] = {0};
    bool said[PHASES] = {false};
    while (count < most && count < NAMED_PHASES) {
        named[count] = next_phase(rows, slow, fast, said, least, &more[count]);
        if (named[count] == PHASES)
            break;
        said[named[count++]] = true;
    }
    for (int i = 0; i < count; i++) {
        if (i == 0)
            fprintf(to->out, "%s%s, of %.3g ms a step, spends", lead, ddp_wins ? "DP" : "DDP",
                    number(rows, slow, "step_ms"));
        fprintf(to->out, "%s %.3g ms more on %s",
                i == 0          ? ""
                : i + 1 < count ? ","
                                : " and",
                more[i], phases[named[i]].words);
    }
    return count > 0;
}

void say_modelled_pair(const struct table *rows, int dp, int ddp, const struct speaker *to)
{
    double ratio = step_ratio(rows, dp, ddp);
    bool ddp_wins = ratio > 1;
    if (modelled_winner(ratio)) {
        fprintf(to->out, "%s is modelled %.2f times as fast as %s", ddp_wins ? "DDP" : "DP",
                ddp_wins ? ratio : 1 / ratio, ddp_wins ? "DP" : "DDP");
        say_because(rows, dp, ddp, NAMED_PHASES, ", because ", to);
    } else {
        fprintf(to->out, "no winner: DP's step / DDP's is modelled %.2f, and the model may be off by %.0f %%", ratio,
                100 * MODEL_ERROR);
    }
    double dp_speedup = table_number(rows, dp, "speedup"), ddp_speedup = table_number(rows, ddp, "speedup");
    if (isfinite(dp_speedup) && isfinite(ddp_speedup))
        fprintf(to->out, " (speed-up over one device: DP %.2f, DDP %.2f)", dp_speedup, ddp_speedup);
    putc('.', to->out);
}

bool find_modelled_pair(const struct results *results, const struct workload *workload,
                        const struct modelled_machine *machine, bool lock, int *dp, int *ddp)
{
    struct modelled_cell cell = {workload, machine, "dp", machine->devices, lock};
    if (!workload->modelled_batch)
        return false;
    *dp = modelled_ok(results, &cell);
    cell.strategy = "ddp";
    *ddp = modelled_ok(results, &cell);
    return *dp >= 0 && *ddp >= 0;
}

void say_machine(const struct results *results, const struct modelled_machine *machine, const struct speaker *to)
{
    bool found = false;
    int dp, ddp;
    for (int w = 0; w < workload_count; w++) {
        if (!find_modelled_pair(results, &workloads[w], machine, false, &dp, &ddp))
            continue;
        if (!found) {
            sentence_begin(to, "Modelled");
            fprintf(to->out, "on %s (band 2 says how far to trust it).", machine->title);
        }
        found = true;
        fprintf(to->out,
                to->manner == MANNER_ITEM ? "<br><i>%s</i>, %zu samples per device, N = %d: "
                                          : " %s, %zu samples per device, N = %d: ",
                workloads[w].name, workloads[w].modelled_batch, machine->devices);
        say_modelled_pair(&results->modelled, dp, ddp, to);
    }
    if (found)
        sentence_end(to);
}

void say_lock(const struct results *results, const struct modelled_machine *machine, const struct speaker *to)
{
    const struct table *rows = &results->modelled;
    bool found = false;
    for (int w = 0; w < workload_count; w++) {
        int dp, ddp, slow_dp, slow_ddp;
        if (!find_modelled_pair(results, &workloads[w], machine, false, &dp, &ddp) ||
            !find_modelled_pair(results, &workloads[w], machine, true, &slow_dp, &slow_ddp))
            continue;
        if (!found) {
            sentence_begin(to, "A launch lock");
            fprintf(to->out,
                    "(emulation, modelled on %s: launches of one process wait for each other and take %d us longer, as "
                    "under an interpreter; CUDA programs in C have none). A step on %d devices takes longer by:",
                    machine->title, MODELLED_LOCK_US, machine->devices);
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

void say_not_modelled(const struct results *results, const struct speaker *to)
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
    speak_text(to, table_get(rows, first, "reason"));
    putc('.', to->out);
    sentence_end(to);
}
