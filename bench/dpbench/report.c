/* SPDX-License-Identifier: MIT
 *
 * report.html from a template (report.h). The template holds the words and @NAME@ marks; this file fills the marks from
 * the tables, so a teacher can change the page without a compiler.
 */
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "page.h"
#include "sys/exit_codes.h"
#include "sys/file.h"
#include "sys/log.h"
#include "text.h"
#include "view.h"

#define TEMPLATE_LIMIT ((size_t)1 << 20)

static void put_name(const struct table *rows, int row, FILE *out)
{
    const struct workload *workload = row_workload(rows, row);
    const char *variant = table_get(rows, row, "variant"),
               *weak = text_is(table_get(rows, row, "scaling"), "weak") ? ", weak" : "";
    bool apart = workload && !text_is(variant, workload->variant);
    const char *shape = workload && workload->shape_gpus ? ", shape only" : "";
    char *name = workload ? text_format("%s%s%s", workload->name, weak, shape)
                          : text_format("%s, %s %s%s", table_get(rows, row, "model"), table_get(rows, row, "data"),
                                        variant, weak);
    char *strategy = text_format("%s%s", table_get(rows, row, "strategy"), apart ? ", no overlap" : "");
    page_cell(out, name, "");
    page_cell(out, strategy, "");
    page_cell(out, table_get(rows, row, "gpus"), "n");
    free(strategy);
    free(name);
}

/* Band 1: what is true on any machine, a row a cell. */
static void put_facts(const struct page *page, FILE *out)
{
    const struct table *rows = &page->results->rows;
    for (int row = 0; row < rows->row_count; row++) {
        const char *equal = table_get(rows, row, "equal");
        fputs("<tr>", out);
        put_name(rows, row, out);
        page_cell(out, table_get(rows, row, "global_batch"), "n");
        page_number(out, table_number(rows, row, "mem_device0_mib"), 1);
        page_number(out, table_number(rows, row, "mem_median_others_mib"), 1);
        page_number(out, table_number(rows, row, "mem_imbalance"), 2);
        page_number(out, table_number(rows, row, "comm_mib"), 2);
        page_number(out, table_number(rows, row, "comm_mib_formula"), 2);
        page_number(out, table_number(rows, row, "busiest_link_mib"), 2);
        page_number(out, table_number(rows, row, "loss_last"), 4);
        page_cell(out, equal, text_is(equal, "no") ? "bad" : !text_is(equal, "na") ? "good" : "");
        fputs("</tr>\n", out);
    }
}

static void put_failures(const struct page *page, FILE *out)
{
    const struct table *rows = &page->results->rows;
    bool any = false;
    for (int row = 0; row < rows->row_count; row++) {
        if (text_is(table_get(rows, row, "status"), "ok"))
            continue;
        if (!any)
            fputs(
                "<div class=\"failures\"><h3>Cells that failed</h3><table><tr><th>cell</th><th>strategy</th><th>N</th>"
                "<th>status</th><th>reason</th></tr>\n",
                out);
        any = true;
        fputs("<tr>", out);
        put_name(rows, row, out);
        page_cell(out, table_get(rows, row, "status"), "bad");
        page_cell(out, table_get(rows, row, "reason"), "");
        fputs("</tr>\n", out);
    }
    if (any)
        fputs("</table></div>\n", out);
}

/* The row of pairs.csv that sets this cell beside `single`; -1: none. */
static int find_single_pair(const struct page *page, int row)
{
    const struct table *rows = &page->results->rows;
    struct view view = view_of_row(page->results, row);
    if (!view.workload)
        return -1;
    bool apart = !text_is(table_get(rows, row, "variant"), view.workload->variant);
    return view_pair(&view, (int)table_number(rows, row, "gpus"),
                     apart ? "ddp;no_overlap=1" : table_get(rows, row, "strategy"), "single");
}

/* "1.05 (1.01 to 1.10)": over single, with its interval from pairs.csv. */
static void put_speedup(const struct page *page, int row, FILE *out)
{
    const struct table *rows = &page->results->rows, *pairs = &page->results->pairs;
    double speedup = table_number(rows, row, "speedup");
    int pair = find_single_pair(page, row);
    double low = pair >= 0 ? table_number(pairs, pair, "speedup_lo") : NAN;
    char text[64] = "";
    if (isfinite(speedup) && isfinite(low))
        snprintf(text, sizeof text, "%.2f (%.2f to %.2f)", speedup, low, table_number(pairs, pair, "speedup_hi"));
    else if (isfinite(speedup))
        snprintf(text, sizeof text, "%.2f%s", speedup,
                 text_is(table_get(rows, row, "rounds"), "1") ? " (one round)" : "");
    page_cell(out, text, "n");
}

