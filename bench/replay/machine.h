/* SPDX-License-Identifier: MIT
 *
 * Described machines: bench/machines/NAME.ini. docs/replay.md lists the keys; machine_keys.c is the list itself.
 * Figures are kept in SI units: seconds, bytes per second, operations per second.
 */
#ifndef REPLAY_MACHINE_H
#define REPLAY_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MACHINE_MAX_DEVICES 64 /* of a node */
#define MACHINE_MAX_POINTS 64  /* of a curve */
#define MACHINE_MAX_TABLES 64
#define MACHINE_TEXT 160

/* Measured points (x rising), read by log-log interpolation. */
struct curve {
    int count;
    double x[MACHINE_MAX_POINTS], y[MACHINE_MAX_POINTS];
};
/* Between two points a straight line in log x and log y (a point itself gives its own y, bit for bit). Below the first
 * point its y; above the last one y (proportional: false) or y x / last x. */
double curve_at(const struct curve *curve, double x, bool proportional);

enum machine_type { TYPE_FP32, TYPE_FP16, TYPE_BF16, MACHINE_TYPES };
extern const char *const machine_type_names[MACHINE_TYPES];

struct link {
    double bytes_per_s; /* 0: there is none, copies go through the host */
    double latency_s;
};

enum collective_operation { ALL_REDUCE, BROADCAST, REDUCE, REDUCE_SCATTER, ALL_GATHER, COLLECTIVE_OPERATIONS };
extern const char *const collective_names[COLLECTIVE_OPERATIONS];

/* a + c sqrt(n) + n / B, by relative least squares (collectives.c). */
struct fit {
    double latency_s, root_s, per_byte_s;
    double error_mean, error_worst; /* relative, over the table's points */
};

/* Seconds by bytes, of one operation on so many ranks. */
struct collective_table {
    enum collective_operation operation;
    int ranks;
    bool host; /* measured with copies between devices going through the host */
    struct curve seconds;
    struct fit fit, alpha_beta; /* alpha_beta: root_s = 0 */
};

struct machine {
    char name[MACHINE_TEXT], description[MACHINE_TEXT];
    int devices, nodes; /* devices of a node */
    double memory_bytes;
    /* host */
    double launch_s, event_s, copy_call_s, collective_call_s, sync_s, start_s;
    double own_work; /* factor on the host's recorded work; 0: not counted */
    /* device */
    double memory_bytes_per_s, kernel_s, vector_flops_per_s;
    int copy_engines;
    /* Of products and of other kernels while so many devices of the node compute (they share memory); no points: none.
     */
    struct curve crowd_products, crowd_memory;
    struct curve slowdown; /* of kernels while a collective runs on the device, by its ranks; no points: none */
    struct curve products[MACHINE_TYPES]; /* operations per second by the cube root of m n k */
    /* links */
    struct link direct[MACHINE_MAX_DEVICES][MACHINE_MAX_DEVICES]; /* [from][to] */
    struct link host_up, host_down;                               /* device to host, host to device */
    bool ports;       /* a device has one port each way for all its direct links (a switch), not one a link */
    bool host_shared; /* all devices' copies to and from the host share one path each way */
    struct collective_table tables[MACHINE_MAX_TABLES];
    int table_count;
    double network_bytes_per_s, network_latency_s; /* of each device's share of its node's network */
};

/* Reads a description. Errors name file, line, key, the value found and what may stand there: EXIT_USAGE. */
int machine_parse(struct machine *machine, const char *path, char *text);

/* NAME: FOLDER/NAME.ini of the machines that come with the suite; anything with a slash or a dot: a path. */
int machine_load(struct machine *machine, const char *name, const char *folder);

#endif
