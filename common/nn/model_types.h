/* SPDX-License-Identifier: MIT
 *
 * The models that exist, one a line, each in its own file; model.c lists them by name.
 */
#ifndef NN_MODEL_TYPES_H
#define NN_MODEL_TYPES_H

#include "nn/model.h"

extern const struct model_type model_mlp; /* mlp.c */

#endif
