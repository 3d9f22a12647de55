/* SPDX-License-Identifier: MIT
 *
 * Rank 0 receives the other ranks. One poll loop: the listening socket, visitors who have not proven anything yet, and
 * ranks that have joined (one that leaves now ends the rendezvous). A visitor has HANDSHAKE_LIMIT_S from its connection
 * to the last byte of its hello, however it doles them out; what is not a hello of this launch is dropped at the first
 * wrong tag. When something is wrong with the launch itself, every rank is told, late ones too for FAREWELL_S.
 */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rendezvous.h"
#include "sys/clock.h"
#include "sys/exit_codes.h"
#include "sys/log.h"
#include "wire.h"

#define MAX_VISITORS 256 /* at a time; when one more comes, the one that has been here longest goes */

/* Admitted before those who are here are heard again: in a rush of strangers a rank still gets its word in. */
#define VISITORS_A_ROUND 32

struct visitor {
    int fd;
    double deadline;
    struct greeting greeting;
    struct hello hello;
    size_t received; /* of hello and options together */
    char *options;   /* [hello.options_bytes + 1], once the hello is believed */
};

struct reception {
    const struct rendezvous *rendezvous;
    int listen_fd;
    int *sockets;                          /* [world size]: joined ranks, -1 else */
    struct hello *hellos;                  /* [world size]: of joined ranks */
    int joined;                            /* ranks that have joined, rank 0 included */
    struct visitor visitors[MAX_VISITORS]; /* the first has been here longest */
    int visitor_count;
    int exit_code; /* of the verdict, once there is one */
    char verdict[ANSWER_MAX_TEXT_BYTES];
};

static int world_size(const struct reception *reception)
{
    return reception->rendezvous->environment->world_size;
}

static void drop_visitor(struct reception *reception, int index)
{
    struct visitor *visitor = &reception->visitors[index];
    if (visitor->fd >= 0)
        close(visitor->fd);
    free(visitor->options);
    reception->visitor_count--;
    memmove(visitor, visitor + 1, (size_t)(reception->visitor_count - index) * sizeof(*visitor));
}

/* Both are waiting for it, and it fits any socket's buffer: the deadline is a formality. */
static void send_answer(struct reception *reception, int fd, const struct hello *hello)
{
    double deadline = clock_seconds() + FAREWELL_S;
    struct answer answer = {.exit_code = (uint32_t)reception->exit_code,
                            .text_bytes = (uint32_t)strlen(reception->verdict)};
    answer_seal(&answer, hello, reception->rendezvous->environment->token);
    if (wire_send(fd, &answer, sizeof(answer), deadline) == WIRE_OK)
        (void)wire_send(fd, reception->verdict, answer.text_bytes, deadline);
}

/* The launch is wrong: from now on every rank that is here or comes gets this answer. The first verdict counts. */
LOG_FORMAT(3, 4)
static void condemn(struct reception *reception, int exit_code, const char *format, ...)
{
    if (reception->exit_code)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reception->verdict, sizeof(reception->verdict), format, arguments);
    va_end(arguments);
    reception->exit_code = exit_code;
    log_error("%s", reception->verdict);
    for (int rank = 1; rank < world_size(reception); rank++)
        if (reception->sockets[rank] >= 0)
            send_answer(reception, reception->sockets[rank], &reception->hellos[rank]);
}

/* A hello with the right tag: is it right for this launch? */
static void check_hello(struct reception *reception, const struct hello *hello)
{
    int size = world_size(reception);
    if (hello->world_size != size)
        condemn(reception, EXIT_RENDEZVOUS, "world sizes differ: %d on rank 0 and %d on rank %d", size,
                hello->world_size, hello->rank);
    else if (hello->rank < 0 || hello->rank >= size)
        condemn(reception, EXIT_RENDEZVOUS, "a process calls itself rank %d: ranks are 0 to %d", hello->rank, size - 1);
    else if (hello->rank == 0)
        condemn(reception, EXIT_RENDEZVOUS, "rank 0 came twice: process %u also calls itself rank 0", hello->pid);
    else if (reception->sockets[hello->rank] >= 0)
        condemn(reception, EXIT_RENDEZVOUS, "rank %d came twice: processes %u and %u", hello->rank,
                reception->hellos[hello->rank].pid, hello->pid);
    else if (hello->options_bytes > HELLO_MAX_OPTIONS_BYTES)
        condemn(reception, EXIT_USAGE, "rank %d has %u bytes of options: expected at most %d", hello->rank,
                hello->options_bytes, HELLO_MAX_OPTIONS_BYTES);
}

