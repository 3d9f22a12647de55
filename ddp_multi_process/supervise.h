/* SPDX-License-Identifier: MIT
 *
 * Watching the ranks until the last one is gone. Driven by events (pidfds and a signalfd in one epoll), asleep
 * otherwise. The first thing that goes wrong is the cause: everything ends, and the last line on stderr names it.
 */
#ifndef DDP_SUPERVISE_H
#define DDP_SUPERVISE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define LEAVING_S 0.4      /* for the others to say why and to report, when a rank has left by itself */
#define TERM_TO_KILL_S 2.0 /* from the polite end to SIGKILL, and from there to giving up */

struct rank_process {
    pid_t pid;
    int pidfd; /* -1 once it is gone; the zombie stays until the end, so that the group's number stays ours */
    bool stopped;
    double stopped_s; /* since when (clock_seconds) */
};

struct supervision {
    int ranks;                      /* started: all of them, or fewer if a start failed */
    struct rank_process *processes; /* [ranks] */
    pid_t group;                    /* process group of the ranks; 0: none was made */
    int signal_fd;                  /* SIGCHLD, INT, TERM, HUP; all blocked in this process */
    double started_s;
    double timeout_s; /* how long a rank may stay stopped: the collective limit */
    uint64_t steps;   /* of the whole run; 0: not known */
};

/* Waits until all ranks are gone; kills what must go; reaps everything. Returns the run's exit code: 0, the first
 * failing rank's code, 128 + its signal, EXIT_CHECK_FAILED for a rank that left too early with 0, EXIT_TIME_LIMIT for
 * one that stayed stopped, 128 + signal when interrupted, EXIT_UNKILLABLE. */
int supervise(struct supervision *supervision);

/* Ends what was started when the start itself failed (reported by the caller with this exit code). */
int supervise_abandon(struct supervision *supervision, int exit_code);

#endif
