/* SPDX-License-Identifier: MIT
 *
 * What the sweep adds to run/statistics.h: the middle of some rounds, an interval round a median, a rank test.
 * Deterministic: resampling draws from Philox with a fixed seed, so the same samples give the same interval everywhere.
 */
#ifndef DPBENCH_RESAMPLING_H
#define DPBENCH_RESAMPLING_H

#include <stddef.h>

/* Index of the value in the middle of the order; of two middle ones the lower. n > 0. */
size_t resampling_middle(const double *values, size_t n);

struct interval {
    double low, high; /* NAN, NAN: fewer than two values */
};

/* 95 % interval of the median by the percentile bootstrap (Efron 1979), 2000 resamples. For a ratio give it the ratios
 * of each round: what drifts between rounds then falls out. */
struct interval resampling_interval(const double *values, size_t n);

/* Two-sided p value of the Mann-Whitney rank test (1947): normal approximation with correction for ties and continuity,
 * good from 9 values a side on; NAN below that. */
#define RANK_TEST_MINIMUM 9
double resampling_rank_test(const double *a, size_t na, const double *b, size_t nb);

#endif
