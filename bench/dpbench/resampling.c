/* SPDX-License-Identifier: MIT
 *
 * The middle value, the bootstrap and the rank test (resampling.h).
 */
#include "resampling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "run/statistics.h"
#include "sys/random.h"
#include "text.h"

#define BOOTSTRAP_RESAMPLES 2000
#define BOOTSTRAP_SEED 1
#define BOOTSTRAP_STREAM (UINT64_C(1) << 48) /* no purpose of sys/random.h reaches it */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

size_t resampling_middle(const double *values, size_t n)
{
    size_t middle = 0;
    for (size_t i = 0; i < n; i++) {
        size_t below = 0;
        for (size_t j = 0; j < n; j++)
            below += values[j] < values[i] || (j < i && values[j] == values[i]);
        if (below == (n - 1) / 2)
            middle = i;
    }
    return middle;
}

struct interval resampling_interval(const double *values, size_t n)
{
    if (n < 2)
        return (struct interval){NAN, NAN};
    double *resample = text_must(malloc(n * sizeof *resample));
    double *medians = text_must(malloc(BOOTSTRAP_RESAMPLES * sizeof *medians));
    uint64_t draw = 0;
    for (int r = 0; r < BOOTSTRAP_RESAMPLES; r++) {
        for (size_t i = 0; i < n; i++) {
            uint32_t bits = random_u32(BOOTSTRAP_SEED, BOOTSTRAP_STREAM, draw++);
            resample[i] = values[((uint64_t)bits * n) >> 32];
        }
        medians[r] = statistics_median(resample, n);
    }
    struct interval interval = {statistics_quantile(medians, BOOTSTRAP_RESAMPLES, 0.025),
                                statistics_quantile(medians, BOOTSTRAP_RESAMPLES, 0.975)};
    free(medians);
    free(resample);
    return interval;
}

double resampling_rank_test(const double *a, size_t na, const double *b, size_t nb)
{
    if (na < RANK_TEST_MINIMUM || nb < RANK_TEST_MINIMUM)
        return NAN;
    double u = 0; /* pairs in which a is the larger, ties half */
    for (size_t i = 0; i < na; i++)
        for (size_t j = 0; j < nb; j++)
            u += a[i] > b[j] ? 1.0 : a[i] == b[j] ? 0.5 : 0.0;
    size_t n = na + nb;
    double *all = text_must(malloc(n * sizeof *all));
    memcpy(all, a, na * sizeof *all);
    memcpy(all + na, b, nb * sizeof *all);
    qsort(all, n, sizeof *all, ascending);
    double ties = 0; /* sum of t^3 - t over groups of t equal values */
    for (size_t i = 0, t; i < n; i += t) {
        for (t = 1; i + t < n && all[i + t] == all[i]; t++)
            continue;
        ties += (double)t * (double)t * (double)t - (double)t;
    }
    free(all);
    double pairs = (double)na * (double)nb, total = (double)n;
    double variance = pairs / 12 * (total + 1 - ties / (total * (total - 1)));
    if (variance <= 0)
        return 1;
    double distance = fmax(0, fabs(u - pairs / 2) - 0.5);
    return erfc(distance / sqrt(variance) / sqrt(2));
}
