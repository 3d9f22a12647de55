/* SPDX-License-Identifier: MIT
 *
 * The timeline as Chrome's JSON, read by Perfetto: a process per device and one for each process's host threads.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "run/json_line.h"
#include "sys/exit_codes.h"
#include "sys/file.h"
#include "sys/log.h"

#define HOST_TRACKS 100000 /* above all devices */

/* Picoseconds as microseconds with all their digits: nothing is rounded. */
static void print_us(FILE *out, const char *name, int64_t ps)
{
    fprintf(out, "\"%s\":%" PRId64 ".%06" PRId64, name, ps / 1000000, ps % 1000000);
}

static void name_tracks(FILE *out, const struct play_result *result)
{
    for (int d = 0; d < result->devices; d++)
        fprintf(out,
                "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":\"device %d (modelled)\"}},\n",
                d, d);
    for (int i = 0; i < result->instances; i++)
        fprintf(
            out,
            "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":\"host of rank %d (modelled)\"}},\n",
            HOST_TRACKS + i, i);
}

static void print_span(FILE *out, const struct play_span *span)
{
    fprintf(out, "{\"ph\":\"X\",\"name\":");
    json_quote(out, span->name);
    if (span->range < PLAY_PHASES)
        fprintf(out, ",\"cat\":\"%s\"", play_phase_names[span->range]);
    fprintf(out, ",\"pid\":%d,\"tid\":%d,", span->device >= 0 ? span->device : HOST_TRACKS + span->instance,
            span->lane);
    print_us(out, "ts", span->start_ps);
    fprintf(out, ",");
    print_us(out, "dur", span->end_ps - span->start_ps);
    fprintf(out, "},\n");
}

int report_trace(const struct report *report, const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out) {
        log_error("%s: no memory for the trace", path);
        return EXIT_RESOURCE;
    }
    fprintf(out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    name_tracks(out, report->result);
    for (size_t i = 0; i < report->result->span_count; i++)
        print_span(out, &report->result->spans[i]);
    fprintf(out, "{\"ph\":\"M\",\"name\":\"clock\",\"pid\":0,\"args\":{\"name\":\"modelled on ");
    fprintf(out, "%s\"}}\n]}\n", report->machine->name);
    bool failed = ferror(out) || fclose(out);
    int status = failed ? EXIT_RESOURCE : file_write_atomic(path, text, bytes);
    free(text);
    return status;
}
