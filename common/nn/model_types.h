/* SPDX-License-Identifier: MIT
 *
 * The models that exist, one a line, each in its own file; model.c lists them by name.
 */
#ifndef NN_MODEL_TYPES_H
#define NN_MODEL_TYPES_H

#include "nn/model.h"

extern const struct model_type model_mlp; /* mlp.c */
extern const struct model_type model_resnet20, model_resnet50; /* resnet.c */
/* gpt.c: one model, its sizes by name */
extern const struct model_type model_gpt_tiny, model_gpt_nano, model_gpt_micro, model_gpt2_124m;
extern const struct model_type model_lstm, model_lstm_tiny; /* lstm.c */

#endif
