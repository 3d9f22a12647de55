/* SPDX-License-Identifier: MIT
 *
 * The server's side of the rendezvous: one thread, one poll loop. A connection is a stranger until its one message has
 * come whole and with the right token; strangers have their own deadline and at most STRANGERS_MAX places, of which the
 * oldest is given to a newcomer, so that silence can't keep a rank out.
 */
#include "node_wire.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "hidden.h"
#include "sys/clock.h"

#define STRANGERS_MAX 64

struct stranger {
    int connection;
    double deadline;
};

struct server {
    struct server *next;
    pid_t process; /* that serves: a child of it has only the copy */
    int listener;
    uint8_t token[NODE_TOKEN_BYTES];
    size_t control_bytes;
    double limit_s, deadline; /* deadline: set by the first member */
    int strangers;            /* the oldest first */
    struct stranger stranger[STRANGERS_MAX];
    int ranks, members;                                     /* ranks: 0 until the first member has said it */
    int connection[NODE_MAX_RANKS], memory[NODE_MAX_RANKS]; /* by rank; connection -1: not yet here */
    int answered;                                           /* how many got the answer */
    bool settled;
    struct node_reply reply; /* the members as they come; result and sentence once settled */
};

/* Takes a stranger off the list; the connection is the caller's now. */
static int take_stranger(struct server *server, int at)
{
    int connection = server->stranger[at].connection;
    server->strangers--;
    memmove(&server->stranger[at], &server->stranger[at + 1],
            (size_t)(server->strangers - at) * sizeof *server->stranger);
    return connection;
}

static struct soft_lock servers_lock;
static struct server *servers; /* of this process */

bool node_is_served_here(const uint8_t token[NODE_TOKEN_BYTES])
{
    bool found = false;
    soft_lock(&servers_lock, "rendezvous");
    for (const struct server *server = servers; server; server = server->next)
        found = found || (server->process == getpid() && node_same_token(server->token, token));
    soft_unlock(&servers_lock);
    return found;
}

static void enlist(struct server *server)
{
    soft_lock(&servers_lock, "rendezvous");
    server->next = servers;
    servers = server;
    soft_unlock(&servers_lock);
}

static void delist(struct server *server)
{
    soft_lock(&servers_lock, "rendezvous");
    struct server **at = &servers;
    while (*at != server)
        at = &(*at)->next;
    *at = server->next;
    soft_unlock(&servers_lock);
}

static void drop_stranger(struct server *server, int at)
{
    close(take_stranger(server, at));
}

static void answer(struct server *server, int connection, const int *descriptors, int count)
{
    node_send(connection, &server->reply, sizeof server->reply, descriptors, count); /* one that has gone needs none */
    close(connection);
    server->answered++;
}

/* Answers all members with what server->reply says, and forgets them. */
static void settle(struct server *server, const int *descriptors, int count)
{
    server->settled = true;
    for (int rank = 0; rank < NODE_MAX_RANKS; rank++) {
        if (server->connection[rank] < 0)
            continue;
        answer(server, server->connection[rank], descriptors, count);
        server->connection[rank] = -1;
    }
    for (int rank = 0; rank < NODE_MAX_RANKS; rank++) {
        if (server->memory[rank] >= 0)
            close(server->memory[rank]);
        server->memory[rank] = -1;
    }
}

static void settle_failed(struct server *server, softNcclResult_t result)
{
    server->reply.result = result;
    settle(server, NULL, 0);
}

static void settle_complete(struct server *server)
{
    int descriptors[NODE_MAX_DESCRIPTORS];
    uint8_t unused[NODE_TOKEN_BYTES];
    softNcclResult_t result = node_make_control(server->control_bytes, &descriptors[0], unused, server->reply.why);
    if (result) {
        settle_failed(server, result);
        return;
    }
    memcpy(descriptors + 1, server->memory, (size_t)server->ranks * sizeof(int));
    server->reply.ranks = server->ranks;
    settle(server, descriptors, 1 + server->ranks);
    close(descriptors[0]);
}

