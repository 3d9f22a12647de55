/* SPDX-License-Identifier: MIT
 *
 * The file of --json (docs/output.md), written whole at the end: a run that was killed leaves no half a file.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "config.h"
#include "gpu/backend.h"
#include "gpu/memory.h"
#include "run/engine.h"
#include "run/json_line.h"
#include "sys/exit_codes.h"
#include "sys/file.h"
#include "sys/log.h"

#define MIB 1048576.0

/* The columns that tell what was run: in the header and in the summary. */
static void write_configuration(FILE *out, const struct engine *engine)
{
    const struct options *options = engine->options;
    char *variant = options_variant(options);

    json_text(out, "backend", gpu_backend_name());
    json_text(out, "device", engine->device_name[0] ? engine->device_name : NULL);
    json_text(out, "strategy", options->strategy);
    json_text(out, "variant", variant ? variant : "");
    json_text(out, "model", options->model);
    json_text(out, "precision", options->precision);
    json_text(out, "optimizer", options_optimizer_name(options));
    json_text(out, "data", options->data);
    json_integer(out, "gpus", options->gpus);
    json_number(out, "cores_per_device", engine->cores_per_device ? engine->cores_per_device : NAN);
    json_unsigned(out, "global_batch", options->global_batch);
    json_unsigned(out, "batch_per_gpu", options->batch_per_gpu);
    json_integer(out, "accumulate", options->accumulate);
    json_number(out, "params", engine->model.parameter_elements ? (double)engine->model.parameter_elements : NAN);
    json_unsigned(out, "seed", options->seed);
    free(variant);
}

static void write_header(FILE *out, const struct engine *engine)
{
    char host[256] = "", when[32];
    time_t now = time(NULL);
    struct tm utc;

    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '\0';
    gmtime_r(&now, &utc);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    json_begin(out, "header");
    json_text(out, "program", engine->options->program);
    json_text(out, "version", PROJECT_VERSION);
    json_text(out, "host", host);
    json_text(out, "time", when);
    write_configuration(out, engine);
    json_end(out);
}

static void write_steps(FILE *out, const struct engine *engine, const struct results *results)
{
    for (int step = 0; step < engine->row_count; step++) {
        json_begin(out, "step");
        json_integer(out, "step", step);
        json_number(out, "ms", results_step_ms(results, engine, step));
        json_number(out, "loss", results_step_loss(results, engine, step));
        json_end(out);
    }
}

static void write_device(FILE *out, const struct engine *engine, const struct results *results,
                         const struct device_row *device)
{
    char name[48];

    json_begin(out, "device");
    json_integer(out, "device", device->position);
    json_integer(out, "rank", device->rank);
    json_text(out, "cores", device->cpuset[0] ? device->cpuset : NULL);
    json_number(out, "mem_peak_mib", (double)device->peak_total / MIB);
    for (int category = 0; category < MEMORY_CATEGORIES; category++) {
        snprintf(name, sizeof name, "mem_%s_mib", memory_category_name((enum memory_category)category));
        json_number(out, name, (double)device->peak[category] / MIB);
    }
    json_number(out, "util", device_utilization(device));
    json_number(out, "busy_ms", device->step_s > 0 ? device->busy_s * 1e3 / engine->row_count : NAN);
    json_number(out, "sent_mib", ledger_sent(&results->ledger, device->position) / MIB);
    json_number(out, "received_mib", ledger_received(&results->ledger, device->position) / MIB);
    json_end(out);
}

static void write_ledger(FILE *out, const struct ledger *ledger)
{
    for (size_t i = 0; i < ledger->count && ledger->steps; i++) {
        const struct ledger_entry *entry = &ledger->entries[i];
        double bytes = (double)entry->bytes / (double)ledger->steps;
        json_begin(out, "traffic");
        json_text(out, "phase", entry->phase < PHASES ? phase_name((enum phase)entry->phase) : NULL);
        json_integer(out, "from", entry->from);
        json_integer(out, "to", entry->to);
        json_number(out, "mib", bytes / MIB);
        json_number(out, "bytes", bytes);
        json_end(out);
    }
    for (int phase = 0; phase < PHASES && ledger->steps; phase++) {
        double counted = (double)ledger_counted(ledger, phase) / (double)ledger->steps;
        if (ledger->formula[phase] == 0)
            continue;
        json_begin(out, "formula");
        json_text(out, "phase", phase_name((enum phase)phase));
        json_number(out, "counted", ledger->counted ? counted : NAN);
        json_unsigned(out, "formula", ledger->formula[phase]);
        json_end(out);
    }
}

