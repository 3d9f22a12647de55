/* SPDX-License-Identifier: MIT
 *
 * The order of a sweep (sweep.h). A run's file is whole or absent: the trainer writes ID.rN.part, the sweep adds its
 * line and renames. So a sweep that is killed anywhere goes on at the first run that has no file.
 */
#include "sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "device.h"
#include "folder.h"
#include "largest.h"
#include "modelled.h"
#include "plan.h"
#include "process.h"
#include "progress.h"
#include "report.h"
#include "results.h"
#include "sys/exit_codes.h"
#include "sys/file.h"
#include "sys/log.h"
#include "text.h"

struct sweep {
    const struct settings *settings;
    struct plan plan;
    struct results results;
    struct progress progress;
    char run_id[sizeof((struct settings *)0)->run_id];
    int interrupted; /* signal, or 0 */
};

/* What the trainer's exit code and summary make of a run. */
static const char *run_status(const struct process_result *result, const struct record *record)
{
    const char *said = record_text(record->summary, "status");
    if (result->timed_out || result->exit_code == EXIT_TIME_LIMIT)
        return "time_limit";
    if (result->exit_code != EXIT_OK)
        return *said && !text_is(said, "ok") ? said : "failed";
    return !text_is(said, "ok") ? "failed" : "ok";
}

static void run_reason(const struct process_result *result, const struct record *record, double limit, char *reason,
                       size_t size)
{
    const char *said = record_text(record->summary, "reason");
    if (result->timed_out)
        snprintf(reason, size, "not finished after %.0f s", limit);
    else if (!*said && result->exit_code == EXIT_OK)
        snprintf(reason, size, "exit code 0 without a summary");
    else
        process_describe_end(result, said, reason, size);
}

/* Adds the sweep's line to the trainer's file and gives it its final name. A trainer that died in the middle of a line
 * leaves it cut: what can be read no more is replaced by our line alone. */
static int close_run(struct sweep *sweep, const char *part, const char *path, int round,
                     const struct process_result *result)
{
    struct record record = {0};
    if (access(part, R_OK) == 0 && record_read(&record, part))
        unlink(part);
    const char *status = run_status(result, &record);
    cJSON *line = text_must(cJSON_CreateObject());
    cJSON_AddStringToObject(line, "type", "run");
    cJSON_AddNumberToObject(line, "round", round);
    cJSON_AddNumberToObject(line, "exit_code", result->exit_code);
    cJSON_AddNumberToObject(line, "seconds", result->seconds);
    cJSON_AddStringToObject(line, "status", status);
    char reason[600];
    run_reason(result, &record, sweep->settings->run_timeout, reason, sizeof reason);
    cJSON_AddStringToObject(line, "reason", !text_is(status, "ok") ? reason : "");
    char *text = text_must(cJSON_PrintUnformatted(line));
    FILE *file = fopen(part, "ae");
    bool written = file && fprintf(file, "%s\n", text) > 0 && fflush(file) == 0 && fsync(fileno(file)) == 0;
    if (file && fclose(file))
        written = false;
    if (!written || rename(part, path)) {
        log_error("%s: cannot be written: %s", path, strerror(errno));
        written = false;
    }
    cJSON_free(text);
    cJSON_Delete(line);
    record_free(&record);
    return written ? EXIT_OK : EXIT_RESOURCE;
}

#define MAX_ARGUMENTS 48
#define OWNED 7 /* strings made for them */

/* The trainer's command line for one run. Everything in *owned is freed by the caller. */
static void trainer_arguments(const struct sweep *sweep, const struct group *group, const struct cell *cell, int round,
                              const char *part, const char *argv[MAX_ARGUMENTS], char *owned[OWNED])
{
    const struct settings *settings = sweep->settings;
    bool is_ddp = text_is(cell->strategy, "ddp");
    int n = 0;
    owned[0] = text_format("%s/%s", settings->programs, is_ddp ? "ddp-train" : "dp-train");
    owned[1] = text_format("%d", cell->gpus);
    owned[2] = text_format("%zu", cell->global_batch);
    owned[3] = text_format("%d", group->steps);
    owned[4] = text_format("%s/runs/%s.gradients", settings->out, cell->id);
    owned[5] = text_format("%s", part);
    owned[6] = text_format("%d", sweep->plan.cores_per_device);
    const char *const common[] = {
        owned[0],
        "--gpus",
        owned[1],
        "--model",
        cell->workload->model,
        "--data",
        cell->workload->data,
        "--global-batch",
        owned[2],
        "--steps",
        owned[3],
        "--warmup",
        "3",
        "--seed",
        "1",
        "--device",
        cell->workload->shape_gpus ? "soft" : settings->device,
        "--json",
        owned[5],
        "--cores-per-device",
        owned[6],
    };
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        argv[n++] = common[i];
    for (int i = 0; cell->workload->arguments[i]; i++)
        argv[n++] = cell->workload->arguments[i];
    if (!is_ddp) {
        argv[n++] = "--strategy";
        argv[n++] = cell->strategy;
    }
    if (cell->no_overlap)
        argv[n++] = "--no-overlap";
    if (!cell->workload->shape_gpus)
        argv[n++] = "--checksum";
    if (round == 0 && !cell->workload->shape_gpus) {
        argv[n++] = "--save-gradients";
        argv[n++] = owned[4];
    }
    argv[n] = NULL;
}

