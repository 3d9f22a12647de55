/* SPDX-License-Identifier: MIT
 *
 * The mlp in double, written plainly: the loss alone, from which gradients follow by finite differences.
 */
#ifndef TESTS_NN_REFERENCE_MLP_H
#define TESTS_NN_REFERENCE_MLP_H

#include <stddef.h>
#include <stdint.h>

#include "nn/model.h"

#define REFERENCE_WIDEST 64

/* Mean cross-entropy over the batch. parameters[i]: the elements of the model's parameter i, row-major; input:
 * floats. */
double reference_mlp_loss(const struct model *model, double *const *parameters, const void *input, const int32_t *labels,
                          size_t batch);

#endif
