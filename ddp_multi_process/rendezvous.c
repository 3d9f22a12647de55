/* SPDX-License-Identifier: MIT
 *
 * The meeting from the side of a rank that comes, and what both sides share; rank 0's side is reception.c.
 */
#include "rendezvous.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "star.h"
#include "sys/clock.h"
#include "sys/exit_codes.h"
#include "sys/log.h"
#include "wire.h"

#define RETRY_S 0.02 /* between attempts while rank 0 does not listen yet */

static struct addrinfo *resolve(const char *host, int port)
{
    char service[16];
    snprintf(service, sizeof(service), "%d", port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int error = getaddrinfo(host, service, &hints, &found);
    if (error)
        log_error("MASTER_ADDR=%s: %s", host, gai_strerror(error));
    return error ? NULL : found;
}

static int bound_port(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof(address);
    char service[16] = "";
    if (getsockname(fd, (struct sockaddr *)&address, &length) != 0 ||
        getnameinfo((struct sockaddr *)&address, length, NULL, 0, service, sizeof(service), NI_NUMERICSERV) != 0)
        return -1;
    return (int)strtol(service, NULL, 10);
}

int rendezvous_listen(const char *host, int port, int *listen_fd, int *bound)
{
    struct addrinfo *address = resolve(host, port);
    if (!address)
        return EXIT_RESOURCE;
    int one = 1;
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* SO_REUSEADDR: a restart must not wait for the connections of the run before; two that LISTEN still exclude each
     * other. */
    bool good = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
                bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0 &&
                (*bound = bound_port(fd)) > 0;
    if (!good) {
        log_error("can't listen on %s port %d: %s", host, port, strerror(errno));
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    freeaddrinfo(address);
    *listen_fd = fd;
    return good ? EXIT_OK : EXIT_RESOURCE;
}

/* One attempt; -1: no connection, *refused: because nobody listens (yet, or any more). */
static int try_connect(const struct addrinfo *address, bool *refused)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    int error = connect(fd, address->ai_addr, address->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS && wire_wait(fd, POLLOUT, clock_seconds() + HANDSHAKE_LIMIT_S) == WIRE_OK) {
        socklen_t length = sizeof(error);
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0)
            error = errno;
    }
    *refused = error == ECONNREFUSED;
    if (error == 0 && wire_prepare(fd))
        return fd;
    close(fd);
    return -1;
}

/* Connects until a greeting comes. Once we have been greeted and then lost the connection in a rush of strangers, rank
 * 0 must still be there: if it is not, waiting is in vain. */
static int connect_and_greet(const struct rendezvous *rendezvous, const struct addrinfo *address, double deadline,
                             bool was_greeted, struct greeting *greeting, int *socket)
{
    const struct environment *environment = rendezvous->environment;
    for (;;) {
        bool refused = false;
        int fd = try_connect(address, &refused);
        if (fd < 0 && refused && was_greeted) {
            log_error("rank 0 left during the rendezvous");
            return EXIT_RENDEZVOUS;
        }
        double limit = clock_seconds() + HANDSHAKE_LIMIT_S;
        if (fd >= 0 && wire_receive(fd, greeting, sizeof(*greeting), limit < deadline ? limit : deadline) == WIRE_OK) {
            *socket = fd;
            if (greeting_is_ours(greeting))
                return EXIT_OK;
            log_error("what answers at %s port %d is not a rank 0 of this program", environment->host,
                      environment->port);
            return EXIT_RENDEZVOUS;
        }
        if (fd >= 0)
            close(fd);
        if (clock_seconds() >= deadline) {
            log_error("rendezvous incomplete after %g s, missing ranks: 0 (nobody answers at %s port %d)",
                      rendezvous->limit_s, environment->host, environment->port);
            return EXIT_RENDEZVOUS;
        }
        clock_sleep(RETRY_S);
    }
}

