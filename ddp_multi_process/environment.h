/* SPDX-License-Identifier: MIT
 *
 * Who this process is in the launch, as the launcher's environment tells it: our own launcher and torchrun (RANK,
 * WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT), srun (SLURM_*), Open MPI (OMPI_COMM_WORLD_*), MPICH (PMI_*).
 */
#ifndef DDP_ENVIRONMENT_H
#define DDP_ENVIRONMENT_H

#include <stdbool.h>

#include "hello.h"

#define DEFAULT_MASTER_PORT 29500 /* torchrun's, for launchers that name no port */
#define MAX_RANKS 4096

/* Names of what our own launcher hands down besides torchrun's names. Descriptors are inherited. */
#define ENV_TOKEN "DDP_TRAIN_TOKEN"             /* 32 hexadecimal digits */
#define ENV_LISTEN_FD "DDP_TRAIN_LISTEN_FD"     /* rank 0: the listening socket */
#define ENV_PROGRESS_FD "DDP_TRAIN_PROGRESS_FD" /* the progress page (progress.h) */
#define ENV_LIFELINE_FD "DDP_TRAIN_LIFELINE_FD" /* a pipe that closes when the launcher is gone */

struct environment {
    const char *source; /* the variable that made this process a rank: "RANK", "SLURM_PROCID", ...; NULL: none,
                           it is a launcher */
    int rank, world_size;
    int local_rank;       /* of this host: the device's position */
    int local_world_size; /* ranks on this host; world_size if the launcher does not say */
    char host[256];       /* where rank 0 listens */
    int port;
    uint8_t token[TOKEN_BYTES]; /* from ENV_TOKEN, else made of TORCHELASTIC_RUN_ID or the scheduler's job id: then it
                                   keeps jobs apart, and is no secret */
    int listen_fd, progress_fd, lifeline_fd; /* -1: none */
};

/* Reads and checks everything; --local_rank (option, -1: not given) counts when LOCAL_RANK is not set, and is
 * refused where no launcher's variables are. Numbers are parsed whole. Returns 0, or EXIT_USAGE (reported: variable, value and what is allowed). */
int environment_read(struct environment *environment, int local_rank_option);

/* The port for the launcher's own rendezvous: MASTER_PORT if it is set, else 0 (the system chooses). 0 or EXIT_USAGE.
 */
int environment_launcher_port(int *port);

#endif
