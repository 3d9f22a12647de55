/* SPDX-License-Identifier: MIT
 *
 * See statistics.h. Each call sorts a copy: there are as many values as steps.
 */
#include "run/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double statistics_quantile(const double *values, size_t count, double q)
{
    double *sorted = count ? malloc(count * sizeof *sorted) : NULL;

    if (!sorted)
        return NAN;
    memcpy(sorted, values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare);
    double position = q * (double)(count - 1);
    size_t below = (size_t)position;
    size_t above = below + 1 < count ? below + 1 : below;
    double value = sorted[below] + (position - (double)below) * (sorted[above] - sorted[below]);
    free(sorted);
    return value;
}

double statistics_median(const double *values, size_t count)
{
    return statistics_quantile(values, count, 0.5);
}

double statistics_mad(const double *values, size_t count)
{
    double median = statistics_median(values, count);
    double *distances = count ? malloc(count * sizeof *distances) : NULL;

    if (!distances)
        return NAN;
    for (size_t i = 0; i < count; i++)
        distances[i] = fabs(values[i] - median);
    double mad = statistics_median(distances, count);
    free(distances);
    return mad;
}
