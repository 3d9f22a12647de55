/* SPDX-License-Identifier: MIT
 *
 * See trace.h. Times are microseconds since the first event.
 */
#include "run/trace.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "sys/exit_codes.h"
#include "sys/file.h"
#include "sys/log.h"

enum track { TRACK_COMPUTE, TRACK_COMMUNICATION };

static int add_event(struct trace *trace, const struct trace_event *event)
{
    if (trace->count == trace->room) {
        size_t room = trace->room ? 2 * trace->room : 1024;
        struct trace_event *grown = realloc(trace->events, room * sizeof *grown);
        if (!grown) {
            log_error("trace: no memory for %zu events", room);
            return EXIT_RESOURCE;
        }
        trace->events = grown;
        trace->room = room;
    }
    trace->events[trace->count++] = *event;
    return EXIT_OK;
}

int trace_add(struct trace *trace, const struct timeline *timeline, int device, int step)
{
    struct trace_event event = {.device = device, .step = step};

    for (int i = 0; i < timeline->marks; i++) {
        enum phase phase;
        TRY(timeline_interval(timeline, i, &phase, &event.start_s, &event.end_s));
        event.phase = (int32_t)phase;
        TRY(add_event(trace, &event));
    }
    event.phase = PHASES;
    for (int i = 0; i < timeline->communications; i++) {
        TRY(timeline_communication(timeline, i, &event.start_s, &event.end_s));
        TRY(add_event(trace, &event));
    }
    return EXIT_OK;
}

static void name_track(FILE *out, int device, enum track track, const char *name)
{
    fprintf(out,
            "{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": %d, \"tid\": %d, \"args\": {\"name\": \"%s\"}},\n",
            device, (int)track, name);
}

static void write_events(FILE *out, const struct trace_event *events, size_t count)
{
    double origin = count ? events[0].start_s : 0;
    int devices = 0;

    for (size_t i = 0; i < count; i++) {
        origin = events[i].start_s < origin ? events[i].start_s : origin;
        devices = events[i].device >= devices ? events[i].device + 1 : devices;
    }
    fputs("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n", out);
    for (int device = 0; device < devices; device++) {
        fprintf(out, "{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %d, \"args\": {\"name\": \"device %d\"}},\n",
                device, device);
        name_track(out, device, TRACK_COMPUTE, "compute");
        name_track(out, device, TRACK_COMMUNICATION, "communication");
    }
    for (size_t i = 0; i < count; i++) {
        const struct trace_event *event = &events[i];
        bool collective = event->phase == PHASES;
        fprintf(out,
                "{\"ph\": \"X\", \"name\": \"%s\", \"pid\": %d, \"tid\": %d, \"ts\": %.3f, \"dur\": %.3f, "
                "\"args\": {\"step\": %d}}%s\n",
                collective ? "all-reduce" : phase_name((enum phase)event->phase), event->device,
                (int)(collective ? TRACK_COMMUNICATION : TRACK_COMPUTE), (event->start_s - origin) * 1e6,
                (event->end_s - event->start_s) * 1e6, event->step, i + 1 < count ? "," : "");
    }
    fputs("]}\n", out);
}

static int write_file(const char *path, const struct trace_event *events, size_t count)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (!out) {
        log_error("trace: no memory for %zu events", count);
        return EXIT_RESOURCE;
    }
    write_events(out, events, count);
    bool complete = fclose(out) == 0;
    if (!complete)
        log_error("trace: no memory for %zu events", count);
    int status = complete ? file_write_output(path, text, size) : EXIT_RESOURCE;
    free(text);
    return status;
}

int trace_write(struct trace *trace, struct world *world, const char *path)
{
    void *all = NULL;
    size_t count = 0;

    TRY(world_gather_items(world, trace->events, trace->count, sizeof *trace->events, &all, &count));
    int status = world->rank == 0 ? write_file(path, all, count) : EXIT_OK;
    free(all);
    return status;
}

void trace_close(struct trace *trace)
{
    free(trace->events);
    *trace = (struct trace){0};
}