/* The whole hello of a visitor is here: it joins, or is told why not. The visitor's place is free afterwards. */
static void receive_rank(struct reception *reception, int index)
{
    struct visitor *visitor = &reception->visitors[index];
    int rank = visitor->hello.rank;
    char difference[ANSWER_MAX_TEXT_BYTES / 2];
    if (!reception->exit_code &&
        options_differ(difference, sizeof(difference), reception->rendezvous->options, visitor->options, rank))
        condemn(reception, EXIT_USAGE, "%s: all ranks need the same options", difference);
    if (reception->exit_code) {
        send_answer(reception, visitor->fd, &visitor->hello);
        reception->joined++; /* told: nobody waits for it */
    } else {
        reception->sockets[rank] = visitor->fd;
        reception->hellos[rank] = visitor->hello;
        reception->joined++;
        visitor->fd = -1;
    }
    drop_visitor(reception, index);
}

/* The head of a hello is here. Checks the tag first, then what it says, then makes room for the options. false: the
 * visitor is gone from the list. */
static bool believe_head(struct reception *reception, int index)
{
    static const struct answer unsealed_refusal = {.exit_code = EXIT_RENDEZVOUS};
    struct visitor *visitor = &reception->visitors[index];
    if (!hello_is_sealed(&visitor->hello, &visitor->greeting, reception->rendezvous->environment->token)) {
        log_warning("a visitor without this launch's token was turned away");
        (void)wire_send(visitor->fd, &unsealed_refusal, sizeof(unsealed_refusal), visitor->deadline);
        drop_visitor(reception, index);
        return false;
    }
    check_hello(reception, &visitor->hello);
    if (!reception->exit_code && !(visitor->options = calloc((size_t)visitor->hello.options_bytes + 1, 1)))
        condemn(reception, EXIT_RESOURCE, "no memory for the options of rank %d", visitor->hello.rank);
    if (!reception->exit_code)
        return true;
    receive_rank(reception, index);
    return false;
}

/* Reads on. false: the visitor is gone from the list. */
static bool listen_to_visitor(struct reception *reception, int index)
{
    struct visitor *visitor = &reception->visitors[index];
    const size_t head = sizeof(visitor->hello);
    for (;;) {
        bool in_head = visitor->received < head;
        size_t whole = in_head ? head : head + visitor->hello.options_bytes;
        char *to =
            in_head ? (char *)&visitor->hello + visitor->received : visitor->options + (visitor->received - head);
        if (visitor->received < whole) {
            ssize_t received = wire_receive_some(visitor->fd, to, whole - visitor->received);
            if (received == 0)
                return true;
            if (received < 0) {
                drop_visitor(reception, index);
                return false;
            }
            visitor->received += (size_t)received;
        }
        if (visitor->received == whole && !in_head) {
            receive_rank(reception, index);
            return false;
        }
        if (visitor->received == head && in_head && !believe_head(reception, index))
            return false;
    }
}

static void admit_visitors(struct reception *reception)
{
    for (int admitted = 0; admitted < VISITORS_A_ROUND; admitted++) {
        int fd = accept4(reception->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            /* Out of descriptors: the one that has been here longest makes room, so that a rank can still come. */
            if ((errno == EMFILE || errno == ENFILE) && reception->visitor_count > 0)
                drop_visitor(reception, 0);
            return;
        }
        if (reception->visitor_count == MAX_VISITORS)
            drop_visitor(reception, 0);
        struct visitor *visitor = &reception->visitors[reception->visitor_count++];
        *visitor = (struct visitor){.fd = fd, .deadline = clock_seconds() + HANDSHAKE_LIMIT_S};
        if (!wire_prepare(fd) || greeting_fill(&visitor->greeting) ||
            wire_send(fd, &visitor->greeting, sizeof(visitor->greeting), visitor->deadline) != WIRE_OK)
            drop_visitor(reception, reception->visitor_count - 1);
    }
}