static int run_trainer(struct sweep *sweep, const struct group *group, const struct cell *cell, int round,
                       const char *path)
{
    char *part = text_format("%s/runs/%s.r%d.part", sweep->settings->out, cell->id, round);
    char *log = text_format("%s/runs/%s.log", sweep->settings->out, cell->id);
    const char *argv[MAX_ARGUMENTS];
    char *owned[OWNED];
    trainer_arguments(sweep, group, cell, round, part, argv, owned);
    unlink(part);
    struct process_result result;
    int rc = process_run(argv, log, sweep->settings->run_timeout, &result);
    sweep->interrupted = result.interrupted ? result.interrupted : process_pending_signal();
    if (!rc && !result.interrupted)
        rc = close_run(sweep, part, path, round, &result);
    if (result.interrupted)
        unlink(part);
    for (int i = 0; i < OWNED; i++)
        free(owned[i]);
    free(log);
    free(part);
    return rc;
}

/* What one run found, for the one who waits. */
static void describe(const struct record *record, char *text, size_t size)
{
    double ms = record_number(record->summary, "step_ms"), rate = record_number(record->summary, "samples_per_s");
    const char *status = record_text(record->run, "status");
    if (!text_is(status, "ok"))
        snprintf(text, size, "%s: %s", status, record_text(record->run, "reason"));
    else if (!isfinite(ms))
        snprintf(text, size, "shape only: device 0 needs %.0f MiB", record_number(record->summary, "mem_device0_mib"));
    else
        snprintf(text, size, "%.2f ms a step, %.0f samples/s", ms, rate);
}

/* Runs a cell once, or takes what an earlier sweep of this folder has left. */
static int measure(struct sweep *sweep, const struct group *group, struct measured *measured, int round)
{
    const struct cell *cell = measured->cell;
    char *path = text_format("%s/runs/%s.r%d.jsonl", sweep->settings->out, cell->id, round);
    char what[128];
    snprintf(what, sizeof what, "%s round %d", cell->id, round + 1);
    bool kept = access(path, F_OK) == 0;
    progress_next(&sweep->progress, what);
    int rc = kept ? EXIT_OK : run_trainer(sweep, group, cell, round, path);
    struct record record = {0};
    if (!rc && !(sweep->interrupted && access(path, F_OK))) {
        rc = record_read(&record, path);
        if (!rc) {
            char result[700];
            describe(&record, result, sizeof result);
            progress_done(&sweep->progress, what, result, kept ? -1 : record_number(record.run, "seconds"));
            measured_add(measured, &record);
        }
    }
    free(path);
    return rc;
}

static bool group_finished(const struct sweep *sweep, const struct group *group)
{
    for (int c = 0; c < group->cell_count; c++)
        if (results_find(&sweep->results.rows, 0, &group->cells[c]) < 0)
            return false;
    return true;
}

/* Files of gradients are large and have served once the group is proven. */
static void remove_gradients(const struct sweep *sweep, const struct group *group)
{
    for (int c = 0; c < group->cell_count; c++) {
        char *path = text_format("%s/runs/%s.gradients", sweep->settings->out, group->cells[c].id);
        unlink(path);
        free(path);
    }
}

static int finish_group(struct sweep *sweep, const struct group *group, struct measured *all)
{
    char *runs = text_format("%s/runs", sweep->settings->out);
    for (int c = 0; c < group->cell_count; c++)
        measured_finish(&all[c]);
    results_prove(group, all, runs);
    results_add_group(&sweep->results, &sweep->plan, group, all, sweep->run_id);
    int rc = results_write(&sweep->results, sweep->settings->out);
    if (!rc)
        remove_gradients(sweep, group);
    free(runs);
    return rc;
}

