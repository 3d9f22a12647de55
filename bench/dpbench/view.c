/* SPDX-License-Identifier: MIT
 *
 * Looking up results (view.h).
 */
#include "view.h"
#include "text.h"

#include <math.h>
#include <string.h>

static void add_gpus(struct view *view, int gpus)
{
    int place = 0;
    while (place < view->gpu_count && view->gpus[place] < gpus)
        place++;
    if ((place < view->gpu_count && view->gpus[place] == gpus) || view->gpu_count == SETTINGS_MAX_GPUS)
        return;
    memmove(view->gpus + place + 1, view->gpus + place, (size_t)(view->gpu_count - place) * sizeof *view->gpus);
    view->gpus[place] = gpus;
    view->gpu_count++;
}

static bool row_belongs(const struct table *rows, int row, const struct view *view)
{
    return text_is(table_get(rows, row, "model"), view->workload->model) &&
           text_is(table_get(rows, row, "data"), view->workload->data) &&
           text_is(table_get(rows, row, "variant"), view->workload->variant) &&
           text_is(table_get(rows, row, "scaling"), scaling_name(view->scaling));
}

/* Is `variant` that of the workload, alone or before a cell's own option? */
static bool variant_belongs(const char *variant, const char *workload)
{
    size_t length = strlen(workload);
    return strncmp(variant, workload, length) == 0 &&
           (!variant[length] || text_is(variant + length + (length && variant[length] == ';'), "no_overlap=1"));
}

const struct workload *row_workload(const struct table *rows, int row)
{
    for (int w = 0; w < workload_count; w++)
        if (text_is(table_get(rows, row, "model"), workloads[w].model) &&
            text_is(table_get(rows, row, "data"), workloads[w].data) &&
            variant_belongs(table_get(rows, row, "variant"), workloads[w].variant))
            return &workloads[w];
    return NULL;
}

int executed_row(const struct table *rows, int start)
{
    for (int row = start; row < rows->row_count; row++)
        if (text_is(table_get(rows, row, "status"), "ok") && !strstr(table_get(rows, row, "variant"), SHAPE_ONLY))
            return row;
    return -1;
}

int views_make(const struct results *results, struct view views[VIEWS_MAX])
{
    int count = 0;
    for (int w = 0; w < workload_count; w++)
        for (enum scaling scaling = SCALING_STRONG; scaling <= SCALING_WEAK && count < VIEWS_MAX; scaling++) {
            struct view view = {.results = results, .workload = &workloads[w], .scaling = scaling};
            bool any = false;
            for (int row = 0; row < results->rows.row_count; row++) {
                if (!row_belongs(&results->rows, row, &view))
                    continue;
                any = true;
                if (!text_is(table_get(&results->rows, row, "strategy"), "single"))
                    add_gpus(&view, (int)table_number(&results->rows, row, "gpus"));
            }
            if (any)
                views[count++] = view;
        }
    return count;
}

struct view view_of_row(const struct results *results, int row)
{
    bool weak = text_is(table_get(&results->rows, row, "scaling"), "weak");
    return (struct view){.results = results,
                         .workload = row_workload(&results->rows, row),
                         .scaling = weak ? SCALING_WEAK : SCALING_STRONG};
}

int view_row(const struct view *view, const char *strategy, int gpus, bool no_overlap)
{
    struct cell cell = cell_make(view->workload, view->scaling, strategy, gpus, no_overlap);
    int row = results_find(&view->results->rows, 0, &cell);
    return row >= 0 && text_is(table_get(&view->results->rows, row, "status"), "ok") ? row : -1;
}

double view_number(const struct view *view, const char *strategy, int gpus, const char *column)
{
    int row = view_row(view, strategy, gpus, false);
    return row >= 0 ? table_number(&view->results->rows, row, column) : NAN;
}

bool view_oversubscribed(const struct view *view, const char *strategy, int gpus)
{
    int row = view_row(view, strategy, gpus, false);
    return row >= 0 && text_is(table_get(&view->results->rows, row, "oversubscribed"), "yes");
}

int view_pair(const struct view *view, int gpus, const char *left, const char *right)
{
    const struct table *pairs = &view->results->pairs;
    for (int row = 0; row < pairs->row_count; row++)
        if (row_belongs(pairs, row, view) && (int)table_number(pairs, row, "gpus") == gpus &&
            text_is(table_get(pairs, row, "left"), left) && text_is(table_get(pairs, row, "right"), right))
            return row;
    return -1;
}

#define LEAST 0.005 /* half of the last digit that is printed */

enum seen seen(double low, double high)
{
    if (!isfinite(low) || !isfinite(high))
        return SEEN_UNKNOWN;
    return low >= 1 + LEAST ? SEEN_ABOVE : high <= 1 - LEAST ? SEEN_BELOW : SEEN_NONE;
}

enum seen view_overlap(const struct view *view, int gpus)
{
    const struct table *pairs = &view->results->pairs, *rows = &view->results->rows;
    int pair = view_pair(view, gpus, "ddp;no_overlap=1", "ddp");
    int with = view_row(view, "ddp", gpus, false), without = view_row(view, "ddp", gpus, true);
    if (pair < 0 || with < 0 || without < 0)
        return SEEN_UNKNOWN;
    enum seen what = seen(table_number(pairs, pair, "ratio_lo"), table_number(pairs, pair, "ratio_hi"));
    double saved = table_number(rows, with, "overlap_saved_ms");
    double spread = table_number(rows, with, "step_ms_mad") + table_number(rows, without, "step_ms_mad");
    if (what == SEEN_UNKNOWN && fabs(saved) <= spread)
        return SEEN_NONE;
    return what;
}

double row_spread(const struct table *rows, int row)
{
    return table_number(rows, row, "step_ms_mad") / table_number(rows, row, "step_ms");
}

int view_largest(const struct view *view, bool timed)
{
    for (int i = view->gpu_count - 1; i >= 0; i--) {
        int n = view->gpus[i];
        bool both = view_row(view, "dp", n, false) >= 0 && view_row(view, "ddp", n, false) >= 0;
        if (both && !(timed && view_oversubscribed(view, "dp", n)))
            return n;
    }
    return 0;
}
