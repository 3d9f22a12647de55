/* SPDX-License-Identifier: MIT
 *
 * The same moves of bytes in SimGrid (https://simgrid.org), which shares a link fairly among the copies on it. Each
 * call simulates in a process of its own; seconds from the start of the first copy to the end of the last one,
 * negative: it failed. Every device has one link out and one in (up and down, through the host), of so many bytes a
 * second; a copy takes latency_s once.
 */
#ifndef TESTS_REPLAY_SIMGRID_TIMES_H
#define TESTS_REPLAY_SIMGRID_TIMES_H

#ifdef __cplusplus
extern "C" {
#endif

/* Device 0 sends `bytes` to every other one; when all are there, each of them sends as many back. */
double simgrid_star(int devices, double bytes_per_s, double latency_s, double bytes);

/* All-reduce round a ring: 2 (devices - 1) steps, in each of which every device sends bytes / devices to the next one
 * and waits for the part of the one before. */
double simgrid_ring(int devices, double bytes_per_s, double latency_s, double bytes);

#ifdef __cplusplus
}
#endif
#endif
