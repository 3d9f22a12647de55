/* SPDX-License-Identifier: MIT
 *
 * GPT-2's decoder: what gpt_describe.c (names, sizes, settings) and gpt.c (the passes) agree on.
 */
#ifndef NN_GPT_H
#define NN_GPT_H

#include "nn/model.h"

/* Parameters by number, in registration order; those of layer l from gpt_layer(l) on, each weight followed by its bias. */
enum { GPT_TOKENS, GPT_POSITIONS, GPT_LAYERS };
enum { GPT_NORM_1 = 0, GPT_QKV = 2, GPT_MIX = 4, GPT_NORM_2 = 6, GPT_EXPAND = 8, GPT_CONTRACT = 10, GPT_LAYER_PARAMETERS = 12 };

static inline int gpt_layer(size_t layer)
{
    return GPT_LAYERS + (int)layer * GPT_LAYER_PARAMETERS;
}

int gpt_describe(struct model *model, const struct model_settings *settings);

#endif
