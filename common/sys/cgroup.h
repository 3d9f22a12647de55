/* SPDX-License-Identifier: MIT
 *
 * Limits that a control group (version 2, else version 1) sets for this process. Inside the room only.
 */
#ifndef SYS_CGROUP_H
#define SYS_CGROUP_H

#include <stddef.h>

double cgroup_cpu_quota(void);      /* CPUs' worth of time; 0: no limit */
size_t cgroup_memory_limit(void);   /* bytes; SIZE_MAX: no limit */
size_t cgroup_memory_left(void);    /* bytes below the tightest limit, page cache that can be dropped counted as free */

#endif
