/* SPDX-License-Identifier: MIT
 *
 * SIGINT, SIGTERM and SIGHUP end dp-train with a last line, the row of --json, and exit code 128 + N.
 */
#ifndef DP_SINGLE_PROCESS_INTERRUPT_H
#define DP_SINGLE_PROCESS_INTERRUPT_H

#include "run/engine.h"

/* Before any other thread is made, which would take the signals. Both pointers must last as long as the process. */
int interrupt_watch(const struct strategy *strategy, const struct options *options);

#endif
