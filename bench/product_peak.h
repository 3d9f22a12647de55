/* SPDX-License-Identifier: MIT
 *
 * What no device can do: an upper bound on the rate of matrix products, for all who measure one. A rate above it is no
 * rate but a mistake in the measurement, as a rule the time of the launch taken as that of the run.
 */
#ifndef BENCH_PRODUCT_PEAK_H
#define BENCH_PRODUCT_PEAK_H

#include <stdbool.h>

#include "gpu/element.h"

/* What computes products on a device. */
struct product_units {
    bool gpu;   /* multiprocessors of a GPU, else cores of a CPU */
    bool tiles; /* cores: with a unit for tiles of matrices (x86's AMX) */
    int count;
};

/* FLOPs a second that these units stay below, however they are driven: at least 1.5 times the peak of any that are sold.
 * No figure of a device: never to be shown as one. */
double product_peak(const struct product_units *units, enum element_type type);

/* The units of a device of this process. Returns 0 or an exit code (reported). */
int product_units_read(struct product_units *units, int device);

/* `flops` of products of `type` took `seconds` on this device: possible? Else, and where the time is not above 0 or no
 * number, EXIT_CHECK_FAILED; the error names `what` was measured, both rates and the likely cause. */
int product_rate_check(const char *what, double flops, double seconds, enum element_type type, int device);

#endif
