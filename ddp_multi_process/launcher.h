/* SPDX-License-Identifier: MIT
 *
 * ddp-train --gpus N as its own launcher: starts N ranks of itself on this machine and stays until the last one is
 * gone.
 */
#ifndef DDP_LAUNCHER_H
#define DDP_LAUNCHER_H

#include <stdint.h>

struct launch {
    int ranks;
    double timeout_s; /* how long a rank may stay stopped */
    uint64_t steps;   /* of the whole run, for the last line; 0: not known */
    char **argv;      /* what the ranks are started with: this program's own */
};

/* Opens no device: this room does not know any. Returns the run's exit code (supervise.h). Must be called from
 * the main thread: the ranks die with the thread that forked them. */
int launcher_run(const struct launch *launch);

/* A rank: ends this process when the launcher is gone, whatever it is doing (fd: ENV_LIFELINE_FD). 0 or EXIT_RESOURCE.
 */
int launcher_hold_lifeline(int fd);

#endif
