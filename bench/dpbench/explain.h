/* SPDX-License-Identifier: MIT
 *
 * What the tables say in words: a headline of a few sentences a band, then sentences in full. explain.c sets them in
 * order; explain_headline.c sums up, explain_facts.c has what is true on any machine, explain_modelled.c the described
 * machines, explain_times.c what the clock says, explain_figures.c the sentence beside a figure.
 *
 * Each sentence with a number says whether it was counted, measured or modelled, and on what. A sentence whose numbers
 * are missing is left out.
 */
#ifndef DPBENCH_EXPLAIN_H
#define DPBENCH_EXPLAIN_H

#include <stdbool.h>
#include <stdio.h>

#include "modelled.h"
#include "view.h"

enum manner {
    MANNER_LINE,      /* plain text, a line a sentence, behind its head */
    MANNER_ITEM,      /* HTML, a list's item */
    MANNER_PARAGRAPH, /* HTML */
    MANNER_CAPTION    /* plain text without the head; whoever shows it makes HTML of it */
};

struct speaker {
    FILE *out;
    enum manner manner;
};

void sentence_begin(const struct speaker *to, const char *head);
void sentence_end(const struct speaker *to);
void speak_text(const struct speaker *to, const char *plain); /* of unknown letters: escaped in HTML */

const char *weak_note(enum scaling scaling);                 /* " (weak scaling)", or nothing */
const char *devices_measured(const struct results *results); /* "soft GPUs", "CUDA GPUs", or "devices" */
bool measured_on_soft(const struct results *results);

/* ---- explain_headline.c ---- */
void say_notice(const struct results *results, const struct speaker *to); /* soft GPUs: what its times are */
void say_headline_facts(const struct results *results, const struct speaker *to);
void say_headline_modelled(const struct results *results, const struct speaker *to);
void say_headline_times(const struct results *results, const struct speaker *to);

/* ---- explain_facts.c ---- */
void say_equality(const struct results *results, const struct speaker *to);
void say_accuracy(const struct view *view, const struct speaker *to);
void say_bytes(const struct view *view, const struct speaker *to);
void say_memory(const struct view *view, const struct speaker *to);
void say_largest(const struct view *view, const struct speaker *to);
/* The category that device 0 of DP has most more of than device 1, in words, and how many MiB; NULL: none. */
const char *fills_device0(const struct view *view, int n, double *more);

/* ---- explain_times.c ---- */
void say_times(const struct view *view, const struct speaker *to);              /* dp beside ddp, every N */
void say_faster(const struct view *view, int pair, const struct speaker *to);   /* that row of pairs.csv */
void say_speedup(const struct view *view, const struct speaker *to);            /* both beside single */
void say_wrapper(const struct view *view, const struct speaker *to);            /* on one device */
void say_overlap(const struct view *view, const struct speaker *to);            /* ddp with and without */
void say_unsteady(const struct results *results, const struct speaker *to);     /* cells whose steps scatter */
void say_what_of_gpus(const struct results *results, const struct speaker *to); /* what soft times do not say */

/* ---- explain_modelled.c ---- */
void say_machine(const struct results *results, const struct modelled_machine *machine, const struct speaker *to);
void say_lock(const struct results *results, const struct modelled_machine *machine, const struct speaker *to);
void say_not_modelled(const struct results *results, const struct speaker *to);
/* The rows of DP and DDP on all devices of the machine; false: one of them is missing. */
bool find_modelled_pair(const struct results *results, const struct workload *workload,
                        const struct modelled_machine *machine, bool lock, int *dp, int *ddp);
/* DP's step / DDP's, of two rows of one table. */
double step_ratio(const struct table *rows, int dp, int ddp);
/* Is the ratio further from 1 than the model may be off? */
bool modelled_winner(double ratio);
/* "DDP is modelled 2.05 times as fast as DP, because ...", or that there is no winner; and the speed-ups. */
void say_modelled_pair(const struct table *rows, int dp, int ddp, const struct speaker *to);
/* `lead`, then "DP, of 330 ms a step, spends 193 ms more on ...": the largest first, at most `most` of them. Is
 * there any? */
bool say_because(const struct table *rows, int dp, int ddp, int most, const char *lead, const struct speaker *to);

/* ---- explain_figures.c: the one sentence that a figure is there for; nothing where its numbers are missing ---- */
void tell_breakdown(const struct view *view, const struct speaker *to);
void tell_throughput(const struct view *view, const struct speaker *to);
void tell_utilization(const struct view *view, const struct speaker *to);
void tell_modelled_breakdown(const struct results *results, const struct workload *workload,
                             const struct modelled_machine *machine, const struct speaker *to);
void tell_modelled_throughput(const struct results *results, const struct workload *workload,
                              const struct modelled_machine *machine, const struct speaker *to);
void tell_modelled_utilization(const struct results *results, const struct workload *workload,
                               const struct modelled_machine *machine, const struct speaker *to);
void tell_timeline(const struct results *results, const struct workload *workload,
                   const struct modelled_machine *machine, const struct speaker *to);

#endif
