/* SPDX-License-Identifier: MIT
 *
 * What one task costs on a described machine.
 */
#ifndef REPLAY_COST_H
#define REPLAY_COST_H

#include "collectives.h"
#include "program.h"

/* Picoseconds on the device's compute engine: products by FLOPs over the rate for type and size, but not faster than
 * their bytes; other kernels, fills and copies inside a device by bytes over the memory's rate, but not faster than
 * their FLOPs on the vector units (where the machine states their rate); each plus the device's cost of a kernel. */
int64_t cost_compute(const struct machine *machine, const struct what_if *what_if, const struct task *task);

/* The type of the task's product if the machine has no rate for it, so that fp32's is used; else NULL. */
const char *cost_missing_type(const struct machine *machine, const struct task *task);

/* Picoseconds on a copy's path. from, to: positions on the machine, HOST_SIDE. *through_host: it takes both host links.
 */
int64_t cost_copy(const struct machine *machine, const struct what_if *what_if, int from, int to, double bytes,
                  bool *through_host);

/* Picoseconds of the host thread that enqueues the task. */
int64_t cost_enqueue(const struct machine *machine, const struct task *task);

/* Does the task occupy the compute engine? (Kernels, products, fills, copies inside a device.) */
bool cost_is_compute(const struct task *task);

#endif
