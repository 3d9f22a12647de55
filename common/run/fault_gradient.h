/* SPDX-License-Identifier: MIT */
#ifndef RUN_FAULT_GRADIENT_H
#define RUN_FAULT_GRADIENT_H

#include "nn/model.h"

/* The points "inf-gradient" and "nan-gradient" of device or rank `index` (sys/fault.h): enqueues that an element of
 * parameter 0's gradient, which is there, becomes inf (NaN if it was 0) or NaN. "stall-device": nothing enqueued from here
 * on ever runs there. Returns 0 or an exit code. */
int fault_in_gradient(const struct replica *replica, int index, uint64_t step);

#endif
