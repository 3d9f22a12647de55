/* SPDX-License-Identifier: MIT
 *
 * Google Benchmark for C: the few functions that benchmarks.c needs. Works with 1.7 (SkipWithError is the only way out there).
 */
#ifndef BENCH_GBENCH_SHIM_H
#define BENCH_GBENCH_SHIM_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct gbench_state;  /* a benchmark::State */
typedef void gbench_function(struct gbench_state *state, const void *argument);

/* The name is copied; the argument must live until gbench_run returns. Times are real time. */
void gbench_register(const char *name, gbench_function *function, const void *argument);

/* The loop of a benchmark: while (gbench_keep_running(state)) ... */
bool gbench_keep_running(struct gbench_state *state);
/* Ends this benchmark as failed; the loop is left at the next gbench_keep_running. */
void gbench_fail(struct gbench_state *state, const char *message);
/* After the loop: a figure of one iteration, shown as a rate per second: "bytes", "FLOP". */
void gbench_set_rate(struct gbench_state *state, const char *name, double per_iteration);
/* After the loop: a figure as it is. */
void gbench_set_figure(struct gbench_state *state, const char *name, double value);

/* Google Benchmark's own command line; its CSV reporter is deprecated and refused. Returns an exit code. */
int gbench_run(int argc, char **argv);

#ifdef __cplusplus
}
#endif
#endif
