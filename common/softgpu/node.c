/* SPDX-License-Identifier: MIT
 *
 * Making an id, and a rank's side of the rendezvous.
 */
#include "node.h"
#include "node_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sys/clock.h"

_Static_assert(sizeof(struct node_id) <= SOFTNCCL_UNIQUE_ID_BYTES, "an id holds socket name and token");

/* A rank waits this much longer than the limit, so that the server's sentence (who is missing) reaches it. */
#define ANSWER_GRACE_S 1.0

#define LISTEN_BACKLOG 256

static uint64_t process_nonce;

static void draw_nonce(void)
{
    char why[NODE_WHY_BYTES];
    if (node_random(&process_nonce, sizeof process_nonce, why))
        process_nonce = clock_nanoseconds();
}

/* After a fork parent and child share the nonce and differ in their pids. */
static uint64_t nonce_of_process(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, draw_nonce);
    return process_nonce;
}

bool node_is_here(const struct node_member *member)
{
    return member->process == getpid() && member->nonce == nonce_of_process();
}

static void name_socket(char name[NODE_NAME_BYTES], const uint8_t random[16])
{
    int at = snprintf(name, NODE_NAME_BYTES, "softgpu-");
    for (int i = 0; i < 16; i++)
        at += snprintf(name + at, (size_t)(NODE_NAME_BYTES - at), "%02x", random[i]);
}

softNcclResult_t node_make_id(softNcclUniqueId *id, double limit_s, size_t control_bytes, char why[NODE_WHY_BYTES])
{
    struct node_id made = {.magic = NODE_MAGIC};
    uint8_t random[16];
    if (node_random(random, sizeof random, why) || node_random(made.token, sizeof made.token, why))
        return softNcclSystemError;
    name_socket(made.name, random);
    struct sockaddr_un address;
    socklen_t length = node_address(&address, made.name);
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, length) || listen(listener, LISTEN_BACKLOG)) {
        node_fail(softNcclSystemError, why, "no socket for the rendezvous: %s", strerror(errno));
        if (listener >= 0)
            close(listener);
        return softNcclSystemError;
    }
    memset(id, 0, sizeof *id);
    memcpy(id->internal, &made, sizeof made);
    return node_serve(listener, made.token, limit_s, control_bytes, why);
}

