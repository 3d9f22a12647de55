/* SPDX-License-Identifier: MIT
 *
 * How the ranks of one launch find each other: rank 0 listens, all others come to it, prove that they know the launch's
 * token, and are compared (world size, rank, options). All are let go together when the last one has come; then they
 * are a struct world. A stranger on the port never holds anybody up.
 */
#ifndef DDP_RENDEZVOUS_H
#define DDP_RENDEZVOUS_H

#include "environment.h"
#include "run/world.h"

#define HANDSHAKE_LIMIT_S 2.0 /* of each connection, from accept to the whole hello */
#define FAREWELL_S 0.5        /* how long rank 0 stays to tell a refusal to ranks that come late */

struct rendezvous {
    const struct environment *environment;
    const char *options; /* canonical text; must be equal on all ranks */
    double limit_s;      /* for all ranks to come */
    double timeout_s;    /* of each host operation of the world that is made */
};

/* Returns 0 and *world (close with rendezvous_close), or, after the limit at the latest, reported on every rank that
 * came: EXIT_RENDEZVOUS  ranks are missing (named), came twice, or left; world sizes differ; rank 0 does not answer
 *   EXIT_USAGE       options differ (first one named with both values)
 *   EXIT_RESOURCE    rank 0 can't listen (port named) */
int rendezvous_open(struct world *world, const struct rendezvous *rendezvous);
void rendezvous_close(struct world *world);

/* A socket that listens on host:port (port 0: the system chooses; *bound tells it). 0 or EXIT_RESOURCE (reported). */
int rendezvous_listen(const char *host, int port, int *listen_fd, int *bound);

/* Rank 0's part (reception.c): fills sockets[1 .. world size - 1]. Closes nothing but strangers. */
int reception_run(const struct rendezvous *rendezvous, int listen_fd, int *sockets);

#endif
