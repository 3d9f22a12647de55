/* SPDX-License-Identifier: MIT
 *
 * The runs of one cell: failures, medians, the middle round, and whether all rounds computed the same (results.h).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "resampling.h"
#include "results.h"
#include "text.h"

bool measured_ok(const struct measured *measured)
{
    return measured->rounds > 0 && text_is(measured->status, "ok");
}

static void fail(struct measured *measured, const char *status, const char *reason)
{
    if (*measured->status && !text_is(measured->status, "ok"))
        return; /* the first failure is the cause */
    snprintf(measured->status, sizeof measured->status, "%s", status);
    snprintf(measured->reason, sizeof measured->reason, "%s", reason);
}

/* What the trainer prints as variant: its options, but not that nothing is executed. */
static bool is_variant(const struct cell *cell, const char *said)
{
    size_t length = strlen(cell->variant) - (cell->workload->shape_gpus ? strlen(";" SHAPE_ONLY) : 0);
    return strlen(said) == length && strncmp(said, cell->variant, length) == 0;
}

/* Its row says what was planned; it must be what was run. */
static bool is_as_planned(const struct cell *cell, const cJSON *header)
{
    return text_is(record_text(header, "strategy"), cell->strategy) &&
           is_variant(cell, record_text(header, "variant")) &&
           text_is(record_text(header, "model"), cell->workload->model) &&
           text_is(record_text(header, "data"), cell->workload->data) && record_number(header, "gpus") == cell->gpus &&
           record_number(header, "global_batch") == (double)cell->global_batch;
}

void measured_add(struct measured *measured, struct record *record)
{
    size_t n = (size_t)measured->rounds;
    measured->records = text_must(realloc(measured->records, (n + 1) * sizeof *measured->records));
    measured->round_ms = text_must(realloc(measured->round_ms, (n + 1) * sizeof *measured->round_ms));
    measured->round_rate = text_must(realloc(measured->round_rate, (n + 1) * sizeof *measured->round_rate));
    measured->records[n] = *record;
    measured->round_ms[n] = record_number(record->summary, "step_ms");
    measured->round_rate[n] = record_number(record->summary, "samples_per_s");
    measured->rounds++;
    const cJSON *header = measured->records[n].header;
    const char *status = record_text(measured->records[n].run, "status");
    if (!text_is(status, "ok"))
        fail(measured, status, record_text(measured->records[n].run, "reason"));
    else if (!is_as_planned(measured->cell, header))
        fail(measured, "failed",
             "the trainer ran something else than was planned: see the header of its file in runs/");
    else if (!*measured->status)
        snprintf(measured->status, sizeof measured->status, "ok");
    *record = (struct record){0};
}

/* What must not change from round to round, whatever the clock says. */
static void check_rounds(struct measured *measured)
{
    static const char *const numbers[] = {"comm_mib", "mem_peak_mib", "loss_last"};
    const cJSON *first = measured->records[0].summary;
    for (int r = 1; r < measured->rounds; r++) {
        const cJSON *other = measured->records[r].summary;
        char reason[200];
        if (!text_is(record_text(first, "checksum"), record_text(other, "checksum"))) {
            snprintf(reason, sizeof reason, "checksum %s in round 0 and %s in round %d", record_text(first, "checksum"),
                     record_text(other, "checksum"), r);
            fail(measured, "failed", reason);
        }
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            double a = record_number(first, numbers[i]), b = record_number(other, numbers[i]);
            if (text_is(record_text(measured->records[0].header, "backend"), "soft") && !(a == b) &&
                !(isnan(a) && isnan(b))) {
                snprintf(reason, sizeof reason, "%s is %.9g in round 0 and %.9g in round %d", numbers[i], a, b, r);
                fail(measured, "failed", reason);
            }
        }
    }
}

void measured_finish(struct measured *measured)
{
    if (!measured_ok(measured))
        return;
    measured->middle = (int)resampling_middle(measured->round_ms, (size_t)measured->rounds);
    check_rounds(measured);
}

void measured_free(struct measured *measured)
{
    for (int r = 0; r < measured->rounds; r++)
        record_free(&measured->records[r]);
    free(measured->records);
    free(measured->round_ms);
    free(measured->round_rate);
    measured->rounds = 0;
}

const struct measured *measured_find(const struct measured *all, const struct group *group, const char *strategy,
                                     int gpus, bool no_overlap)
{
    const struct cell *cell = group_find(group, strategy, gpus, no_overlap);
    const struct measured *measured = cell ? &all[cell - group->cells] : NULL;
    return measured && measured_ok(measured) ? measured : NULL;
}
