/* SPDX-License-Identifier: MIT */
#ifndef SYS_CLOCK_H
#define SYS_CLOCK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

double clock_seconds(void);            /* CLOCK_MONOTONIC */
uint64_t clock_nanoseconds(void);      /* the same, integer */
void clock_sleep(double seconds);      /* whole, through EINTR */

#ifdef __cplusplus
}
#endif
#endif
