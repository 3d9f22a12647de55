/* SPDX-License-Identifier: MIT
 *
 * Usable cores (hwloc where present, else sched_getaffinity) and binding of threads.
 */
#ifndef SYS_TOPOLOGY_H
#define SYS_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

int topology_usable_cores(void);    /* physical cores that this process may use (cpuset, cgroup quota); at least 1 */
size_t topology_memory_bytes(void); /* the machine's memory, or the cgroup's limit if smaller */
size_t topology_memory_free(void);  /* bytes that can be taken now without swapping: machine and cgroup */
/* Binds the calling thread to `count` of the usable cores, from number `first` on (modulo the usable cores).
 * Returns 0, or -1 if nothing could be bound (no hwloc and no affinity call, or refused). */
int topology_bind_thread(int first, int count);
/* The calling thread's binding as the system tells it: "0-1". Empty if unknown. */
void topology_read_binding(char *list, size_t size);
/* Have two such lists a processor in common? */
bool topology_lists_meet(const char *a, const char *b);
const char *topology_source(void); /* "hwloc 2.9.0" or "sched_getaffinity" */

#ifdef __cplusplus
}
#endif
#endif