softNcclResult_t node_make_control(size_t bytes, int *control, uint8_t token[16], char why[NODE_WHY_BYTES])
{
    if (node_random(token, NODE_TOKEN_BYTES, why))
        return softNcclSystemError;
    *control = memfd_create("softgpu-control", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*control >= 0 && !ftruncate(*control, (off_t)bytes) &&
        !fcntl(*control, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
        return softNcclSuccess;
    node_fail(softNcclSystemError, why, "no control segment of %zu bytes: %s", bytes, strerror(errno));
    if (*control >= 0)
        close(*control);
    return softNcclSystemError;
}

static softNcclResult_t connect_to(const struct node_id *id, int *connection, char why[NODE_WHY_BYTES])
{
    struct sockaddr_un address;
    socklen_t length = node_address(&address, id->name);
    struct timeval limit = {.tv_sec = (time_t)NODE_HANDSHAKE_LIMIT_S};
    *connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (*connection < 0)
        return node_fail(softNcclSystemError, why, "no socket to join with: %s", strerror(errno));
    setsockopt(*connection, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit); /* of connect too */
    if (!connect(*connection, (struct sockaddr *)&address, length))
        return softNcclSuccess;
    int error = errno;
    close(*connection);
    if (error == ECONNREFUSED)
        return node_fail(softNcclInvalidArgument, why,
                         "nobody serves this id on this node: its ranks have joined already, its time was up, or the "
                         "process that made it has gone");
    return node_fail(softNcclSystemError, why, "can't reach the process that made the id: %s", strerror(error));
}

/* Waits for the server's answer; *reply is whole if this returns success. */
static softNcclResult_t await_reply(int connection, int ranks, double limit_s, struct node_reply *reply,
                                    int *descriptors, char why[NODE_WHY_BYTES])
{
    const double deadline = clock_seconds() + limit_s + ANSWER_GRACE_S;
    for (;;) {
        struct pollfd polled = {.fd = connection, .events = POLLIN};
        double left = deadline - clock_seconds();
        if (left <= 0)
            return node_fail(softNcclRemoteError, why, "the process that made the id did not answer within %.1f s",
                             limit_s);
        if (poll(&polled, 1, (int)(left * 1e3) + 1) <= 0)
            continue;
        /* A refusal carries no descriptors: look at the answer first, take it with what it says it brings. */
        int got = (int)recv(connection, reply, sizeof *reply, MSG_PEEK | MSG_DONTWAIT);
        int carried = got == (int)sizeof *reply && reply->result == softNcclSuccess ? 1 + ranks : 0;
        got = node_receive(connection, reply, sizeof *reply, descriptors, carried);
        if (got == 1)
            return softNcclSuccess;
        if (got == 0 || errno == ECONNRESET)
            return node_fail(softNcclInvalidArgument, why,
                             "refused: the id's token is not the one it was made with, its "
                             "ranks have joined already, or the process that made it has gone");
        if (errno == EMFILE)
            return node_fail(softNcclSystemError, why, "too few file descriptors left for the memory of %d ranks",
                             ranks);
        if (errno != EAGAIN)
            return node_fail(softNcclSystemError, why, "no answer to joining: %s", strerror(errno));
    }
}

/* A rank that fails may end its process. If that is the one that serves the id, ranks that come a little later would
 * not be told why: it stays for them, a moment. */
static void stay_for_others(const uint8_t token[NODE_TOKEN_BYTES])
{
    const double deadline = clock_seconds() + ANSWER_GRACE_S;
    while (node_is_served_here(token) && clock_seconds() < deadline)
        clock_sleep(0.005);
}

softNcclResult_t node_join(const softNcclUniqueId *id, int rank, int ranks, int device, int memory, size_t memory_bytes,
                           double limit_s, struct node *node, char why[NODE_WHY_BYTES])
{
    struct node_id wanted;
    memcpy(&wanted, id->internal, sizeof wanted);
    if (wanted.magic != NODE_MAGIC)
        return node_fail(softNcclInvalidArgument, why, "not an id that ncclGetUniqueId made");
    int connection = -1, descriptors[NODE_MAX_DESCRIPTORS] = {0};
    softNcclResult_t result = connect_to(&wanted, &connection, why);
    if (result)
        return result;
    struct node_hello hello = {.member = {.rank = rank,
                                          .ranks = ranks,
                                          .device = device,
                                          .process = getpid(),
                                          .nonce = nonce_of_process(),
                                          .memory_bytes = memory_bytes}};
    struct node_reply reply = {0};
    memcpy(hello.token, wanted.token, sizeof hello.token);
    if (node_send(connection, &hello, sizeof hello, &memory, 1))
        result = node_fail(softNcclSystemError, why, "can't send to the process that made the id: %s", strerror(errno));
    else
        result = await_reply(connection, ranks, limit_s, &reply, descriptors, why);
    close(connection);
    if (result)
        return result;
    if (reply.result) {
        stay_for_others(wanted.token);
        return node_fail((softNcclResult_t)reply.result, why, "%.*s", NODE_WHY_BYTES - 1, reply.why);
    }
    node->ranks = ranks;
    node->control = descriptors[0];
    memcpy(node->token, wanted.token, sizeof node->token);
    memcpy(node->member, reply.member, sizeof node->member);
    memcpy(node->memory, descriptors + 1, (size_t)ranks * sizeof(int));
    return softNcclSuccess;
}

void node_close(struct node *node)
{
    close(node->control);
    for (int rank = 0; rank < node->ranks; rank++)
        close(node->memory[rank]);
}
