/* SPDX-License-Identifier: MIT */
#ifndef DDP_STRATEGY_H
#define DDP_STRATEGY_H

#include "run/strategy.h"

/* DistributedDataParallel: this process (or thread) is one rank of run->world, with one device, its own optimizer, and
 * a reducer. Holds no state outside of what open returns: ranks may be threads of one process. */
extern const struct strategy strategy_ddp;

#endif
