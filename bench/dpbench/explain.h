/* SPDX-License-Identifier: MIT
 *
 * Sentences of the verdict, as HTML list items or plain lines. explain.c begins, explain_modelled.c has the described
 * machines, explain_times.c what the clock says.
 */
#ifndef DPBENCH_EXPLAIN_H
#define DPBENCH_EXPLAIN_H

#include <stdbool.h>
#include <stdio.h>

#include "view.h"

struct speaker {
    FILE *out;
    bool html;
};

void sentence_begin(const struct speaker *to, const char *head);
void sentence_end(const struct speaker *to);
const char *weak_note(enum scaling scaling); /* " (weak scaling)", or nothing */

/* Each says nothing where nothing was measured. */
void say_times(const struct view *view, const struct speaker *to);              /* dp beside ddp */
void say_speedup(const struct view *view, const struct speaker *to);            /* both beside single */
void say_wrapper(const struct view *view, const struct speaker *to);            /* on one device */
void say_overlap(const struct view *view, const struct speaker *to);            /* ddp with and without */
void say_unsteady(const struct results *results, const struct speaker *to);     /* cells whose steps scatter */
void say_what_of_gpus(const struct results *results, const struct speaker *to); /* what soft times do not say */
void say_modelled(const struct results *results, const struct speaker *to);     /* machines, launch lock, failures */

#endif
