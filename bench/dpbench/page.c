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

void page_figure(const struct page *page, const struct figure *figure, FILE *out)
{
    char *path = text_format("%s/%s.svg", page->folder, figure->name);
    void *data = NULL;
    size_t bytes = 0;
    bool drawn =
        folder_has(page->folder, path + strlen(page->folder) + 1) && !file_read(path, PICTURE_LIMIT, &data, &bytes);
    fputs("<figure>", out);
    if (drawn) {
        fputs("<img alt=\"", out);
        text_html(out, figure->title);
        fputs("\" src=\"data:image/svg+xml;base64,", out);
        base64_print(out, data, bytes);
        fputs("\">", out);
    } else {
        fprintf(out, "<p class=\"missing\">%s.svg was not drawn (gnuplot is missing?)</p>", figure->name);
    }
    fputs("<figcaption>", out);
    text_html(out, figure->caption);
    fputs("</figcaption></figure>\n", out);
    free(data);
    free(path);
}

void page_figures(const struct page *page, int band, FILE *out)
{
    for (int i = 0; i < page->figure_count; i++)
        if (page->figures[i].band == band)
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