/* Rank 0's verdict: welcome (0), or the reason why not. *lost: the connection ended before there was one. */
static int read_answer(const struct rendezvous *rendezvous, const struct hello *hello, double deadline, int socket,
                       bool *lost)
{
    struct answer answer;
    char text[ANSWER_MAX_TEXT_BYTES + 1] = "";
    enum wire_result result = wire_receive(socket, &answer, sizeof(answer), deadline);
    *lost = result == WIRE_CLOSED;
    if (*lost)
        return EXIT_RENDEZVOUS;
    if (result == WIRE_OK) {
        if (!answer_is_sealed(&answer, hello, rendezvous->environment->token)) {
            log_error("rank 0 at %s port %d belongs to another launch: it refused this one's token",
                      rendezvous->environment->host, rendezvous->environment->port);
            return EXIT_RENDEZVOUS;
        }
        size_t bytes = answer.text_bytes < ANSWER_MAX_TEXT_BYTES ? answer.text_bytes : ANSWER_MAX_TEXT_BYTES;
        result = wire_receive(socket, text, bytes, deadline);
    }
    if (result != WIRE_OK)
        log_error("rank 0 did not finish the rendezvous within %g s", rendezvous->limit_s);
    else if (answer.exit_code)
        log_error("%s", text);
    return result == WIRE_OK ? (int)answer.exit_code : EXIT_RENDEZVOUS;
}

/* Comes to rank 0, again if the connection is lost before the answer. */
static int join_at(const struct rendezvous *rendezvous, const struct addrinfo *address, int *socket)
{
    const struct environment *environment = rendezvous->environment;
    size_t options_bytes = strlen(rendezvous->options);
    double deadline = clock_seconds() + rendezvous->limit_s;
    bool lost = false;
    for (;;) {
        struct greeting greeting;
        struct hello hello;
        int status = connect_and_greet(rendezvous, address, deadline, lost, &greeting, socket);
        if (!status)
            status = hello_fill(&hello, environment->rank, environment->world_size, options_bytes);
        if (status)
            return status;
        hello_seal(&hello, &greeting, environment->token);
        /* A refusal may already be on its way when sending fails: the answer is read in any case. */
        if (wire_send(*socket, &hello, sizeof(hello), deadline) == WIRE_OK)
            (void)wire_send(*socket, rendezvous->options, options_bytes, deadline);
        /* Rank 0 knows best who is missing: it gets the time to tell. */
        status = read_answer(rendezvous, &hello, deadline + FAREWELL_S, *socket, &lost);
        if (!lost)
            return status;
        close(*socket);
        *socket = -1;
    }
}

/* The whole way of a rank > 0. */
static int join(const struct rendezvous *rendezvous, int *socket)
{
    struct addrinfo *address = resolve(rendezvous->environment->host, rendezvous->environment->port);
    if (!address)
        return EXIT_RENDEZVOUS;
    int status = join_at(rendezvous, address, socket);
    freeaddrinfo(address);
    return status;
}

/* Rank 0: the socket that our launcher bound, or one of its own. */
static int host(const struct rendezvous *rendezvous, int *sockets)
{
    const struct environment *environment = rendezvous->environment;
    int listen_fd = environment->listen_fd, bound;
    int status = EXIT_OK;
    if (listen_fd < 0)
        status = rendezvous_listen(environment->host, environment->port, &listen_fd, &bound);
    if (status)
        return status;
    status = reception_run(rendezvous, listen_fd, sockets);
    /* It stays in slot 0, open and deaf, to the end of the run: so the port stays taken, and a second job on it fails
     * at once. */
    sockets[0] = listen_fd;
    return status;
}

int rendezvous_open(struct world *world, const struct rendezvous *rendezvous)
{
    const struct environment *environment = rendezvous->environment;
    *world = world_alone();
    int count = environment->rank == 0 ? environment->world_size : 1;
    int *sockets = malloc((size_t)count * sizeof(*sockets));
    if (!sockets) {
        log_error("no memory for the connections of %d ranks", environment->world_size);
        return EXIT_RESOURCE;
    }
    for (int i = 0; i < count; i++)
        sockets[i] = -1;
    int status = environment->rank == 0 ? host(rendezvous, sockets) : join(rendezvous, &sockets[0]);
    if (!status)
        status = star_open(world, environment->rank, environment->world_size, environment->local_rank, sockets,
                           rendezvous->timeout_s);
    if (status) {
        for (int i = 0; i < count; i++)
            if (sockets[i] >= 0)
                close(sockets[i]);
        free(sockets);
    }
    return status;
}

void rendezvous_close(struct world *world)
{
    star_close(world);
}
