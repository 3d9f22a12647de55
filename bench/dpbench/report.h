/* SPDX-License-Identifier: MIT
 *
 * From the CSV files of a folder to plots and report.html. Reads nothing else, so it can be made again at any time:
 * dpbench report DIR.
 */
#ifndef DPBENCH_REPORT_H
#define DPBENCH_REPORT_H

#include <stdio.h>

#include "results.h"

/* Writes results.json, the figures' data, the plots (gnuplot scripts of folder `plots`) and report.html from the
 * template there. Without gnuplot the data and scripts are still written, and said so. 0 or an exit code (reported). */
int report_make(const char *folder, const char *plots);

/* Removes what report_make has left there: until it has come to its end again nobody takes them for the tables' own. */
void report_forget(const char *folder);

/* ---- figures.c: data for gnuplot, and running it --------------------------------------------- */

struct figure {
    char name[64];      /* "memory-mlp": NAME.tsv, NAME.svg, NAME.png */
    char script[32];    /* "memory.gp" */
    char title[160];    /* above the picture, in the picture */
    char takeaway[700]; /* below it in the report: the one sentence that it is there for; may be empty */
    char caption[500];  /* then: how to read it */
    int band;           /* 1: true on any machine, 2: modelled, 3: measured here */
    /* band 2 */
    const char *machine, *workload; /* their names */
    bool folded;                    /* shown on demand */
};

#define FIGURES_MAX 96

/* Chooses the figures for which there is data and writes FOLDER/figures/NAME.tsv. Returns how many, or -1 (reported).
 */
int figures_write(const struct results *results, const char *folder, struct figure figures[FIGURES_MAX]);

/* ---- figures_modelled.c: likewise, band 2; at most `room` ---- */
int figures_write_modelled(const struct results *results, const char *folder, struct figure *figures, int room);

/* Removes the pictures of FOLDER/figures/NAME.tsv, all of them, and these. */
void figures_forget(const char *folder);

/* Runs gnuplot for each. A picture that was not made is not there. Returns 0 if all pictures were made, EXIT_RESOURCE
 * if not (reported). */
int figures_draw(const struct figure *figures, int count, const char *folder, const char *plots);

/* ---- explain.c: what the tables say in words ------------------------------------------------- */

enum explained {
    EXPLAINED_HEADLINE, /* paragraphs, one a band */
    EXPLAINED_POINTS,   /* list items: what else to know at once */
    EXPLAINED_MODELLED, /* list items: band 2 in full */
    EXPLAINED_TIMES     /* list items: band 3 in full */
};

/* HTML. Nothing is claimed that a table does not hold. */
void explain_page(const struct results *results, enum explained part, FILE *out);

/* All of it as lines of plain text, for the terminal; the headline last. */
void explain_print(const struct results *results, FILE *out);

#endif
