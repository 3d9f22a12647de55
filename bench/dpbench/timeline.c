/* SPDX-License-Identifier: MIT
 *
 * One step out of a replay's trace (modelled.h). A step of a large model has some thousand spans; what a reader can see
 * are phases, so neighbours of one phase on one lane are joined when the gap between them is too small to be drawn.
 * Collectives on a lane of their own stay apart: they are DDP's buckets.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "modelled.h"
#include "record.h"
#include "sys/file.h"
#include "text.h"

#define TRACE_LIMIT ((size_t)256 << 20) /* bytes */
#define VISIBLE (1.0 / 600)             /* of the step: about a pixel */
#define COMPUTE_LANE 1                  /* the stream that a replica computes on: the first one that it makes */
#define LANES 64

/* The span that is being joined on one lane of one device. */
struct open_span {
    int device, lane;
    char phase[32];
    double start, end; /* ms */
    bool used;
};

static void close_span(struct table *table, const struct modelled_cell *cell, struct open_span *span)
{
    if (!span->used)
        return;
    int row = table_add_row(table);
    modelled_set_key(table, row, cell);
    table_set(table, row, "device", "%d", span->device);
    table_set(table, row, "lane", "%s", span->lane == COMPUTE_LANE ? "compute" : "communication");
    table_set(table, row, "phase", "%s", span->phase);
    table_set_number(table, row, "start_ms", span->start);
    table_set_number(table, row, "end_ms", span->end);
    span->used = false;
}

static struct open_span *find_open(struct open_span *spans, int *count, int device, int lane)
{
    for (int i = 0; i < *count; i++)
        if (spans[i].device == device && spans[i].lane == lane)
            return &spans[i];
    if (*count == LANES)
        return NULL;
    spans[*count] = (struct open_span){.device = device, .lane = lane};
    return &spans[(*count)++];
}

static void take(struct table *table, const struct modelled_cell *cell, struct open_span *span, const char *phase,
                 double start, double end, double step_ms)
{
    bool joins = span->used && span->lane == COMPUTE_LANE && text_is(span->phase, phase) &&
                 start - span->end <= step_ms * VISIBLE;
    if (!joins) {
        close_span(table, cell, span);
        *span = (struct open_span){.device = span->device, .lane = span->lane, .start = start, .used = true};
        snprintf(span->phase, sizeof span->phase, "%s", phase);
    }
    span->end = end;
}

/* The spans of a lane come in their order: it is one stream. Host threads have no place in this picture. */
static void take_all(struct table *table, const struct modelled_cell *cell, const cJSON *events, double step_ms)
{
    struct open_span spans[LANES];
    int count = 0;
    for (const cJSON *event = events ? events->child : NULL; event; event = event->next) {
        double start = record_number(event, "ts") / 1e3, end = start + record_number(event, "dur") / 1e3;
        double device = record_number(event, "pid"), lane = record_number(event, "tid");
        if (!text_is(record_text(event, "ph"), "X") || !(device < cell->gpus) || !(lane < 1e6) || !(start < step_ms))
            continue;
        struct open_span *span = find_open(spans, &count, (int)device, (int)lane);
        const char *phase = record_text(event, "cat");
        if (span && end > start)
            take(table, cell, span, *phase ? phase : "other", start, end, step_ms);
    }
    for (int i = 0; i < count; i++)
        close_span(table, cell, &spans[i]);
}

const char *timeline_add(struct table *table, const struct modelled_cell *cell, const char *trace, double step_ms)
{
    void *data = NULL;
    size_t bytes;
    if (file_read(trace, TRACE_LIMIT, &data, &bytes))
        return "its replay's trace can't be read";
    cJSON *whole = cJSON_ParseWithLength(data, bytes);
    free(data);
    const cJSON *events = cJSON_GetObjectItemCaseSensitive(whole, "traceEvents");
    bool good = cJSON_IsArray(events) && step_ms > 0;
    if (good)
        take_all(table, cell, events, step_ms);
    cJSON_Delete(whole);
    return good ? NULL : "its replay's trace is no timeline";
}
