/* SPDX-License-Identifier: MIT
 *
 * The order of the sentences (explain.h), for the page and for the terminal.
 */
#include "explain.h"
#include "report.h"
#include "text.h"

void sentence_begin(const struct speaker *to, const char *head)
{
    switch (to->manner) {
    case MANNER_LINE:
        fprintf(to->out, "%s ", head);
        break;
    case MANNER_ITEM:
        fprintf(to->out, "<li><b>%s</b> ", head);
        break;
    case MANNER_PARAGRAPH:
        fprintf(to->out, "<p><b>%s</b> ", head);
        break;
    case MANNER_CAPTION:
        break;
    }
}

void sentence_end(const struct speaker *to)
{
    static const char *const ends[] = {"\n", "</li>\n", "</p>\n", ""};
    fputs(ends[to->manner], to->out);
}

void speak_text(const struct speaker *to, const char *plain)
{
    if (to->manner == MANNER_ITEM || to->manner == MANNER_PARAGRAPH)
        text_html(to->out, plain);
    else
        fputs(plain, to->out);
}

const char *weak_note(enum scaling scaling)
{
    return scaling == SCALING_WEAK ? " (weak scaling)" : "";
}

static const char *backend(const struct results *results)
{
    int row = executed_row(&results->rows, 0);
    return row >= 0 ? table_get(&results->rows, row, "backend") : "";
}

bool measured_on_soft(const struct results *results)
{
    return text_is(backend(results), "soft");
}

const char *devices_measured(const struct results *results)
{
    return measured_on_soft(results) ? "soft GPUs" : text_is(backend(results), "cuda") ? "CUDA GPUs" : "devices";
}

/* ---- parts ----------------------------------------------------------------------------------- */

static void explain_headline(const struct results *results, const struct speaker *to)
{
    say_notice(results, to);
    say_equality(results, to);
    say_headline_facts(results, to);
    say_headline_modelled(results, to);
    say_headline_times(results, to);
}

/* What belongs to no figure and is worth a look at once. */
static void explain_points(const struct results *results, const struct view *views, int count, const struct speaker *to)
{
    for (int v = 0; v < count; v++)
        if (views[v].workload->evaluated)
            say_accuracy(&views[v], to);
    for (int v = 0; v < count; v++)
        say_largest(&views[v], to);
    say_not_modelled(results, to);
    say_unsteady(results, to);
}

static void explain_facts(const struct view *views, int count, const struct speaker *to)
{
    for (int v = 0; v < count; v++)
        say_bytes(&views[v], to);
    for (int v = 0; v < count; v++)
        say_memory(&views[v], to);
}

static void explain_modelled(const struct results *results, const struct speaker *to)
{
    for (int m = 0; m < modelled_machine_count; m++)
        say_machine(results, &modelled_machines[m], to);
    for (int m = 0; m < modelled_machine_count; m++)
        say_lock(results, &modelled_machines[m], to);
}

static void explain_times(const struct view *views, int count, const struct speaker *to)
{
    static void (*const sentences[])(const struct view *view, const struct speaker *to) = {say_times, say_speedup,
                                                                                           say_wrapper, say_overlap};
    for (size_t s = 0; s < sizeof sentences / sizeof *sentences; s++)
        for (int v = 0; v < count; v++)
            sentences[s](&views[v], to);
    if (count)
        say_what_of_gpus(views[0].results, to);
}

/* ---- the page and the terminal --------------------------------------------------------------- */

void explain_page(const struct results *results, enum explained part, FILE *out)
{
    struct view views[VIEWS_MAX];
    int count = views_make(results, views);
    struct speaker item = {out, MANNER_ITEM};
    switch (part) {
    case EXPLAINED_HEADLINE:
        explain_headline(results, &(struct speaker){out, MANNER_PARAGRAPH});
        break;
    case EXPLAINED_POINTS:
        explain_points(results, views, count, &item);
        break;
    case EXPLAINED_MODELLED:
        explain_modelled(results, &item);
        break;
    case EXPLAINED_TIMES:
        explain_times(views, count, &item);
        break;
    }
}

/* The headline last: a terminal shows the end. */
void explain_print(const struct results *results, FILE *out)
{
    struct view views[VIEWS_MAX];
    int count = views_make(results, views);
    struct speaker line = {out, MANNER_LINE};
    explain_facts(views, count, &line);
    explain_modelled(results, &line);
    explain_times(views, count, &line);
    explain_points(results, views, count, &line);
    fputs("\nIn short\n", out);
    explain_headline(results, &line);
}
