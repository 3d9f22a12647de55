/* SPDX-License-Identifier: MIT
 *
 * Device tensors against references in double, with tolerances of the case's own.
 */
#ifndef TESTS_KERNELS_TENSOR_H
#define TESTS_KERNELS_TENSOR_H

#include <stdlib.h>
#include <string.h>

#include "typed.h"

/* How far one rounding to the type moves a result. */
static inline double tensor_rounding(enum element_type type)
{
    return type == ELEMENT_F32 ? 0 : type == ELEMENT_BF16 ? 1.0 / 256 : 1.0 / 2048;
}

static inline void tensor_expect(const char *label, enum element_type type, const void *device, const double *expected,
                                 size_t n, double relative, double absolute)
{
    float *got = test_memory(n * sizeof *got);
    typed_read(type, got, device, n);
    test_floats(label, got, expected, n, relative + tensor_rounding(type), absolute);
    free(got);
}

#endif
