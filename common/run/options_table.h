/* SPDX-License-Identifier: MIT
 *
 * The options as data: one row an option. Parsing, help, defaults, the canonical text and the variant column are all
 * read from these rows, so that an option is added in one place.
 */
#ifndef RUN_OPTIONS_TABLE_H
#define RUN_OPTIONS_TABLE_H

#include <stddef.h>

#include "run/options.h"

enum option_kind {
    OPTION_FLAG,      /* bool := true */
    OPTION_INTEGER,   /* int */
    OPTION_SIZE,      /* size_t */
    OPTION_SEED,      /* uint64_t, the whole range */
    OPTION_MEBIBYTES, /* size_t: MiB on the command line, bytes in the struct */
    OPTION_REAL,      /* double */
    OPTION_FLOAT,     /* float */
    OPTION_TEXT,      /* const char *: anything but nothing */
    OPTION_NAME,      /* const char *: one of choices */
    OPTION_CHOICE,    /* an enum: the position in choices */
    OPTION_LATER,     /* of a later version: refused by name */
};

enum option_programs { FOR_DP = 1, FOR_DDP = 2, FOR_BOTH = 3 };

enum option_scope {
    SCOPE_KEY,     /* a column of its own in results.csv; all ranks must agree */
    SCOPE_VARIANT, /* part of the variant column where it is not the default; all ranks must agree */
    SCOPE_RUN,     /* says how long and with what proof to run; all ranks must agree */
    SCOPE_LOCAL,   /* each rank's own affair */
};

#define OPTION_CHOICES 4
#define OPTION_ROWS_MAX 64

struct option_row {
    const char *name; /* without "--" */
    enum option_kind kind;
    enum option_programs programs;
    enum option_scope scope;
    size_t offset;                           /* of the member of struct options */
    double low, high;                        /* numbers: the allowed range, both ends included */
    const char *choices[OPTION_CHOICES + 1]; /* NULL at the end */
    const char *key;                         /* in canonical text and variant: "bucket_cap_mb" */
    const char *value;                       /* in the help: "N"; NULL: takes no value */
    const char *meaning;
};

extern const struct option_row option_rows[];
extern const size_t option_row_count;

/* The row of an option that there is. */
const struct option_row *option_named(const char *name);

/* Parses text into the row's member. 0, or EXIT_USAGE after a report that names option, text and what is allowed. */
int option_assign(const struct option_row *row, struct options *options, const char *text);

/* The row's value as text into buffer: what --name would have to be given. "" for a path that was not given. */
void option_format(const struct option_row *row, const struct options *options, char *buffer, size_t size);

/* The values before the command line is read. */
void options_set_defaults(struct options *options, const char *program);

/* ---- options_check.c: 0, or EXIT_USAGE after a report that names option, value and what is expected ---- */

/* Options that contradict each other, and options that were given and have no effect with the others. given: by row. */
int options_check_combinations(const struct options *options, const bool *given);
/* The global batch, once it is resolved, can be cut as the sampler wants it. */
int options_check_batch(const struct options *options);

#endif
