/* SPDX-License-Identifier: MIT
 *
 * Asking the trainers for the largest batch (largest.h).
 */
#include "largest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "process.h"
#include "record.h"
#include "sys/exit_codes.h"
#include "text.h"

#define MIB 1048576.0
#define MAX_ARGUMENTS 32

static const char *const strategies[] = {"dp", "ddp"};

static int find_row(const struct results *results, const struct workload *workload, const char *strategy)
{
    const struct table *table = &results->largest;
    for (int row = 0; row < table->row_count; row++)
        if (text_is(table_get(table, row, "model"), workload->model) &&
            text_is(table_get(table, row, "strategy"), strategy))
            return row;
    return -1;
}

int largest_find(const struct results *results, const struct workload *workload, const char *strategy)
{
    int row = find_row(results, workload, strategy);
    return row >= 0 && text_is(table_get(&results->largest, row, "status"), "ok") ? row : -1;
}

static int ask(const struct settings *settings, const struct workload *workload, const char *strategy, const char *json,
               struct process_result *result)
{
    bool is_ddp = text_is(strategy, "ddp");
    char *program = text_format("%s/%s", settings->programs, is_ddp ? "ddp-train" : "dp-train");
    char *log = text_format("%s/runs/largest-%s-%s.log", settings->out, workload->name, strategy);
    char *gpus = text_format("%d", workload->shape_gpus);
    const char *argv[MAX_ARGUMENTS] = {program,         "--gpus", gpus,           "--model",
                                       workload->model, "--data", workload->data, "--device",
                                       "soft",          "--json", json,           "--find-batch"};
    int n = 12;
    for (int i = 0; workload->arguments[i]; i++)
        argv[n++] = workload->arguments[i];
    unlink(json); /* of a sweep that was interrupted */
    int rc = process_run(argv, log, settings->run_timeout, result);
    free(gpus);
    free(log);
    free(program);
    return rc;
}

static const cJSON *find_answer(const struct record *record)
{
    for (int i = 0; i < record->count; i++)
        if (record_is(record->lines[i], "find_batch"))
            return record->lines[i];
    return NULL;
}

/* Numbers of the answer; those in bytes become columns in MiB. */
static void fill(struct table *table, int row, const cJSON *answer)
{
    static const char *const counts[] = {"batch_per_gpu", "global_batch", "fullest_device"};
    static const char *const bytes[] = {"device",      "total",   "parameters",    "gradients", "optimizer",
                                        "activations", "outputs", "communication", "data"};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        table_set_number(table, row, counts[i], record_number(answer, counts[i]));
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        char member[40], column[40];
        snprintf(member, sizeof member, "%s_bytes", bytes[i]);
        snprintf(column, sizeof column, "%s_mib", bytes[i]);
        table_set_number(table, row, column, record_number(answer, member) / MIB);
    }
}

static void add_row(struct table *table, const struct workload *workload, const char *strategy, const char *json,
                    const struct process_result *result)
{
    int row = table_add_row(table);
    table_set(table, row, "model", "%s", workload->model);
    table_set(table, row, "data", "%s", workload->data);
    table_set(table, row, "gpus", "%d", workload->shape_gpus);
    table_set(table, row, "strategy", "%s", strategy);
    struct record record = {0};
    bool read = result->exit_code == EXIT_OK && !result->timed_out && record_read(&record, json) == EXIT_OK;
    const cJSON *answer = read ? find_answer(&record) : NULL;
    bool good = answer && record_number(answer, "batch_per_gpu") > 0;
    if (good) {
        fill(table, row, answer);
    } else if (result->exit_code) {
        char reason[450];
        process_describe_end(result, "", reason, sizeof reason);
        table_set(table, row, "reason", "%s", reason);
    } else {
        table_set(table, row, "reason", "the trainer gave no largest batch");
    }
    table_set(table, row, "status", good ? "ok" : "failed");
    record_free(&record);
}

static bool is_failed(const struct table *table, int row, void *context)
{
    (void)context;
    return !text_is(table_get(table, row, "status"), "ok");
}

int largest_run(const struct settings *settings, struct results *results, int *interrupted)
{
    bool changed = false;
    table_remove(&results->largest, is_failed, NULL);
    for (int w = 0; w < workload_count; w++)
        for (int s = 0; s < 2 && (settings->workloads >> w & 1U) && workloads[w].shape_gpus; s++) {
            if (!(s ? settings->ddp : settings->dp) || largest_find(results, &workloads[w], strategies[s]) >= 0)
                continue;
            char *json = text_format("%s/runs/largest-%s-%s.jsonl", settings->out, workloads[w].name, strategies[s]);
            struct process_result result;
            int rc = ask(settings, &workloads[w], strategies[s], json, &result);
            *interrupted = result.interrupted ? result.interrupted : process_pending_signal();
            if (!rc && !*interrupted)
                add_row(&results->largest, &workloads[w], strategies[s], json, &result);
            free(json);
            if (rc || *interrupted)
                return rc;
            changed = true;
        }
    return changed ? results_write(results, settings->out) : EXIT_OK;
}
