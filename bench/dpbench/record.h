/* SPDX-License-Identifier: MIT
 *
 * What one run of a trainer left behind: the JSON lines of docs/output.md, and one line more that the sweep adds when
 * the process has ended, {"type": "run", "round", "exit_code", "seconds", "status", "reason"}. A file without that line
 * was cut off by an interrupt; its run is done again.
 */
#ifndef DPBENCH_RECORD_H
#define DPBENCH_RECORD_H

#include <stdbool.h>

#include <cjson/cJSON.h>

struct record {
    cJSON **lines; /* [count] objects in the file's order; owned */
    int count;
    const cJSON *header;  /* the first line of that type, or NULL */
    const cJSON *summary; /* the last of that type, or NULL */
    const cJSON *run;     /* likewise */
};

/* Reads a file of JSON lines. A line that is no object with a "type", or a last line without its end: EXIT_BAD_FILE,
 * reported with the line; *record is empty then. */
int record_read(struct record *record, const char *path);
void record_free(struct record *record);

/* The member as a number; NAN if absent, null or no number. */
double record_number(const cJSON *object, const char *member);

/* The member as text; "" if absent, null or no string. */
const char *record_text(const cJSON *object, const char *member);

bool record_is(const cJSON *object, const char *type);

/* All `step` lines' ms in order; returns their number, *ms is the caller's to free. */
int record_steps(const struct record *record, double **ms);

#endif
