/* SPDX-License-Identifier: MIT
 *
 * Pictures and cells (page.h).
 */
#include "page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base64.h"
#include "folder.h"
#include "sys/file.h"
#include "text.h"

#define PICTURE_LIMIT ((size_t)8 << 20)

/* ---- pictures -------------------------------------------------------------------------------- */

/* How to read a kind of figure is said at the first one of a band and machine. */
static bool is_first(const struct page *page, const struct figure *figure)
{
    const struct figure *other = page->figures;
    while (other < figure && (other->band != figure->band || !text_is(other->script, figure->script) ||
                              (figure->machine && !text_is(other->machine, figure->machine))))
        other++;
    return other == figure;
}

static void put_caption(const struct page *page, const struct figure *figure, FILE *out)
{
    fputs("<figcaption>", out);
    if (*figure->takeaway) {
        fputs("<b>", out);
        text_html(out, figure->takeaway);
        fputs("</b>", out);
    }
    if (is_first(page, figure)) {
        fputs(*figure->takeaway ? "<br>" : "", out);
        text_html(out, figure->caption);
    }
    fputs("</figcaption>", out);
}

void page_figure(const struct page *page, const struct figure *figure, FILE *out)
{
    char *path = text_format("%s/%s.svg", page->folder, figure->name);
    void *data = NULL;
    size_t bytes = 0;
    bool drawn =
        folder_has(page->folder, path + strlen(page->folder) + 1) && !file_read(path, PICTURE_LIMIT, &data, &bytes);
    fputs("<figure>", out);
    if (drawn) {
        fputs("<div class=\"wide\"><img alt=\"", out);
        text_html(out, figure->title);
        fputs("\" src=\"data:image/svg+xml;base64,", out);
        base64_print(out, data, bytes);
        fputs("\"></div>", out);
    } else {
        fprintf(out, "<p class=\"missing\">%s.svg was not drawn (gnuplot is missing?)</p>", figure->name);
    }
    put_caption(page, figure, out);
    fputs("</figure>\n", out);
    free(data);
    free(path);
}

void page_figures(const struct page *page, int band, bool folded, FILE *out)
{
    for (int i = 0; i < page->figure_count; i++)
        if (page->figures[i].band == band && page->figures[i].folded == folded)
            page_figure(page, &page->figures[i], out);
}

/* ---- tables ---------------------------------------------------------------------------------- */

void page_cell(FILE *out, const char *text, const char *class)
{
    fprintf(out, "<td%s%s%s>", *class ? " class=\"" : "", class, *class ? "\"" : "");
    text_html(out, *text ? text : "–");
    fputs("</td>", out);
}

void page_number(FILE *out, double value, int digits)
{
    char text[40] = "";
    if (isfinite(value))
        snprintf(text, sizeof text, "%.*f", digits, value);
    page_cell(out, text, "n");
}
