/* SPDX-License-Identifier: MIT
 *
 * Planted faults, for the tests of failures: DPBENCH_FAULT="dp-thread:2:step5" lets DP's thread of device 2 fail at
 * step 5 (counted from 0 over the whole run). Compiled in always; without the variable a point costs one load.
 */
#ifndef SYS_FAULT_H
#define SYS_FAULT_H

#include <stdbool.h>
#include <stdint.h>

/* Does the environment plant a fault at this place ("dp-thread"), for this device or rank, at this step? */
bool fault_planted(const char *place, int index, uint64_t step);

/* Asked by each allocation of device and pinned memory on soft GPUs: must this one fail? "alloc:1:step4" plants it in
 * the process of rank 1 (RANK; 0 without), as the fifth of the process. */
bool fault_allocation(void);

#endif
