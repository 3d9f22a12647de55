/* SPDX-License-Identifier: MIT
 *
 * --trace: the timelines of the timed steps as Chrome's trace events, for https://ui.perfetto.dev or chrome://tracing.
 * One process a device, one track a stream.
 */
#ifndef RUN_TRACE_H
#define RUN_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "run/timeline.h"
#include "run/world.h"

struct trace_event {
    int32_t device; /* position: DP's device number, DDP's rank */
    int32_t phase;  /* on the compute stream; PHASES: a collective on the communication stream */
    int32_t step;
    double start_s, end_s;
};

struct trace {
    struct trace_event *events;
    size_t count, room;
};

/* Adds the intervals of a finished step. */
int trace_add(struct trace *trace, const struct timeline *timeline, int device, int step);

/* Collective: rank 0 writes all ranks' events to the file. EXIT_RESOURCE (reported) on failure. */
int trace_write(struct trace *trace, struct world *world, const char *path);
void trace_close(struct trace *trace);

#endif
