/* SPDX-License-Identifier: MIT
 *
 * GPT-2's decoder in double, written plainly: the loss alone, from which gradients follow by finite differences.
 */
#ifndef TESTS_NN_REFERENCE_GPT_H
#define TESTS_NN_REFERENCE_GPT_H

#include <stddef.h>
#include <stdint.h>

#include "nn/model.h"

#define REFERENCE_TOKENS 8   /* of a sample, at most */
#define REFERENCE_WIDEST 128 /* width of any tensor, at most */

/* Mean cross-entropy over all tokens of the batch. parameters[i]: the elements of the model's parameter i, row-major; input:
 * tokens (int32). */
double reference_gpt_loss(const struct model *model, double *const *parameters, const void *input, const int32_t *labels,
                          size_t batch);

#endif
