/* SPDX-License-Identifier: MIT
 *
 * Arithmetic with the same bits on every computer: only IEEE + - * / and exact scaling by powers of two, no function of
 * a mathematics library (they differ in the last bit), no contraction to fused operations (the build forbids it for
 * this room). Errors stay below 1e-12, far below any measured figure.
 */
#ifndef REPLAY_EXACT_H
#define REPLAY_EXACT_H

#include <stdint.h>

double exact_log2(double x); /* x > 0 */
double exact_exp2(double x); /* |x| < 1000 */
double exact_sqrt(double x); /* x >= 0 */
double exact_cbrt(double x); /* x >= 0 */

/* Picoseconds, the replay's unit of time: 2^63 of them are 106 days. */
#define PS_PER_NS INT64_C(1000)
#define PS_PER_US INT64_C(1000000)
#define PS_PER_S 1e12
#define EXACT_MAX_PS INT64_C(50000000000000000) /* 13.9 hours: what is longer is cut to it, and refused by play */

int64_t exact_ps(double seconds); /* rounded; negative is 0 */
double exact_seconds(int64_t ps);

#endif
