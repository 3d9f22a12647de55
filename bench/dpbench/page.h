/* SPDX-License-Identifier: MIT
 *
 * Parts of report.html that more than one band is made of (report.h).
 */
#ifndef DPBENCH_PAGE_H
#define DPBENCH_PAGE_H

#include "report.h"

struct page {
    const struct results *results;
    const char *folder, *plots;
    struct figure figures[FIGURES_MAX];
    int figure_count;
};

/* A table's cell; "" is shown as a dash. `class` is CSS's: n: a number, good, bad, quiet; "": none. */
void page_cell(FILE *out, const char *text, const char *class);
void page_number(FILE *out, double value, int digits);

/* One figure with its caption: the picture inside the page, or that it was not drawn. */
void page_figure(const struct page *page, const struct figure *figure, FILE *out);
/* Those of a band that are shown at once, or those on demand. */
void page_figures(const struct page *page, int band, bool folded, FILE *out);

/* ---- report_modelled.c ---- */

/* Band 2 below its head: how far to trust it, then tables and figures by machine; or why it was left out. */
void page_modelled(const struct page *page, FILE *out);

#endif
