/* SPDX-License-Identifier: MIT
 *
 * The modelled band on the page (page.h): a table and figures for each machine.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "modelled.h"
#include "page.h"
#include "sys/file.h"
#include "text.h"

#define DOCUMENT_LIMIT ((size_t)1 << 20)

/* The line of docs/fidelity.md that counts its predictions, "17 predictions: 8 within 5 %, ..."; NULL: none. Its end
 * is cut in the text. */
static const char *find_summary(char *text)
{
    for (char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        size_t digits = strspn(line, "0123456789");
        if (!digits || strncmp(line + digits, " predictions: ", strlen(" predictions: ")) != 0)
            continue;
        line[strcspn(line, "\n")] = '\0';
        return line;
    }
    return NULL;
}

/* How far off the model is, if the replay has been checked against what others published. */
static void put_error(const struct page *page, FILE *out)
{
    char *folder = text_format("%s/../docs", page->plots), *path = text_format("%s/fidelity.md", folder);
    void *data = NULL;
    size_t bytes = 0;
    bool read = folder_has(folder, "fidelity.md") && !file_read(path, DOCUMENT_LIMIT, &data, &bytes);
    char *text = text_format("%.*s", read ? (int)bytes : 0, read ? (const char *)data : "");
    const char *summary = find_summary(text);
    fputs("<p><b>How far to trust it.</b> ", out);
    if (summary) {
        fputs("Against published ladders of other machines and programs: ", out);
        text_html(out, summary);
        fputs(" Each stands in <code>docs/fidelity.md</code>, with its source and what is known of the reason.", out);
    } else {
        fputs("The model is not yet checked against published ladders: its error is not known.", out);
    }
    fputs(
        " Products take their FLOPs by the machine's measured rate, other kernels their bytes, collectives a measured "
        "table by size. <b>Alpha-beta</b> is the same step with collectives by the plain teaching model, latency + "
        "bytes / bandwidth: beside the table's it shows what that model misses.</p>\n",
        out);
    free(text);
    free(data);
    free(path);
    free(folder);
}

static const char table_head[] =
    "<div class=\"wide\"><table><tr><th>workload</th><th>strategy</th><th class=\"n\">N</th>"
    "<th class=\"n\">global batch</th><th class=\"n\">step ms</th><th class=\"n\">alpha-beta ms</th>"
    "<th class=\"n\">samples/s</th><th class=\"n\">speed-up</th><th class=\"n\">moving data ms</th>"
    "<th class=\"n\">device 0 MiB</th>"
    "<th class=\"n\">others MiB</th><th class=\"n\">device 0 busy %</th>"
    "<th class=\"n\">all busy %</th></tr>\n";
#define TABLE_COLUMNS 13

static void put_row(const struct results *results, const struct modelled_cell *cell, FILE *out)
{
    const struct table *rows = &results->modelled, *more = &results->modelled_more;
    int row = modelled_find(rows, 0, cell), other = modelled_find(more, 0, cell);
    if (row < 0)
        return;
    fputs("<tr>", out);
    page_cell(out, cell->workload->name, "");
    char strategy[40];
    snprintf(strategy, sizeof strategy, "%s%s", cell->strategy, cell->lock ? ", launch lock" : "");
    page_cell(out, strategy, "");
    page_number(out, cell->gpus, 0);
    bool fits = !text_is(table_get(rows, row, "status"), "out_of_memory");
    if (other < 0 || !fits) {
        fprintf(out, "<td colspan=\"%d\" class=\"bad\">", TABLE_COLUMNS - 3);
        text_html(out, fits ? table_get(rows, row, "reason") : "does not fit in a device's memory");
        fputs("</td></tr>\n", out);
        return;
    }
    double step = table_number(rows, row, "step_ms");
    page_cell(out, table_get(rows, row, "global_batch"), "n");
    page_number(out, step, step < 10 ? 3 : 1);
    page_number(out, table_number(more, other, "alpha_beta_step_ms"), step < 10 ? 3 : 1);
    page_number(out, table_number(rows, row, "samples_per_s"), 0);
    page_number(out, table_number(rows, row, "speedup"), 2);
    page_number(out, table_number(more, other, "exposed_ms"), 2);
    page_number(out, table_number(rows, row, "mem_device0_mib"), 0);
    page_number(out, table_number(rows, row, "mem_median_others_mib"), 0);
    page_number(out, 100 * table_number(rows, row, "util_device0"), 0);
    page_number(out, 100 * table_number(rows, row, "util_mean"), 0);
    fputs("</tr>\n", out);
}

/* Single on one device, then both strategies on more; on one device they are single's step, and stand in results.csv.
 */
static void put_table(const struct page *page, const struct modelled_machine *machine, FILE *out)
{
    const struct settings all = {.single = true, .dp = true, .ddp = true};
    fputs(table_head, out);
    for (int w = 0; w < workload_count; w++) {
        struct modelled_cell cells[MODELLED_CELLS_MAX];
        int count = workloads[w].modelled_batch ? modelled_cells(&all, &workloads[w], machine, cells) : 0;
        for (int c = 0; c < count; c++)
            if (cells[c].gpus > 1 || text_is(cells[c].strategy, "single"))
                put_row(page->results, &cells[c], out);
    }
    fputs("</table></div>\n", out);
}

static void put_figures(const struct page *page, const struct modelled_machine *machine, bool folded, FILE *out)
{
    for (int i = 0; i < page->figure_count; i++) {
        const struct figure *figure = &page->figures[i];
        if (figure->band == 2 && text_is(figure->machine, machine->name) && figure->folded == folded)
            page_figure(page, figure, out);
    }
}

static bool has_rows(const struct page *page, const struct modelled_machine *machine)
{
    return table_find(&page->results->modelled, 0, "machine", machine->name) >= 0;
}

void page_modelled(const struct page *page, FILE *out)
{
    const struct table *rows = &page->results->modelled;
    int left_out = table_find(rows, 0, "status", "left_out");
    if (left_out >= 0 || rows->row_count == 0) {
        fputs("<p class=\"failures\"><b>Left out.</b> ", out);
        text_html(out, left_out >= 0 ? table_get(rows, left_out, "reason")
                                     : "None of the workloads of this sweep is in this band.");
        fputs("</p>\n", out);
        return;
    }
    put_error(page, out);
    fputs("<details><summary>All comparisons of this band in words; what an interpreter's launch lock would "
          "add</summary>\n<ul>\n",
          out);
    explain_page(page->results, EXPLAINED_MODELLED, out);
    fputs("</ul></details>\n", out);
    for (int m = 0; m < modelled_machine_count; m++) {
        const struct modelled_machine *machine = &modelled_machines[m];
        if (!has_rows(page, machine))
            continue;
        fprintf(out, "<h3>Modelled on %s (<code>%s</code>)</h3>\n", machine->title, machine->name);
        put_figures(page, machine, false, out);
        fprintf(out, "<details><summary>Breakdown and utilization, modelled on %s</summary>\n", machine->name);
        put_figures(page, machine, true, out);
        fputs("</details>\n", out);
        put_table(page, machine, out);
    }
}
