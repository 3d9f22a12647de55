/* SPDX-License-Identifier: MIT
 *
 * The LSTM over tokens: what lstm_describe.c (names, sizes, settings) and lstm.c (the passes) agree on.
 */
#ifndef NN_LSTM_H
#define NN_LSTM_H

#include "nn/model.h"

/* Parameters by number, in registration order: nn.Embedding, nn.LSTM, nn.Linear. */
enum {
    LSTM_EMBEDDING, /* [vocabulary][embedding] */
    LSTM_WEIGHT_IH, /* [4 width][embedding]; gates i, f, g, o */
    LSTM_WEIGHT_HH, /* [4 width][width] */
    LSTM_BIAS_IH,   /* [4 width] */
    LSTM_BIAS_HH,
    LSTM_HEAD, /* [vocabulary][width] */
    LSTM_HEAD_BIAS,
    LSTM_PARAMETERS
};

int lstm_describe(struct model *model, const struct model_settings *settings);

#endif