static void put_spread(const struct table *rows, int row, FILE *out)
{
    char text[64];
    bool unsteady = row_spread(rows, row) > UNSTEADY;
    snprintf(text, sizeof text, "%.2f (%.0f %%)", table_number(rows, row, "step_ms_mad"), 100 * row_spread(rows, row));
    page_cell(out, text, unsteady ? "n bad" : "n");
}

static void put_overlap(const struct page *page, int row, FILE *out)
{
    const struct table *rows = &page->results->rows;
    double saved = table_number(rows, row, "overlap_saved_ms");
    struct view view = view_of_row(page->results, row);
    bool none =
        view.workload && isfinite(saved) && view_overlap(&view, (int)table_number(rows, row, "gpus")) == SEEN_NONE;
    if (none)
        page_cell(out, "none seen", "n");
    else
        page_number(out, saved, 2);
}

/* Band 3: times, a row a cell of the workloads made for times; on more devices than cores none are shown. */
static void put_times(const struct page *page, FILE *out)
{
    const struct table *rows = &page->results->rows;
    for (int row = 0; row < rows->row_count; row++) {
        const struct workload *workload = row_workload(rows, row);
        if (!text_is(table_get(rows, row, "status"), "ok") || (workload && !workload->timed))
            continue;
        fputs("<tr>", out);
        put_name(rows, row, out);
        if (text_is(table_get(rows, row, "oversubscribed"), "yes")) {
            fputs("<td colspan=\"6\" class=\"quiet\">more devices than cores: no times</td></tr>\n", out);
            continue;
        }
        page_number(out, table_number(rows, row, "step_ms"), 2);
        put_spread(rows, row, out);
        page_number(out, table_number(rows, row, "step_ms_p95"), 2);
        page_number(out, table_number(rows, row, "samples_per_s"), 0);
        put_speedup(page, row, out);
        put_overlap(page, row, out);
        fputs("</tr>\n", out);
    }
}

static void put_setting(FILE *out, const char *name, const char *value)
{
    if (!*value)
        return;
    fputs("<dt>", out);
    text_html(out, name);
    fputs("</dt><dd>", out);
    text_html(out, value);
    fputs("</dd>", out);
}

/* "20260131T235959Z", as the run and its folder are named, for a reader. */
static void put_begun(FILE *out, const char *run)
{
    char text[48];
    if (strlen(run) == 16)
        snprintf(text, sizeof text, "%.4s-%.2s-%.2s %.2s:%.2s:%.2s UTC", run, run + 4, run + 6, run + 9, run + 11,
                 run + 13);
    else
        snprintf(text, sizeof text, "%s", run);
    put_setting(out, "begun", text);
}

/* What was run, from the first row that went well, if there is one of a cell that was executed. */
static void put_settings(const struct page *page, FILE *out)
{
    const struct table *rows = &page->results->rows;
    int executed = executed_row(rows, 0), row = executed >= 0 ? executed : table_find(rows, 0, "status", "ok");
    if (row < 0)
        return;
    bool soft = text_is(table_get(rows, row, "backend"), "soft");
    put_setting(out, "backend",
                executed < 0 ? "none: recorded, not executed"
                : soft       ? "soft GPUs on CPU cores"
                             : table_get(rows, row, "backend"));
    if (executed >= 0) {
        put_setting(out, "device", table_get(rows, row, "device"));
        put_setting(out, "cores per device", table_get(rows, row, "cores_per_device"));
    }
    put_setting(out, "precision", table_get(rows, row, "precision"));
    put_setting(out, "optimizer", table_get(rows, row, "optimizer"));
    put_setting(out, "host", table_get(rows, row, "host"));
    put_begun(out, table_get(rows, row, "run"));
    struct view views[VIEWS_MAX];
    int count = views_make(page->results, views);
    for (int v = 0; v < count; v++)
        if (v == 0 || views[v].workload != views[v - 1].workload)
            put_setting(out, views[v].workload->name, views[v].workload->title);
    for (int w = 0; w < workload_count; w++)
        if (!workloads[w].batch && table_find(&page->results->modelled, 0, "model", workloads[w].model) >= 0)
            put_setting(out, workloads[w].name, workloads[w].title);
}

/* ---- the template ---------------------------------------------------------------------------- */

