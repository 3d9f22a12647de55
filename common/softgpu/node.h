/* SPDX-License-Identifier: MIT
 *
 * Rendezvous of the ranks of one communicator, all on this node: each hands in its device's memory, and each gets
 * everybody's and one control segment. Nothing has a name in the file system; when the last rank has joined, the socket
 * is gone too.
 *
 * The process that makes an id serves it from a thread of its own, on an AF_UNIX socket with a random name in the
 * abstract namespace. Messages are SOCK_SEQPACKET datagrams of fixed size: one is whole or it is refused, and no length
 * is ever read from a peer. The first 16 bytes are the id's token, compared in constant time before anything else is
 * looked at.
 */
#ifndef SOFTGPU_NODE_H
#define SOFTGPU_NODE_H

#include "softgpu.h"

#define NODE_WHY_BYTES 512         /* a whole sentence with both values */
#define NODE_HANDSHAKE_LIMIT_S 2.0 /* a connection that says nothing for so long is dropped */
#define NODE_MAX_RANKS SOFTGPU_MAX_DEVICES

struct node_member {
    int32_t rank, ranks; /* ranks: the size of the world that this rank believes in */
    int32_t device;      /* physical index: which of the node's devices, however it was renumbered */
    int32_t process;     /* pid, and a random number, since pids come again */
    uint64_t nonce;
    uint64_t memory_bytes; /* size of the device's memfd */
};

/* What a rank holds after the rendezvous; the descriptors are the caller's, who closes them (node_close). */
struct node {
    int ranks;
    struct node_member member[NODE_MAX_RANKS]; /* by rank */
    int memory[NODE_MAX_RANKS];                /* memfds of the members' devices */
    int control;                               /* memfd, zeroed, its size sealed */
    uint8_t token[16];                         /* which communicator this is */
};

/* Makes an id and starts to serve it. The clock of the rendezvous (limit_s) starts with the first rank that joins; an
 * id that nobody uses costs a sleeping thread. control_bytes: size of the control segment that the members get. */
softNcclResult_t node_make_id(softNcclUniqueId *id, double limit_s, size_t control_bytes, char why[NODE_WHY_BYTES]);

/* Joins as `rank` of `ranks` with the device's memory; waits for all the others, at most limit_s and a second. On
 * failure every rank that joined gets the same sentence in `why`: softNcclInvalidArgument  not an id, or not one of
 * this node softNcclInvalidUsage     a rank or device twice, a rank outside the world, worlds of two sizes (both values
 * named) softNcclRemoteError      ranks are missing at the limit (named), or one left (named) softNcclSystemError
 * sockets, descriptors, memory */
softNcclResult_t node_join(const softNcclUniqueId *id, int rank, int ranks, int device, int memory, size_t memory_bytes,
                           double limit_s, struct node *node, char why[NODE_WHY_BYTES]);
void node_close(struct node *node);

/* A control segment and a token for ranks that need no rendezvous, being made by one call in one process. */
softNcclResult_t node_make_control(size_t bytes, int *control, uint8_t token[16], char why[NODE_WHY_BYTES]);

/* Is this member a thread of the calling process? */
bool node_is_here(const struct node_member *member);

#endif
