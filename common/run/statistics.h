/* SPDX-License-Identifier: MIT
 *
 * Median, spread and tail of step times. NAN for no values: nothing measured is not 0.
 */
#ifndef RUN_STATISTICS_H
#define RUN_STATISTICS_H

#include <stddef.h>

double statistics_median(const double *values, size_t count);
double statistics_mad(const double *values, size_t count);                /* median of |value - median| */
double statistics_quantile(const double *values, size_t count, double q); /* linear between neighbours; q in [0, 1] */

#endif