/* A joined rank says nothing until it is let go: what poll reports is that it left. */
static void check_joined(struct reception *reception, int rank)
{
    char byte;
    if (wire_receive_some(reception->sockets[rank], &byte, 1) == 0)
        return;
    close(reception->sockets[rank]);
    reception->sockets[rank] = -1;
    condemn(reception, EXIT_RENDEZVOUS, "rank %d (process %u) left during the rendezvous", rank,
            reception->hellos[rank].pid);
}

static void list_missing(const struct reception *reception, char *list, size_t size)
{
    size_t used = 0;
    list[0] = '\0';
    for (int rank = 1; rank < world_size(reception) && used + 8 < size; rank++)
        if (reception->sockets[rank] < 0)
            used += (size_t)snprintf(list + used, size - used, "%s%d", used ? ", " : "", rank);
}

/* One round of the loop: sleeps until something happens or `deadline`. polled has room for everyone. */
static void attend(struct reception *reception, struct pollfd *polled, double deadline)
{
    int size = world_size(reception), visitors = reception->visitor_count;
    polled[0] = (struct pollfd){.fd = reception->listen_fd, .events = POLLIN};
    for (int rank = 1; rank < size; rank++)
        polled[rank] = (struct pollfd){.fd = reception->sockets[rank], .events = POLLIN};
    for (int i = 0; i < visitors; i++) {
        polled[size + i] = (struct pollfd){.fd = reception->visitors[i].fd, .events = POLLIN};
        if (reception->visitors[i].deadline < deadline)
            deadline = reception->visitors[i].deadline;
    }
    int ready = poll(polled, (nfds_t)size + (nfds_t)visitors, wire_milliseconds(deadline));
    double now = clock_seconds();
    /* From the last to the first: what moves up when a visitor goes has been seen already. */
    for (int i = visitors - 1; i >= 0; i--) {
        bool stays = ready <= 0 || !polled[size + i].revents || listen_to_visitor(reception, i);
        if (stays && now >= reception->visitors[i].deadline)
            drop_visitor(reception, i);
    }
    for (int rank = 1; ready > 0 && rank < size; rank++)
        if (polled[rank].revents && reception->sockets[rank] >= 0)
            check_joined(reception, rank);
    if (ready > 0 && polled[0].revents)
        admit_visitors(reception);
}

static void receive_all(struct reception *reception, struct pollfd *polled)
{
    double deadline = clock_seconds() + reception->rendezvous->limit_s;
    char missing[512];
    bool farewell = false;
    while (reception->joined < world_size(reception)) {
        attend(reception, polled, deadline);
        if (reception->exit_code && !farewell) {
            farewell = true;
            deadline = clock_seconds() + FAREWELL_S;
        }
        if (clock_seconds() < deadline)
            continue;
        if (farewell)
            return;
        list_missing(reception, missing, sizeof(missing));
        condemn(reception, EXIT_RENDEZVOUS, "rendezvous incomplete after %g s, missing ranks: %s",
                reception->rendezvous->limit_s, missing);
        return;
    }
}

int reception_run(const struct rendezvous *rendezvous, int listen_fd, int *sockets)
{
    size_t size = (size_t)rendezvous->environment->world_size;
    struct reception *reception = calloc(1, sizeof(*reception));
    struct hello *hellos = calloc(size, sizeof(*hellos));
    struct pollfd *polled = calloc(size + MAX_VISITORS, sizeof(*polled));
    int status = EXIT_RESOURCE;
    if (reception && hellos && polled) {
        *reception = (struct reception){
            .rendezvous = rendezvous, .listen_fd = listen_fd, .sockets = sockets, .hellos = hellos, .joined = 1};
        receive_all(reception, polled);
        for (int rank = 1; rank < (int)size && !reception->exit_code; rank++)
            send_answer(reception, sockets[rank], &hellos[rank]);
        while (reception->visitor_count > 0)
            drop_visitor(reception, 0);
        status = reception->exit_code;
    } else {
        log_error("no memory to receive %zu ranks", size);
    }
    free(reception);
    free(hellos);
    free(polled);
    return status;
}
