/* SPDX-License-Identifier: MIT
 *
 * The command line of `dpbench sweep` (bench/run.sh hands it on).
 */
#ifndef DPBENCH_SETTINGS_H
#define DPBENCH_SETTINGS_H

#include <stdbool.h>

#define SETTINGS_MAX_GPUS 16  /* numbers in --gpus */
#define SETTINGS_LARGEST_N 64 /* the trainers' limit */

struct settings {
    bool quick, resume;
    bool check_options;                     /* --check-options: bench/run.sh asks before it builds the rest */
    int gpus[SETTINGS_MAX_GPUS], gpu_count; /* ascending, each once */
    bool gpus_given;                        /* --gpus; else they are the default ones */
    bool single, dp, ddp;                   /* --strategies */
    unsigned workloads;                     /* bit i: workloads[i], --models */
    bool strong, weak;                      /* --scaling */
    int rounds, steps;                      /* 0: the workload's own */
    int cores;                              /* --cores: usable cores, 0: ask the machine */
    const char *device;                     /* auto, soft, cuda */
    const char *out;                        /* folder; made if missing. NULL: RESULTS/RUN_ID */
    const char *results;                    /* --results */
    char run_id[20];      /* now, "20260131T235959Z": names the run, and its folder unless --out does */
    const char *programs; /* folder of dp-train and ddp-train */
    const char *plots;    /* folder of the gnuplot scripts and the report's template */
    double run_timeout;   /* seconds for one run of a trainer */
};

/* 0; EXIT_USAGE (reported); -1: that was all (--help, --check-options). The strings point into argv or are static. */
int settings_parse(struct settings *settings, int argc, char **argv);

#endif