static void put_headline(const struct page *page, FILE *out)
{
    explain_page(page->results, EXPLAINED_HEADLINE, out);
}

static void put_points(const struct page *page, FILE *out)
{
    explain_page(page->results, EXPLAINED_POINTS, out);
}

static void put_words(const struct page *page, FILE *out)
{
    explain_page(page->results, EXPLAINED_TIMES, out);
}

static void put_band1(const struct page *page, FILE *out)
{
    page_figures(page, 1, false, out);
}

static void put_band3(const struct page *page, FILE *out)
{
    page_figures(page, 3, false, out);
}

static void put_band3_folded(const struct page *page, FILE *out)
{
    page_figures(page, 3, true, out);
}

static void put_band2(const struct page *page, FILE *out)
{
    page_modelled(page, out);
}

static const struct mark {
    const char *name;
    void (*put)(const struct page *page, FILE *out);
} marks[] = {
    {"HEADLINE", put_headline},   {"POINTS", put_points},       {"SETTINGS", put_settings},
    {"BAND1_FIGURES", put_band1}, {"BAND1_ROWS", put_facts},    {"FAILURES", put_failures},
    {"BAND2", put_band2},         {"BAND3_FIGURES", put_band3}, {"BAND3_FOLDED", put_band3_folded},
    {"BAND3_WORDS", put_words},   {"BAND3_ROWS", put_times},
};

/* The next @ before a capital letter: CSS has others. */
static const char *next_mark(const char *at)
{
    const char *mark = strchr(at, '@');
    while (mark && !(mark[1] >= 'A' && mark[1] <= 'Z'))
        mark = strchr(mark + 1, '@');
    return mark;
}

/* Copies the template, replacing @NAME@. An unknown name is a mistake in the template: EXIT_BAD_FILE. */
static int fill(const char *template, const struct page *page, FILE *out)
{
    const char *at = template;
    for (const char *mark; (mark = next_mark(at));) {
        const char *end = strchr(mark + 1, '@');
        size_t i = 0, length = end ? (size_t)(end - mark - 1) : 0, count = sizeof marks / sizeof *marks;
        while (i < count && (strlen(marks[i].name) != length || strncmp(marks[i].name, mark + 1, length) != 0))
            i++;
        if (!end || i == count) {
            log_error("report.html.in: '%.24s' is no mark of the report", mark);
            return EXIT_BAD_FILE;
        }
        fwrite(at, 1, (size_t)(mark - at), out);
        marks[i].put(page, out);
        at = end + 1;
    }
    fputs(at, out);
    return EXIT_OK;
}

/* *template is the caller's (free). */
static int read_template(const char *plots, char **template)
{
    char *path = text_format("%s/report.html.in", plots);
    void *data = NULL;
    size_t bytes;
    int rc = file_read(path, TEMPLATE_LIMIT, &data, &bytes);
    if (!rc)
        *template = text_format("%.*s", (int)bytes, (const char *)data);
    free(data);
    free(path);
    return rc;
}

static int write_page(const struct page *page, const char *template)
{
    char *target = text_format("%s/report.html", page->folder);
    struct text text;
    text_open(&text);
    int rc = fill(template, page, text.out);
    text_close(&text);
    if (!rc)
        rc = file_write_atomic(target, text.data, text.size);
    free(text.data);
    free(target);
    return rc;
}

void report_forget(const char *folder)
{
    static const char *const made[] = {"report.html", "results.json"};
    figures_forget(folder);
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) {
        char *path = text_format("%s/%s", folder, made[i]);
        unlink(path);
        free(path);
    }
}

int report_make(const char *folder, const char *plots)
{
    struct results results;
    results_open(&results);
    struct page page = {.results = &results, .folder = folder, .plots = plots};
    char *template = NULL;
    int rc = read_template(plots, &template), drawn = EXIT_OK;
    if (!rc)
        rc = results_read(&results, folder);
    if (!rc)
        rc = results_write_json(&results, folder);
    if (!rc) {
        figures_forget(folder); /* what is not drawn this time is no picture of these tables */
        page.figure_count = figures_write(&results, folder, page.figures);
        rc = page.figure_count < 0 ? EXIT_RESOURCE : EXIT_OK;
    }
    if (!rc)
        drawn = figures_draw(page.figures, page.figure_count, folder, plots);
    if (!rc)
        rc = write_page(&page, template);
    if (!rc) {
        explain_print(&results, stdout);
        printf("%s/report.html%s\n", folder, drawn ? " (without plots)" : "");
    }
    free(template);
    results_close(&results);
    return rc;
}
