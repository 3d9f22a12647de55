/* SPDX-License-Identifier: MIT */
#ifndef DDP_VERIFY_H
#define DDP_VERIFY_H

#include "nn/model.h"
#include "run/world.h"

/* Collective: do all ranks have rank 0's model? Compares the number of parameters, then shapes one by one. The first
 * difference is reported on every rank, with parameter, rank and both shapes: EXIT_CHECK_FAILED. A model with nothing
 * to train is refused: EXIT_USAGE. */
int verify_models(struct world *world, const struct model *model);

#endif
