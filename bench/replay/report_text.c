/* SPDX-License-Identifier: MIT
 *
 * The replay on a terminal.
 */
#include <inttypes.h>
#include <math.h>

#include "report.h"

#define MIB 1048576.0

/* The tables that answer for the collectives of the run, each once; how many. */
static int tables_of(const struct report *report, const struct collective_table *tables[COLLECTIVE_OPERATIONS])
{
    const struct machine *machine = report->machine;
    const struct program *program = report->study->by_rank[0];
    int ranks = report->gpus > machine->devices ? machine->devices : report->gpus, count = 0;
    bool seen[COLLECTIVE_OPERATIONS + 1] = {false};
    for (uint32_t i = 0; i < program->collective_count; i++)
        seen[collective_operation_of(program->collectives[i].operation)] = true;
    for (int operation = 0; operation < COLLECTIVE_OPERATIONS; operation++) {
        const struct collective_table *table = collective_table(machine, report->question->play.what_if.no_p2p,
                                                                (enum collective_operation)operation, ranks);
        bool named = !seen[operation] || !table;
        for (int i = 0; i < count; i++)
            named = named || tables[i] == table;
        if (!named)
            tables[count++] = table;
    }
    return count;
}

static void say_collectives(const struct report *report, FILE *out)
{
    const struct collective_table *tables[COLLECTIVE_OPERATIONS];
    if (isnan(report->alpha_beta_ms))
        return;
    int count = tables_of(report, tables);
    fprintf(out, "collectives    %.3f ms a step", report->summary.collective_ms);
    for (int i = 0; i < count; i++)
        fprintf(out, "%s %s on %d ranks%s", i ? " and" : ", from", collective_names[tables[i]->operation],
                tables[i]->ranks, tables[i]->host ? " through the host" : "");
    fprintf(out, "\nalpha-beta     %.3f ms a step by latency + n/B", report->alpha_beta_ms);
    for (int i = 0; i < count; i++)
        fprintf(out, "%s %.1f %% in the mean, %.1f %% at worst%s",
                i            ? ";"
                : count == 1 ? " (off that table by"
                             : " (off those tables by",
                100 * tables[i]->alpha_beta.error_mean, 100 * tables[i]->alpha_beta.error_worst,
                i + 1 == count ? ")" : "");
    fprintf(out, "\n");
}

static void say_devices(const struct report *report, FILE *out)
{
    const struct play_result *result = report->result;
    int shown = result->devices < 16 ? result->devices : 16;
    double steps = result->steps ? result->steps : 1;
    for (int d = 0; d < shown && result->makespan_ps; d++) {
        const struct play_device *device = &result->device[d];
        fprintf(out, "device %-3d     computing %5.1f %%, collectives %5.1f %%, sent %.3f, received %.3f MiB a step\n",
                d, 100 * (double)device->engine.busy_ps / (double)result->makespan_ps,
                100 * (double)device->collective_ps / (double)result->makespan_ps, device->sent / MIB / steps,
                device->received / MIB / steps);
    }
    if (shown < result->devices)
        fprintf(out, "               ... %d more\n", result->devices - shown);
}

/* Bytes of a pair of devices; of one device to all others where pairs are not kept (play_links.c). */
static void say_busiest(const struct summary *summary, FILE *out)
{
    if (summary->busiest_from >= 0)
        fprintf(out, "busiest pair   %d to %d: %.3f MiB a step\n", summary->busiest_from, summary->busiest_to,
                summary->busiest_link_mib);
    else if (summary->busiest_link_mib > 0)
        fprintf(out, "busiest device sends %.3f MiB a step\n", summary->busiest_link_mib);
    else
        fprintf(out, "busiest pair   none: no bytes between devices\n");
}

/* What has to be known before the figures are read. */
static void say_conditions(const struct report *report, FILE *out)
{
    if (report->question->play.launch_lock_s > 0)
        fprintf(out, "emulation      a launch lock of %.10g us: no CUDA program in C has one\n",
                report->question->play.launch_lock_s * 1e6);
    if (report->machine->own_work > 0)
        fprintf(out,
                "rests on       times measured in the record: %.3f ms a step of a host thread's own work (own_work = "
                "%.10g); another record of the same command has other times\n",
                report->summary.own_work_ms, report->machine->own_work);
    if (!report->fits)
        fprintf(out, "memory         does not fit: a device of this machine has %.0f MiB\n",
                report->machine->memory_bytes / MIB);
    if (report->missing_type)
        fprintf(out, "products       in %s: the machine file has no rate for it, fp32's is used\n",
                report->missing_type);
}

void report_screen(const struct report *report, FILE *out)
{
    const struct summary *summary = &report->summary;
    const struct program *program = report->study->by_rank[0];
    fprintf(out, "modelled on    %s (%s)\n", report->machine->name, report->machine->description);
    fprintf(out, "run            %s, %s, %d devices%s%s\n", program_setting(program, "strategy", "unknown strategy"),
            program_setting(program, "model", "unknown model"), report->gpus, report->variant[0] ? ", " : "",
            report->variant);
    say_conditions(report, out);
    fprintf(out, "step           %.3f ms (%s of %d)\n", summary->step_ms, summary->steps ? "median" : "all the record",
            summary->steps);
    if (!isnan(report->global_batch) && summary->step_ms > 0)
        fprintf(out, "throughput     %.1f samples/s\n", report->global_batch / summary->step_ms * 1e3);
    if (summary->slowest_device != NOBODY_SLOWEST) {
        fprintf(out, "slowest device %d:", summary->slowest_device);
        for (int p = 0; p < PLAY_PHASES; p++)
            if (summary->phase_ms[p] > 0)
                fprintf(out, " %s %.3f", play_phase_names[p], summary->phase_ms[p]);
        fprintf(out, " ms\n");
        fprintf(out, "moving bytes   %.3f ms exposed, %.3f ms hidden behind computing\n", summary->exposed_ms,
                summary->hidden_ms);
    }
    say_devices(report, out);
    say_busiest(summary, out);
    say_collectives(report, out);
    fprintf(out, "bottleneck     %s\n", summary->bottleneck);
}
