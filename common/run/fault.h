/* SPDX-License-Identifier: MIT
 *
 * Planted faults, for the tests of failures: DPBENCH_FAULT="dp-thread:2:step5" lets DP's thread of device 2 fail at
 * step 5 (counted from 0 over the whole run). Compiled in always; without the variable a point costs one load.
 */
#ifndef RUN_FAULT_H
#define RUN_FAULT_H

#include <stdbool.h>
#include <stdint.h>

/* Does the environment plant a fault at this place ("dp-thread"), for this device or rank, at this step? */
bool fault_planted(const char *place, int index, uint64_t step);

#endif
