/* SPDX-License-Identifier: MIT
 *
 * Timelines: events made at open and recorded again each step, read when the streams are idle.
 */
#include "run/timeline.h"

#include <stdlib.h>

#include "gpu/backend.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

struct interval {
    double start, end;
};

const char *phase_name(enum phase phase)
{
    static const char *const names[PHASES] = {
        [PHASE_SCATTER] = "scatter", [PHASE_REPLICATE] = "replicate",
        [PHASE_FORWARD] = "forward", [PHASE_GATHER] = "gather",
        [PHASE_LOSS] = "loss",       [PHASE_BACKWARD] = "backward",
        [PHASE_REDUCE] = "reduce",   [PHASE_ALLREDUCE_EXPOSED] = "allreduce_exposed",
        [PHASE_UPDATE] = "update",   [PHASE_HOST] = "host",
        [PHASE_WAIT] = "wait",
    };
    return phase < PHASES ? names[phase] : "unknown";
}

int timeline_open(struct timeline *timeline, int device)
{
    int status = EXIT_OK;

    *timeline = (struct timeline){.device = device, .marks = -1};
    GPU_TRY(cudaSetDevice(device));
    for (int i = 0; i <= TIMELINE_MAX_MARKS; i++)
        GPU_GOTO(cudaEventCreateWithFlags(&timeline->event[i], cudaEventDefault), status, failed);
    for (int i = 0; i < TIMELINE_MAX_COMMUNICATIONS * 2; i++)
        GPU_GOTO(cudaEventCreateWithFlags(&timeline->communication[i / 2][i % 2], cudaEventDefault), status, failed);
    return EXIT_OK;
failed:
    timeline_close(timeline);
    return status;
}

void timeline_close(struct timeline *timeline)
{
    for (int i = 0; i <= TIMELINE_MAX_MARKS; i++)
        if (timeline->event[i])
            (void)cudaEventDestroy(timeline->event[i]);
    for (int i = 0; i < TIMELINE_MAX_COMMUNICATIONS * 2; i++)
        if (timeline->communication[i / 2][i % 2])
            (void)cudaEventDestroy(timeline->communication[i / 2][i % 2]);
    *timeline = (struct timeline){.device = timeline->device, .marks = -1};
}

int timeline_begin(struct timeline *timeline, cudaStream_t compute)
{
    timeline->marks = 0;
    timeline->communications = 0;
    GPU_TRY(cudaEventRecord(timeline->event[0], compute));
    gpu_record_note("phase", "", 0);
    return EXIT_OK;
}

int timeline_mark(struct timeline *timeline, cudaStream_t compute, enum phase phase)
{
    if (timeline->marks >= TIMELINE_MAX_MARKS) {
        log_error("timeline of device %d: a step has more than %d marks; use a smaller --accumulate", timeline->device,
                  TIMELINE_MAX_MARKS);
        return EXIT_CHECK_FAILED;
    }
    int i = ++timeline->marks;
    timeline->phase[i] = phase;
    GPU_TRY(cudaEventRecord(timeline->event[i], compute));
    gpu_record_note("phase", phase_name(phase), 0);
    return EXIT_OK;
}

void phase_begin(enum phase phase)
{
    (void)nvtxRangePushA(phase_name(phase));
}

int phase_end(struct timeline *timeline, cudaStream_t compute, enum phase phase)
{
    (void)nvtxRangePop();
    return timeline_mark(timeline, compute, phase);
}

int timeline_communication_begin(struct timeline *timeline, cudaStream_t stream)
{
    if (timeline->communications >= TIMELINE_MAX_COMMUNICATIONS) {
        log_error("timeline of device %d: a step has more than %d collectives; use a larger --bucket-cap-mb",
                  timeline->device, TIMELINE_MAX_COMMUNICATIONS);
        return EXIT_CHECK_FAILED;
    }
    GPU_TRY(cudaEventRecord(timeline->communication[timeline->communications][0], stream));
    return EXIT_OK;
}

int timeline_communication_end(struct timeline *timeline, cudaStream_t stream)
{
    GPU_TRY(cudaEventRecord(timeline->communication[timeline->communications][1], stream));
    timeline->communications++;
    return EXIT_OK;
}

int timeline_interval(const struct timeline *timeline, int i, enum phase *phase, double *start_s, double *end_s)
{
    *phase = timeline->phase[i + 1];
    TRY(gpu_event_time(timeline->event[i], start_s));
    return gpu_event_time(timeline->event[i + 1], end_s);
}

int timeline_communication(const struct timeline *timeline, int i, double *start_s, double *end_s)
{
    TRY(gpu_event_time(timeline->communication[i][0], start_s));
    return gpu_event_time(timeline->communication[i][1], end_s);
}

static int compare_starts(const void *a, const void *b)
{
    const struct interval *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

/* Sorts the intervals and joins those that touch; returns how many are left. */
static int join_intervals(struct interval *intervals, int count)
{
    int joined = 0;

    qsort(intervals, (size_t)count, sizeof *intervals, compare_starts);
    for (int i = 0; i < count; i++) {
        if (joined && intervals[i].start <= intervals[joined - 1].end) {
            if (intervals[i].end > intervals[joined - 1].end)
                intervals[joined - 1].end = intervals[i].end;
        } else {
            intervals[joined++] = intervals[i];
        }
    }
    return joined;
}

static double overlap(const struct interval *a, double start, double end)
{
    double from = a->start > start ? a->start : start;
    double to = a->end < end ? a->end : end;
    return to > from ? to - from : 0;
}

static bool is_compute(enum phase phase)
{
    return phase == PHASE_FORWARD || phase == PHASE_LOSS || phase == PHASE_BACKWARD;
}

int timeline_read(const struct timeline *timeline, struct step_times *times)
{
    struct interval communications[TIMELINE_MAX_COMMUNICATIONS];
    int joined;

    *times = (struct step_times){0};
    if (timeline->marks < 0)
        return EXIT_OK;
    for (int i = 0; i < timeline->communications; i++)
        TRY(timeline_communication(timeline, i, &communications[i].start, &communications[i].end));
    joined = join_intervals(communications, timeline->communications);
    for (int i = 0; i < joined; i++)
        times->communication_ms += (communications[i].end - communications[i].start) * 1e3;
    TRY(gpu_event_time(timeline->event[0], &times->first_s));
    times->last_s = times->first_s;
    for (int i = 0; i < timeline->marks; i++) {
        enum phase phase;
        double start, end;
        TRY(timeline_interval(timeline, i, &phase, &start, &end));
        times->ms[phase] += (end - start) * 1e3;
        times->last_s = end;
        for (int c = 0; c < joined && is_compute(phase); c++)
            times->communication_hidden_ms += overlap(&communications[c], start, end) * 1e3;
    }
    return EXIT_OK;
}
