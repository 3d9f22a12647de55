/* SPDX-License-Identifier: MIT
 *
 * replay: what a recorded run would take on a described machine.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cost.h"
#include "report.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

/* Samples of a step over all devices; with --gpus each rank keeps its share (weak scaling). */
static double batch_of(const struct program *program, int replicate)
{
    const char *text = program_setting(program, "global_batch", NULL);
    if (!text)
        return NAN;
    return replicate ? atof(text) / program->ranks * replicate : atof(text);
}

static int check_gpus(const struct study *study, const struct question *question)
{
    const struct program *program = study->by_rank[0];
    int gpus = question->play.replicate;
    if (gpus && (program->devices != 1 || program->ranks < 2)) {
        log_error(
            "--gpus %d: %s is of a process with %d devices in a world of %d ranks, expected a rank of DDP on at least "
            "2 ranks",
            gpus, program->path, program->devices, program->ranks);
        return EXIT_USAGE;
    }
    int ranks = gpus ? gpus : study->count;
    if (question->play.slow_rank >= ranks) {
        log_error("--slow-rank %d: there are %d ranks, expected 0 to %d", question->play.slow_rank, ranks, ranks - 1);
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

/* The machine has as many devices; where it is a cluster, as many nodes as are needed are taken. */
static int check_devices(const struct report *report)
{
    const struct machine *machine = report->machine;
    if (report->gpus <= machine->devices * machine->nodes || machine->nodes > 1)
        return EXIT_OK;
    log_error("%s has %d devices, the run %d: expected a machine with as many, or one of several nodes", machine->name,
              machine->devices, report->gpus);
    return EXIT_USAGE;
}

static const char *find_missing_type(const struct report *report)
{
    const struct program *program = report->study->by_rank[0];
    const char *missing = NULL;
    for (int s = 0; s < program->stream_count; s++)
        for (uint32_t i = 0; i < program->streams[s].count && !missing; i++)
            missing = cost_missing_type(report->machine, &program->streams[s].tasks[i]);
    return missing;
}

static void add_variant(struct report *report, const char *text)
{
    size_t used = strlen(report->variant);
    if (*text)
        snprintf(report->variant + used, sizeof(report->variant) - used, "%s%s", used ? ";" : "", text);
}

/* The record's, the question's, and that the row rests on times that were measured, if it does. */
static void fill_variant(struct report *report)
{
    char text[256];
    add_variant(report, program_setting(report->study->by_rank[0], "variant", ""));
    question_variant(report->question, text, sizeof(text));
    add_variant(report, text);
    snprintf(text, sizeof(text), "own_work=%.10g", report->machine->own_work);
    if (report->machine->own_work > 0)
        add_variant(report, text);
}

static void fill(struct report *report)
{
    const struct program *program = report->study->by_rank[0];
    int replicate = report->question->play.replicate;
    fill_variant(report);
    report->gpus = replicate;
    for (int i = 0; i < report->study->count && !replicate; i++)
        report->gpus += report->study->by_rank[i]->devices;
    report->global_batch = batch_of(program, replicate);
    report->missing_type = find_missing_type(report);
    report->fits = true;
    for (int i = 0; i < report->study->count && report->machine->memory_bytes > 0; i++)
        for (int d = 0; d < report->study->by_rank[i]->devices; d++)
            report->fits = report->fits && report->study->by_rank[i]->peak_bytes[d] <= report->machine->memory_bytes;
}

/* The same question to the teaching model. */
static int ask_alpha_beta(struct report *report)
{
    struct play_options options = report->question->play;
    struct play_result result;
    struct summary summary;
    report->alpha_beta_ms = NAN;
    if (!(report->summary.collective_ms > 0))
        return EXIT_OK;
    options.what_if.method = METHOD_ALPHA_BETA;
    options.spans = false;
    int status = play(&result, report->study->by_rank, report->study->count, report->machine, &options);
    if (!status) {
        summarize(&summary, &result);
        report->alpha_beta_ms = summary.step_ms;
    }
    play_close(&result);
    return status;
}

static int write_all(const struct report *report)
{
    const struct question *question = report->question;
    int status = question->trace ? report_trace(report, question->trace) : EXIT_OK;
    if (!status && question->csv)
        status = report_csv(report, question->csv);
    if (!status && question->json)
        status = report_json(report, question->json);
    if (!status)
        report_screen(report, stdout);
    return status;
}

static int answer(const struct question *question, struct study *study, const struct machine *machine)
{
    struct play_result result = {0};
    struct report report = {.question = question, .study = study, .machine = machine, .result = &result};
    int status = check_gpus(study, question);
    for (int i = 0; i < study->count && question->bucket_cap_mib > 0 && !status; i++)
        status = rebucket(&study->programs[i], question->bucket_cap_mib);
    if (status)
        return status;
    fill(&report);
    status = check_devices(&report);
    if (status)
        return status;
    status = play(&result, study->by_rank, study->count, machine, &question->play);
    if (!status) {
        summarize(&report.summary, &result);
        status = ask_alpha_beta(&report);
    }
    if (!status)
        status = write_all(&report);
    play_close(&result);
    return status;
}

int main(int argc, char **argv)
{
    struct question question;
    static struct machine machine;
    struct study study;
    log_set_program("replay");
    int status = question_parse(&question, argc, argv, MACHINES_FOLDER);
    if (status)
        return status == QUESTION_DONE ? EXIT_OK : status;
    question.play.spans = question.trace != NULL;
    status = machine_load(&machine, question.machine, question.folder);
    if (!status)
        status = study_open(&study, question.records, question.record_count, !question.play.replicate);
    if (status)
        return status;
    status = answer(&question, &study, &machine);
    study_close(&study);
    return status;
}
