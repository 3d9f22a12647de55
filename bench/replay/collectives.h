/* SPDX-License-Identifier: MIT
 *
 * How long a collective takes on a described machine.
 */
#ifndef REPLAY_COLLECTIVES_H
#define REPLAY_COLLECTIVES_H

#include "machine.h"

enum collective_method {
    METHOD_TABLE,      /* log-log interpolation of the machine's measured points */
    METHOD_FIT,        /* latency + c sqrt(n) + n / B, fitted to them */
    METHOD_ALPHA_BETA, /* latency + n / B, fitted to them: the teaching model */
    METHODS,
};
extern const char *const method_names[METHODS];

/* What the question changes about the machine. Factors of 1 change nothing. */
struct what_if {
    double bandwidth, latency, compute;
    bool no_p2p;
    enum collective_method method;
};

/* Busy bytes of a link by bytes of the vector, as in nccl-tests' PERFORMANCE.md: all-reduce 2(n-1)/n, reduce-scatter
 * and all-gather (n-1)/n, broadcast and reduce 1. */
double collective_factor(enum collective_operation operation, int ranks);

bool collective_has_all_reduce(const struct machine *machine);
/* Fills the table's two fits. */
void collective_fit(struct collective_table *table);

/* The number of an operation's name in a record; COLLECTIVE_OPERATIONS if it is unknown. */
enum collective_operation collective_operation_of(const char *name);

/* Seconds of one collective, from the moment the last rank is there. bytes: the whole vector (nccl-tests' size). */
double collective_seconds(const struct machine *machine, const struct what_if *what_if,
                          enum collective_operation operation, int ranks, double bytes);

/* How many times as long kernels take beside a collective of so many ranks: the machine's points, between two of them
 * log-log; 1 without any. */
double collective_slowdown(const struct machine *machine, int ranks);

/* The table that answers for an operation on so many ranks of one node, NULL if the machine has none. */
const struct collective_table *collective_table(const struct machine *machine, bool host,
                                                enum collective_operation operation, int ranks);

#endif
