/* SPDX-License-Identifier: MIT
 *
 * The LSTM model in double, written plainly: the loss alone, from which gradients follow by finite differences.
 */
#ifndef TESTS_NN_REFERENCE_LSTM_H
#define TESTS_NN_REFERENCE_LSTM_H

#include <stddef.h>
#include <stdint.h>

#include "nn/model.h"

#define REFERENCE_LSTM_WIDEST 64 /* width of the hidden state and vocabulary, at most */

/* Mean cross-entropy over all tokens of the batch. parameters[i]: the elements of the model's parameter i, row-major; input:
 * tokens (int32). */
double reference_lstm_loss(const struct model *model, double *const *parameters, const void *input, const int32_t *labels,
                           size_t batch);

#endif
