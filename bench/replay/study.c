/* SPDX-License-Identifier: MIT
 *
 * See study.h.
 */
#include "study.h"

#include <stdlib.h>
#include <string.h>

#include "sys/exit_codes.h"
#include "sys/log.h"

/* By rank; the path decides between equals only to name both in the message. */
static int compare_ranks(const void *a, const void *b)
{
    const struct program *x = *(const struct program *const *)a, *y = *(const struct program *const *)b;
    return x->rank != y->rank ? x->rank - y->rank : strcmp(x->path, y->path);
}

static int check_ranks(const struct study *study, bool all)
{
    for (int i = 1; i < study->count; i++)
        if (study->by_rank[i]->rank == study->by_rank[i - 1]->rank) {
            log_error("%s: is the record of rank %d, as is %s", study->by_rank[i]->path, study->by_rank[i]->rank,
                      study->by_rank[i - 1]->path);
            return EXIT_BAD_FILE;
        }
    for (int i = 0; i < study->count && all; i++) {
        const struct program *program = study->by_rank[i];
        if (program->rank != i || program->ranks != study->count) {
            log_error("%s: is rank %d of %d, expected rank %d of the %d records given: give all ranks' records, or one "
                      "and --gpus",
                      program->path, program->rank, program->ranks, i, study->count);
            return EXIT_BAD_FILE;
        }
        if (program->steps != study->by_rank[0]->steps) {
            log_error("%s: has %d timed steps, expected %d as in %s", program->path, program->steps,
                      study->by_rank[0]->steps, study->by_rank[0]->path);
            return EXIT_BAD_FILE;
        }
    }
    return EXIT_OK;
}

int study_open(struct study *study, char *const *paths, int count, bool all)
{
    int status = EXIT_OK;
    *study = (struct study){.records = calloc((size_t)count, sizeof(*study->records)),
                            .programs = calloc((size_t)count, sizeof(*study->programs)),
                            .by_rank = calloc((size_t)count, sizeof(*study->by_rank))};
    if (!study->records || !study->programs || !study->by_rank) {
        log_error("no memory for %d records", count);
        status = EXIT_RESOURCE;
    }
    for (int i = 0; i < count && !status; i++) {
        status = record_load(&study->records[i], paths[i]);
        study->count = i + 1;
        if (!status)
            status = program_build(&study->programs[i], &study->records[i]);
        study->by_rank[i] = &study->programs[i];
    }
    if (!status) {
        qsort(study->by_rank, (size_t)count, sizeof(*study->by_rank), compare_ranks);
        status = check_ranks(study, all);
    }
    if (status)
        study_close(study);
    return status;
}

void study_close(struct study *study)
{
    for (int i = 0; i < study->count; i++) {
        program_close(&study->programs[i]);
        record_close(&study->records[i]);
    }
    free(study->records);
    free(study->programs);
    free(study->by_rank);
    *study = (struct study){0};
}
