/* SPDX-License-Identifier: MIT
 *
 * The replay: programs played on a described machine, event by event, in integer picoseconds. docs/replay.md has the
 * rules. The result depends on the programs and the machine alone: not on the order of files, not on the computer.
 */
#ifndef REPLAY_PLAY_H
#define REPLAY_PLAY_H

#include "collectives.h"
#include "program.h"

#define PLAY_MATRIX_DEVICES 128 /* bytes are kept by pair up to so many devices */

/* One bar of the timeline. */
struct play_span {
    int device;   /* -1: a host thread */
    int lane;     /* the device's stream, or the process's thread */
    int instance; /* process */
    const char *name;
    int range; /* enum play_phase, PLAY_PHASES: none */
    int64_t start_ps, end_ps;
};

struct play_options {
    struct what_if what_if;
    double launch_lock_s; /* 0: no lock */
    int replicate;        /* ranks that play programs[0], as one of them; 0: each program once */
    int slow_rank;        /* -1: none */
    double slow_factor;   /* that rank's kernels take so much longer */
    double jitter_sigma;  /* of each rank's kernels, step by step; 0: none */
    uint64_t jitter_seed;
    bool spans; /* keep play_result.spans */
};
void play_options_init(struct play_options *options);

/* A thing that does one at a time: busy_ps + idle_ps = makespan. */
struct play_resource {
    int64_t free_ps, busy_ps, idle_ps;
};

struct play_device {
    int instance, rank;
    struct play_resource engine; /* the compute engine */
    int64_t collective_ps;       /* union of the collectives' time on it */
    double sent, received;       /* bytes, of copies and collectives, all steps */
};

/* One step of one device: what the marks on its compute stream say. */
struct play_step {
    int64_t phase_ps[PLAY_PHASES];
    int64_t first_ps, last_ps; /* first and last mark */
    int64_t hidden_ps;         /* collectives of other streams inside forward, loss or backward */
    bool marked;
};

struct play_result {
    int64_t makespan_ps;
    int instances, devices, steps;
    int64_t *step_ps;           /* [steps] the longest over the ranks */
    int64_t *rank_step_ps;      /* [steps][instances] from step_begin to step_end */
    int64_t *rank_begin_ps;     /* [steps][instances] */
    struct play_step *marks;    /* [steps][devices] */
    struct play_device *device; /* [devices] */
    double *pair_bytes;         /* [devices + 1][devices + 1] from, to; the last is the host; NULL: too many devices */
    struct play_resource *link; /* [link_count] all links, ports, host paths and copy engines */
    size_t link_count;
    int64_t host_busy_ps;  /* of the busiest host thread */
    int64_t host_work_ps;  /* the most own work of a host thread: the record's times `own_work` */
    int64_t lock_busy_ps;  /* of the busiest process's launch lock */
    int64_t collective_ps; /* sum of all collectives' durations, each counted once */
    uint64_t operations;   /* tasks and host operations played */
    struct play_span *spans;
    size_t span_count, span_room;
};

/* Plays programs[count] (one a process, by rank). A record of a rank is missing, a collective's ranks disagree,
 * nothing can go on, or a time passes EXACT_MAX_PS: reported, EXIT_BAD_FILE. The result is the caller's to free with play_close, also after a failure.
 */
int play(struct play_result *result, const struct program *const *programs, int count, const struct machine *machine,
         const struct play_options *options);
void play_close(struct play_result *result);

#endif