/* The batch, and the bytes on the device that holds most at it. */
static void write_found_batch(FILE *out, const struct engine *engine, const struct results *results)
{
    const struct device_row *fullest = fullest_device(results);
    char name[48];

    json_begin(out, "find_batch");
    json_unsigned(out, "batch_per_gpu", engine->found_batch);
    json_unsigned(out, "global_batch", engine->options->global_batch);
    json_unsigned(out, "device_bytes", engine->device_bytes);
    json_integer(out, "fullest_device", fullest->position);
    json_unsigned(out, "total_bytes", fullest->peak_total);
    for (int category = 0; category < MEMORY_CATEGORIES; category++) {
        snprintf(name, sizeof name, "%s_bytes", memory_category_name((enum memory_category)category));
        json_unsigned(out, name, fullest->peak[category]);
    }
    json_end(out);
}

static double formula_mib(const struct ledger *ledger)
{
    double bytes = 0;

    for (int phase = 0; phase < PHASES; phase++)
        bytes += (double)ledger->formula[phase];
    return bytes / MIB;
}

static void write_measured(FILE *out, const struct engine *engine, const struct results *results)
{
    const struct ledger *ledger = &results->ledger;
    struct summary summary;
    char name[48];

    results_summarize(&summary, results, engine);
    json_number(out, "step_ms", summary.step_ms);
    json_number(out, "step_ms_mad", summary.step_ms_mad);
    json_number(out, "step_ms_p95", summary.step_ms_p95);
    json_number(out, "samples_per_s", summary.samples_per_s);
    for (int phase = 0; phase < PHASES; phase++) {
        snprintf(name, sizeof name, "%s_ms", phase_name((enum phase)phase));
        json_number(out, name, summary.phase_ms[phase]);
    }
    json_number(out, "comm_hidden_ms", summary.communication_hidden_ms);
    json_number(out, "mem_peak_mib", summary.peak_mib);
    json_number(out, "mem_device0_mib", summary.device0_mib);
    json_number(out, "mem_median_others_mib", summary.median_others_mib);
    json_number(out, "mem_imbalance", summary.imbalance);
    json_number(out, "util_mean", summary.util_mean);
    json_number(out, "util_device0", summary.util_device0);
    json_number(out, "comm_mib", ledger->steps ? ledger_total(ledger) / MIB : NAN);
    json_number(out, "comm_mib_formula", ledger->steps ? formula_mib(ledger) : NAN);
    json_number(out, "busiest_link_mib",
                ledger->steps ? ledger_busiest_link(ledger, engine->options->gpus) / MIB : NAN);
    json_text(out, "comm_source", ledger->counted ? "counted" : "derived");
    json_number(out, "loss_first", summary.loss_first);
    json_number(out, "loss_last", summary.loss_last);
    json_text(out, "oversubscribed", summary.oversubscribed ? "yes" : "no");
    if (results->evaluated) {
        const struct evaluation *evaluation = &results->evaluation;
        json_unsigned(out, "test_samples", evaluation->samples);
        json_unsigned(out, "test_correct", evaluation->correct);
        double targets = (double)evaluation->samples * (double)engine->model.targets;
        json_number(out, "test_accuracy", (double)evaluation->correct / targets);
        json_number(out, "test_loss", evaluation->loss_sum / targets);
    }
}

static const char *status_name(int status)
{
    if (status == EXIT_OK)
        return "ok";
    if (status == EXIT_TIME_LIMIT)
        return "time_limit";
    return status == EXIT_RESOURCE && memory_was_refused() ? "out_of_memory" : "failed";
}

static void write_summary(FILE *out, const struct engine *engine, const struct results *results, int status)
{
    char text[32];

    json_begin(out, "summary");
    write_configuration(out, engine);
    json_integer(out, "steps", engine->row_count);
    json_integer(out, "skipped_steps", engine->skipped);
    if (results && engine->scaled) {
        json_integer(out, "overflowed_steps", results->control.skipped);
        json_number(out, "loss_scale", (double)results->control.loss_scale);
    }
    if (results)
        write_measured(out, engine, results);
    snprintf(text, sizeof text, "%016" PRIx64, engine->checksum);
    json_text(out, "checksum", engine->verified ? text : NULL);
    json_text(out, "status", status_name(status));
    json_text(out, "reason", status ? log_last_error() : "");
    json_end(out);
}

int report_json(const struct engine *engine, const struct results *results, int status)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (!out) {
        log_error("%s: no memory for the report", engine->options->json);
        return EXIT_RESOURCE;
    }
    write_header(out, engine);
    if (results) {
        write_steps(out, engine, results);
        if (engine->found_batch)
            write_found_batch(out, engine, results);
        for (size_t i = 0; i < results->device_count; i++)
            write_device(out, engine, results, &results->devices[i]);
        write_ledger(out, &results->ledger);
    }
    write_summary(out, engine, results, status);
    bool complete = fclose(out) == 0;
    if (!complete)
        log_error("%s: no memory for the report", engine->options->json);
    int written = complete ? file_write_output(engine->options->json, text, size) : EXIT_RESOURCE;
    free(text);
    return written;
}
