/* SPDX-License-Identifier: MIT
 *
 * Buffers of any element type: the tests think in floats, which are rounded to the type on their way to the device, also in
 * the test's own copy, so that the reference begins from the same numbers.
 */
#ifndef TESTS_KERNELS_TYPED_H
#define TESTS_KERNELS_TYPED_H

#include "gpu/element.h"
#include "harness.h"

/* x[n] := x rounded to the type; a device buffer of it. */
void *typed_device(enum element_type type, float *x, size_t n, size_t offset);
/* Random numbers (`sequence` names them) times `size` in x[n], and the same on the device. */
void *typed_random(enum element_type type, float *x, size_t n, uint32_t sequence, float size, size_t offset);
void typed_read(enum element_type type, float *x, const void *device, size_t n);

/* Checks with the error of one rounding to the type beside the kernel's own errors; absolute ones grow likewise. */
void typed_check(enum element_type type, const char *label, const float *got, const double *expected, size_t n, double relative,
                 double absolute);

/* Runs f for fp32, bf16, fp16. */
#define FOR_EACH_TYPE(type) for (enum element_type type = ELEMENT_F32; type <= ELEMENT_F16; type++)

#endif