/* What is wrong with this member beside those who are here? softNcclSuccess: nothing. */
static softNcclResult_t judge(struct server *server, const struct node_member *new)
{
    char *why = server->reply.why;
    int first = 0;
    while (first < NODE_MAX_RANKS - 1 && server->connection[first] < 0)
        first++;
    if (server->ranks && new->ranks != server->ranks)
        return node_fail(softNcclInvalidUsage, why, "rank %d says that there are %d ranks, rank %d says %d", new->rank,
                         new->ranks, first, server->ranks);
    if (new->ranks < 1 || new->ranks > NODE_MAX_RANKS)
        return node_fail(softNcclInvalidUsage, why, "rank %d says that there are %d ranks; 1 to %d are possible",
                         new->rank, new->ranks, NODE_MAX_RANKS);
    if (new->rank < 0 || new->rank >= new->ranks)
        return node_fail(softNcclInvalidUsage, why, "rank %d (process %d) in a world of %d ranks: ranks are 0 to %d",
                         new->rank, new->process, new->ranks, new->ranks - 1);
    if (server->connection[new->rank] >= 0)
        return node_fail(softNcclInvalidUsage, why, "processes %d and %d both say that they are rank %d",
                         server->reply.member[new->rank].process, new->process, new->rank);
    for (int rank = 0; rank < NODE_MAX_RANKS; rank++)
        if (server->connection[rank] >= 0 && server->reply.member[rank].device == new->device)
            return node_fail(softNcclInvalidUsage, why, "ranks %d and %d both use device %d", rank, new->rank,
                             new->device);
    return softNcclSuccess;
}

static void welcome(struct server *server, int connection, const struct node_member *new, int memory)
{
    if (!server->deadline)
        server->deadline = clock_seconds() + server->limit_s;
    softNcclResult_t wrong = server->settled ? softNcclSuccess : judge(server, new);
    if (server->settled || wrong) {
        if (wrong)
            server->reply.result = wrong;
        server->ranks = server->ranks ? server->ranks : new->ranks;
        answer(server, connection, NULL, 0);
        close(memory);
        if (wrong)
            settle_failed(server, wrong);
        return;
    }
    server->ranks = new->ranks;
    server->connection[new->rank] = connection;
    server->memory[new->rank] = memory;
    server->reply.member[new->rank] = *new;
    if (++server->members == server->ranks)
        settle_complete(server);
}

/* A stranger has sent something, or gone. */
static void hear_stranger(struct server *server, int at)
{
    struct node_hello hello;
    int memory = -1;
    int got = node_receive(server->stranger[at].connection, &hello, sizeof hello, &memory, 1);
    if (got < 0 && errno == EAGAIN)
        return;
    int connection = take_stranger(server, at);
    if (got == 1 && node_same_token(hello.token, server->token)) {
        welcome(server, connection, &hello.member, memory);
        return;
    }
    if (got == 1)
        close(memory);
    close(connection);
}

/* Members say nothing more: whatever happens on their connection means that they have gone. */
static void lose_member(struct server *server, int rank)
{
    node_fail(softNcclRemoteError, server->reply.why, "rank %d (process %d) left before all ranks had joined", rank,
              server->reply.member[rank].process);
    settle_failed(server, softNcclRemoteError);
}

static void name_missing(struct server *server)
{
    char *why = server->reply.why;
    int at = snprintf(why, NODE_WHY_BYTES, "%d of %d ranks joined within %.1f s; missing ranks:", server->members,
                      server->ranks, server->limit_s);
    for (int rank = 0; rank < server->ranks && at < NODE_WHY_BYTES - 8; rank++)
        if (server->connection[rank] < 0)
            at += snprintf(why + at, (size_t)(NODE_WHY_BYTES - at), " %d", rank);
    settle_failed(server, softNcclRemoteError);
}

