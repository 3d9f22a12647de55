/* SPDX-License-Identifier: MIT
 *
 * What calibrate measures, and what it writes of it.
 */
#ifndef CALIBRATE_H
#define CALIBRATE_H

#include <stddef.h>

#include "gpu/gpu.h"

#define CALIBRATE_SIZES 10
#define CALIBRATE_POINTS 32
#define CALIBRATE_DEVICES 16
#define CALIBRATE_OPERATIONS 5

struct link_figure {
    double bytes_per_s, latency_s; /* bytes_per_s 0: not measured */
};

struct collective_figure {
    const char *operation;
    int ranks, count;
    double bytes[CALIBRATE_POINTS], us[CALIBRATE_POINTS];
};

struct figures {
    int devices;
    char device_name[160];
    double memory_bytes;                                    /* of a device */
    double launch_s, event_s, copy_call_s, sync_s, start_s; /* the host's */
    double kernel_s, memory_bytes_per_s;
    int product_count;
    double product_size[CALIBRATE_SIZES], product_flops_per_s[CALIBRATE_SIZES];
    struct link_figure pair[CALIBRATE_DEVICES][CALIBRATE_DEVICES], host_up, host_down;
    struct collective_figure collective[CALIBRATE_OPERATIONS * CALIBRATE_DEVICES];
    int collective_count;
    /* by devices that compute at the same time, from 2 on; slowdown of kernels beside a collective of all; 0: not
     * measured */
    double crowd_products[CALIBRATE_DEVICES + 1], crowd_memory[CALIBRATE_DEVICES + 1], slowdown;
};

/* measure.c: what one device does at a time, and copies. 0 or an exit code (reported). */
int measure_devices(struct figures *figures);

/* together.c: what devices and collectives at the same time do to kernels. Nothing with one device. */
int measure_together(struct figures *figures);

/* collectives.c: runs collective-perf (the program at `path`) for 2 to figures->devices ranks. */
int measure_collectives(struct figures *figures, const char *path);

/* write.c: the machine file, each figure with what it was measured by. */
int write_machine(const struct figures *figures, const char *name, const char *path);

#endif
