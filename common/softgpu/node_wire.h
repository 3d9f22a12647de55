/* SPDX-License-Identifier: MIT
 *
 * The two messages of the rendezvous and the identity of a process. Used by node.c and node_server.c only.
 */
#ifndef SOFTGPU_NODE_WIRE_H
#define SOFTGPU_NODE_WIRE_H

#include "node.h"

#include <sys/socket.h>
#include <sys/un.h>

#define NODE_NAME_BYTES 48
#define NODE_MAGIC UINT64_C(0x31646955704774fe)
#define NODE_TOKEN_BYTES 16

/* What lies in a softNcclUniqueId. */
struct node_id {
    uint64_t magic;
    uint8_t token[NODE_TOKEN_BYTES];
    char name[NODE_NAME_BYTES]; /* of the socket, without the leading zero byte */
};

/* A rank's one message. The device's memfd rides along. */
struct node_hello {
    uint8_t token[NODE_TOKEN_BYTES];
    struct node_member member;
};

/* The server's one answer. On success control and all memfds ride along, in that order. */
struct node_reply {
    int32_t result;
    int32_t ranks;
    char why[NODE_WHY_BYTES];
    struct node_member member[NODE_MAX_RANKS];
};

#define NODE_MAX_DESCRIPTORS (1 + NODE_MAX_RANKS)

/* One whole datagram with descriptors; does not block. Returns 0, or -1 with errno. */
int node_send(int socket, const void *message, size_t bytes, const int *descriptors, int count);

/* One whole datagram of exactly `bytes` with exactly `count` descriptors: returns 1. 0: the peer has closed. -1:
 * anything else, errno EAGAIN if there was nothing yet; descriptors that came along are closed. Does not block. */
int node_receive(int socket, void *message, size_t bytes, int *descriptors, int count);

socklen_t node_address(struct sockaddr_un *address, const char *name);
bool node_same_token(const uint8_t a[NODE_TOKEN_BYTES], const uint8_t b[NODE_TOKEN_BYTES]);
softNcclResult_t node_random(void *bytes, size_t count, char why[NODE_WHY_BYTES]);
softNcclResult_t node_fail(softNcclResult_t result, char why[NODE_WHY_BYTES], const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Serves the listening socket from a new thread, which owns it from now on, also on failure. */
softNcclResult_t node_serve(int listener, const uint8_t token[NODE_TOKEN_BYTES], double limit_s, size_t control_bytes,
                            char why[NODE_WHY_BYTES]);
bool node_is_served_here(const uint8_t token[NODE_TOKEN_BYTES]);

#endif