static void accept_strangers(struct server *server)
{
    for (;;) {
        int connection = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (connection < 0) {
            struct rlimit limit = {0};
            if (errno != EMFILE && errno != ENFILE)
                return;
            getrlimit(RLIMIT_NOFILE, &limit);
            node_fail(softNcclSystemError, server->reply.why,
                      "the process that made the id has no file descriptors left "
                      "(its limit is %llu; two a rank are needed)",
                      (unsigned long long)limit.rlim_cur);
            settle_failed(server, softNcclSystemError);
            return;
        }
        if (server->strangers == STRANGERS_MAX)
            drop_stranger(server, 0);
        server->stranger[server->strangers++] =
            (struct stranger){.connection = connection, .deadline = clock_seconds() + NODE_HANDSHAKE_LIMIT_S};
    }
}

/* Milliseconds until the next deadline; -1: there is none. */
static int patience(const struct server *server)
{
    double next = server->deadline;
    if (server->strangers && (!next || server->stranger[0].deadline < next))
        next = server->stranger[0].deadline;
    if (!next)
        return -1;
    double left = next - clock_seconds();
    return left > 0 ? (int)(left * 1e3) + 1 : 0;
}

static void serve_round(struct server *server)
{
    struct pollfd polled[1 + STRANGERS_MAX + NODE_MAX_RANKS];
    int count = 0, strangers = server->strangers, rank_of[NODE_MAX_RANKS], members = 0;
    polled[count++] = (struct pollfd){.fd = server->listener, .events = POLLIN};
    for (int i = 0; i < strangers; i++)
        polled[count++] = (struct pollfd){.fd = server->stranger[i].connection, .events = POLLIN};
    for (int rank = 0; rank < NODE_MAX_RANKS; rank++) {
        if (server->connection[rank] < 0)
            continue;
        rank_of[members++] = rank;
        polled[count++] = (struct pollfd){.fd = server->connection[rank], .events = POLLIN};
    }
    if (poll(polled, (nfds_t)count, patience(server)) < 0)
        return;
    for (int i = 0; i < members; i++)
        if (polled[1 + strangers + i].revents && !server->settled)
            lose_member(server, rank_of[i]);
    for (int i = strangers - 1; i >= 0; i--) /* from the end: dropping one moves those behind it */
        if (polled[1 + i].revents)
            hear_stranger(server, i);
    while (server->strangers && server->stranger[0].deadline <= clock_seconds())
        drop_stranger(server, 0);
    if (polled[0].revents)
        accept_strangers(server);
    if (server->deadline && !server->settled && clock_seconds() >= server->deadline)
        name_missing(server);
}

/* After a failure the server stays until each rank has been told, those that come late too. */
static bool finished(const struct server *server)
{
    return server->settled && (server->answered >= server->ranks || clock_seconds() >= server->deadline);
}

static void *serve(void *argument)
{
    struct server *server = argument;
    while (!finished(server))
        serve_round(server);
    while (server->strangers)
        drop_stranger(server, 0);
    close(server->listener);
    delist(server);
    free(server);
    return NULL;
}

softNcclResult_t node_serve(int listener, const uint8_t token[NODE_TOKEN_BYTES], double limit_s, size_t control_bytes,
                            char why[NODE_WHY_BYTES])
{
    struct server *server = calloc(1, sizeof *server);
    pthread_attr_t detached;
    pthread_t thread;
    sigset_t all, before;
    int error = ENOMEM;
    if (server) {
        server->process = getpid();
        server->listener = listener;
        server->limit_s = limit_s;
        server->control_bytes = control_bytes;
        memcpy(server->token, token, sizeof server->token);
        for (int rank = 0; rank < NODE_MAX_RANKS; rank++)
            server->connection[rank] = server->memory[rank] = -1;
        enlist(server);
        sigfillset(&all);
        pthread_attr_init(&detached);
        pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
        pthread_sigmask(SIG_SETMASK, &all, &before); /* the process's signals are not for this thread */
        error = pthread_create(&thread, &detached, serve, server);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&detached);
    }
    if (!error)
        return softNcclSuccess;
    if (server)
        delist(server);
    free(server);
    close(listener);
    return node_fail(softNcclSystemError, why, "no thread to serve the id: %s", strerror(error));
}
