/* SPDX-License-Identifier: MIT
 *
 * What replay writes.
 */
#ifndef REPLAY_REPORT_H
#define REPLAY_REPORT_H

#include <stdio.h>

#include "question.h"
#include "study.h"
#include "summary.h"

struct report {
    const struct question *question;
    const struct study *study;
    const struct machine *machine;
    const struct play_result *result;
    struct summary summary;
    double alpha_beta_ms; /* the step by the teaching model; NAN: no collective */
    int gpus;
    double global_batch;      /* samples of a step; NAN: the record does not say */
    char variant[512];        /* the record's and the question's; own_work=X: host times of the record are in it */
    const char *missing_type; /* the machine has no rate for products of this type: fp32's is used; NULL: none */
    bool fits;                /* in the devices' memory; true where the record does not say */
};

void report_screen(const struct report *report, FILE *out);
/* One row with results.csv's columns (and their line, for a new file); appended. EXIT_RESOURCE if it can't be written.
 */
int report_csv(const struct report *report, const char *path);
int report_json(const struct report *report, const char *path);
/* Chrome's and Perfetto's JSON: a track per device and stream, and per host thread. */
int report_trace(const struct report *report, const char *path);

extern const char *const report_columns[];
extern const int report_column_count;

#endif