/* Rounds over all cells in turn. A cell that failed is not tried again: its row says why. */
static int run_group(struct sweep *sweep, const struct group *group)
{
    if (group_finished(sweep, group)) {
        remove_gradients(sweep, group); /* a sweep that was killed before it could leaves them */
        sweep->progress.done += group->rounds * group->cell_count;
        return EXIT_OK;
    }
    struct measured *all = text_must(calloc((size_t)group->cell_count, sizeof *all));
    int rc = EXIT_OK;
    for (int c = 0; c < group->cell_count; c++)
        all[c].cell = &group->cells[c];
    for (int round = 0; round < group->rounds; round++)
        for (int c = 0; !rc && !sweep->interrupted && c < group->cell_count; c++) {
            if (round > 0 && !measured_ok(&all[c]))
                sweep->progress.total--;
            else
                rc = measure(sweep, group, &all[c], round);
        }
    if (!rc && !sweep->interrupted)
        rc = finish_group(sweep, group, all);
    for (int c = 0; c < group->cell_count; c++)
        measured_free(&all[c]);
    free(all);
    return rc;
}

/* Gradients of the largest group at once, and room for all else. */
static size_t disk_bytes_needed(const struct plan *plan)
{
    size_t most = 0;
    for (int g = 0; g < plan->group_count; g++) {
        const struct group *group = &plan->groups[g];
        if (group->cell_count == 0)
            continue;
        size_t bytes = (size_t)group->cell_count * workload_parameter_bytes(group->cells[0].workload);
        most = bytes > most ? bytes : most;
    }
    return most + ((size_t)16 << 20);
}

/* Inside somebody's torchrun or srun, ddp-train would take itself for one of their ranks; here it is a launcher. */
static void forget_other_launchers(void)
{
    static const char *const names[] = {"RANK",
                                        "WORLD_SIZE",
                                        "LOCAL_RANK",
                                        "LOCAL_WORLD_SIZE",
                                        "MASTER_ADDR",
                                        "MASTER_PORT",
                                        "SLURM_PROCID",
                                        "SLURM_LOCALID",
                                        "SLURM_NTASKS",
                                        "PMI_RANK",
                                        "PMI_SIZE",
                                        "OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_LOCAL_RANK",
                                        "OMPI_COMM_WORLD_SIZE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
}

static int begin(struct sweep *sweep)
{
    forget_other_launchers();
    const struct settings *settings = sweep->settings;
    char *plan = plan_text(&sweep->plan, settings);
    int rc = folder_open(settings->out, settings->resume, plan, disk_bytes_needed(&sweep->plan), sweep->run_id,
                         sizeof sweep->run_id);
    if (!rc && settings->resume && folder_has(settings->out, "results.csv"))
        rc = results_read(&sweep->results, settings->out);
    if (!rc)
        report_forget(settings->out);
    if (!rc)
        rc = results_write(&sweep->results, settings->out);
    free(plan);
    return rc;
}

/* 0 if every row is fine, else EXIT_CHECK_FAILED with one last line that names the first that is not. */
static int judge(const struct table *rows)
{
    int bad = 0, first = 0;
    for (int row = rows->row_count - 1; row >= 0; row--)
        if (!text_is(table_get(rows, row, "status"), "ok") || text_is(table_get(rows, row, "equal"), "no")) {
            bad++;
            first = row;
        }
    if (bad)
        log_error("%d of %d cells failed; first: %s on %s, %s device%s: %s", bad, rows->row_count,
                  table_get(rows, first, "strategy"), table_get(rows, first, "model"), table_get(rows, first, "gpus"),
                  text_is(table_get(rows, first, "gpus"), "1") ? "" : "s", table_get(rows, first, "reason"));
    return bad ? EXIT_CHECK_FAILED : EXIT_OK;
}

int sweep_run(struct settings *settings)
{
    struct sweep sweep = {.settings = settings};
    snprintf(sweep.run_id, sizeof sweep.run_id, "%s", settings->run_id);
    int rc = folder_check_programs(settings);
    rc = rc ? rc : device_choose(settings);
    if (rc)
        return rc;
    results_open(&sweep.results);
    plan_make(&sweep.plan, settings);
    rc = begin(&sweep);
    if (!rc) {
        printf("measuring; results go to %s\n", settings->out);
        progress_begin(&sweep.progress, plan_run_count(&sweep.plan));
        for (int g = 0; !rc && !sweep.interrupted && g < sweep.plan.group_count; g++)
            rc = run_group(&sweep, &sweep.plan.groups[g]);
        progress_end(&sweep.progress);
    }
    if (!rc && !sweep.interrupted)
        rc = largest_run(settings, &sweep.results, &sweep.interrupted);
    if (!rc && !sweep.interrupted)
        rc = modelled_run(settings, &sweep.results, sweep.run_id, &sweep.interrupted);
    if (!rc && sweep.interrupted) {
        log_error("interrupted by signal %d; finished runs are kept: go on with --resume --out %s", sweep.interrupted,
                  settings->out);
        rc = EXIT_SIGNAL + sweep.interrupted;
    } else if (!rc) {
        rc = report_make(settings->out, settings->plots);
        int verdict = judge(&sweep.results.rows);
        rc = rc ? rc : verdict;
    }
    results_close(&sweep.results);
    plan_free(&sweep.plan);
    return rc;
}
