/* SPDX-License-Identifier: MIT
 *
 * gather and broadcast over the star. A message is a frame: head and data. Rank 0 reads all ranks' frames side by side,
 * in whatever pieces they come, so that it notices at once when any of them leaves.
 */
#include "star.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "progress.h"
#include "sys/clock.h"
#include "sys/exit_codes.h"
#include "sys/log.h"
#include "wire.h"

#define FAILURE_GRACE_S 0.5 /* for telling a failure to each rank: they are waiting for us */

enum frame_kind { FRAME_DATA = 0x44445044, FRAME_FAILURE = 0x44445046 };

struct frame {
    uint32_t kind;
    uint32_t operation;
    uint64_t bytes;
};

struct failure {
    int exit_code;
    int left; /* the rank whose connection closed; -1: it is not that */
    char text[500];
};

/* What rank 0 has of one rank's frame so far. */
struct arrival {
    struct frame frame;
    size_t received; /* of head and data together */
};

/* Rank 0: reports the failure here and tells it to every rank that still listens. Returns its exit code. */
static int fail_all(struct star *star, const struct failure *failure)
{
    struct frame frame = {.kind = FRAME_FAILURE, .operation = star->operations, .bytes = sizeof(*failure)};
    log_error("%s", failure->text);
    progress_blame(star->rank, failure->left);
    for (int rank = 1; rank < star->size; rank++) {
        double deadline = clock_seconds() + FAILURE_GRACE_S;
        if (wire_send(star->sockets[rank], &frame, sizeof(frame), deadline) == WIRE_OK)
            (void)wire_send(star->sockets[rank], failure, sizeof(*failure), deadline);
    }
    return failure->exit_code;
}

static int fail_one(struct star *star, enum wire_result result, int rank)
{
    struct failure failure = {.exit_code = result == WIRE_TIMEOUT ? EXIT_TIME_LIMIT : EXIT_CHECK_FAILED,
                              .left = result == WIRE_TIMEOUT ? -1 : rank};
    if (result == WIRE_TIMEOUT)
        snprintf(failure.text, sizeof(failure.text), "rank %d did not come to host operation %u within %g s", rank,
                 star->operations, star->timeout_s);
    else
        snprintf(failure.text, sizeof(failure.text),
                 "rank %d has left: it closed its connection before host operation %u", rank, star->operations);
    return fail_all(star, &failure);
}

/* A head that does not fit: the ranks are not at the same operation. */
static int check_head(struct star *star, const struct frame *frame, int rank, size_t bytes)
{
    struct failure failure = {.exit_code = EXIT_CHECK_FAILED, .left = -1};
    if (frame->kind == FRAME_DATA && frame->operation == star->operations && frame->bytes == bytes)
        return EXIT_OK;
    snprintf(failure.text, sizeof(failure.text),
             "ranks are not at the same host operation: rank %d at %u with %llu bytes, rank 0 at %u with %zu bytes",
             rank, frame->operation, (unsigned long long)frame->bytes, star->operations, bytes);
    return fail_all(star, &failure);
}

/* Takes what has arrived from one rank. *complete: its data lie in `data`. */
static int take(struct star *star, struct arrival *arrival, int rank, void *data, size_t bytes, bool *complete)
{
    const size_t head = sizeof(arrival->frame);
    while (arrival->received < head + bytes) {
        bool in_head = arrival->received < head;
        char *to = in_head ? (char *)&arrival->frame + arrival->received : (char *)data + (arrival->received - head);
        ssize_t received =
            wire_receive_some(star->sockets[rank], to, (in_head ? head : head + bytes) - arrival->received);
        if (received < 0)
            return fail_one(star, WIRE_CLOSED, rank);
        if (received == 0)
            return EXIT_OK;
        arrival->received += (size_t)received;
        if (in_head && arrival->received == head) {
            int status = check_head(star, &arrival->frame, rank, bytes);
            if (status)
                return status;
        }
    }
    *complete = true;
    return EXIT_OK;
}

static int first_missing(const struct star *star, const struct pollfd *polled)
{
    for (int rank = 1; rank < star->size; rank++)
        if (polled[rank].fd >= 0)
            return rank;
    return 0;
}

/* Rank 0's side of gather. polled[rank].fd is -1 for those whose data are complete. */
static int collect(struct star *star, struct arrival *arrivals, struct pollfd *polled, size_t bytes, char *all)
{
    double deadline = clock_seconds() + star->timeout_s;
    polled[0].fd = -1;
    for (int rank = 1; rank < star->size; rank++)
        polled[rank] = (struct pollfd){.fd = star->sockets[rank], .events = POLLIN};
    while (first_missing(star, polled)) {
        int ready = poll(polled, (nfds_t)star->size, wire_milliseconds(deadline));
        if (ready <= 0 && clock_seconds() >= deadline)
            return fail_one(star, WIRE_TIMEOUT, first_missing(star, polled));
        for (int rank = 1; ready > 0 && rank < star->size; rank++) {
            bool complete = false;
            if (polled[rank].fd < 0 || !polled[rank].revents)
                continue;
            int status = take(star, &arrivals[rank], rank, all + (size_t)rank * bytes, bytes, &complete);
            if (status)
                return status;
            if (complete)
                polled[rank].fd = -1;
        }
    }
    return EXIT_OK;
}

/* Rank r: a frame from rank 0, which may be the news of a failure. */
static int receive_from_rank_0(struct star *star, void *data, size_t bytes)
{
    /* Rank 0 gives up first and tells why: its limit runs out a little before ours. */
    double deadline = clock_seconds() + star->timeout_s + FAILURE_GRACE_S;
    struct frame frame;
    struct failure failure;
    enum wire_result result = wire_receive(star->sockets[0], &frame, sizeof(frame), deadline);
    if (result == WIRE_OK && frame.kind == FRAME_FAILURE && frame.bytes == sizeof(failure)) {
        result = wire_receive(star->sockets[0], &failure, sizeof(failure), deadline);
        if (result == WIRE_OK) {
            failure.text[sizeof(failure.text) - 1] = '\0';
            log_error("%s", failure.text);
            progress_blame(star->rank, failure.left);
            return failure.exit_code ? failure.exit_code : EXIT_CHECK_FAILED;
        }
    } else if (result == WIRE_OK) {
        if (frame.kind != FRAME_DATA || frame.operation != star->operations || frame.bytes != bytes) {
            log_error(
                "ranks are not at the same host operation: rank 0 at %u with %llu bytes, rank %d at %u with %zu bytes",
                frame.operation, (unsigned long long)frame.bytes, star->rank, star->operations, bytes);
            return EXIT_CHECK_FAILED;
        }
        result = wire_receive(star->sockets[0], data, bytes, deadline);
    }
    if (result == WIRE_OK)
        return EXIT_OK;
    if (result == WIRE_TIMEOUT)
        log_error("rank 0 did not come to host operation %u within %g s", star->operations, star->timeout_s);
    else {
        log_error("rank 0 has left: it closed its connection before host operation %u", star->operations);
        progress_blame(star->rank, 0);
    }
    return result == WIRE_TIMEOUT ? EXIT_TIME_LIMIT : EXIT_CHECK_FAILED;
}

static enum wire_result send_frame(struct star *star, int socket, const void *data, size_t bytes)
{
    double deadline = clock_seconds() + star->timeout_s;
    struct frame frame = {.kind = FRAME_DATA, .operation = star->operations, .bytes = bytes};
    enum wire_result result = wire_send(socket, &frame, sizeof(frame), deadline);
    return result == WIRE_OK ? wire_send(socket, data, bytes, deadline) : result;
}

static int gather_once(struct star *star, const void *mine, size_t bytes, void *all)
{
    star->operations++;
    if (star->rank > 0) {
        /* If rank 0 has told a failure, it stands before the closed end: the next receive reads it. */
        if (send_frame(star, star->sockets[0], mine, bytes) == WIRE_OK)
            return EXIT_OK;
        int status = receive_from_rank_0(star, NULL, 0);
        return status ? status : EXIT_CHECK_FAILED;
    }
    if (bytes > 0)
        memcpy(all, mine, bytes);
    struct arrival *arrivals = calloc((size_t)star->size, sizeof(*arrivals));
    struct pollfd *polled = calloc((size_t)star->size, sizeof(*polled));
    int status = EXIT_RESOURCE;
    if (arrivals && polled)
        status = collect(star, arrivals, polled, bytes, all);
    else
        log_error("no memory for a gather over %d ranks", star->size);
    free(arrivals);
    free(polled);
    return status;
}

static int broadcast_once(struct star *star, void *data, size_t bytes)
{
    star->operations++;
    if (star->rank > 0)
        return receive_from_rank_0(star, data, bytes);
    for (int rank = 1; rank < star->size; rank++) {
        enum wire_result result = send_frame(star, star->sockets[rank], data, bytes);
        if (result != WIRE_OK)
            return fail_one(star, result, rank);
    }
    return EXIT_OK;
}

/* What has failed stays failed, and has been reported. */
static int gather(struct world *world, const void *mine, size_t bytes, void *all)
{
    struct star *star = world->state;
    if (!star->failed)
        star->failed = gather_once(star, mine, bytes, all);
    return star->failed;
}

static int broadcast(struct world *world, void *data, size_t bytes)
{
    struct star *star = world->state;
    if (!star->failed)
        star->failed = broadcast_once(star, data, bytes);
    return star->failed;
}

int star_open(struct world *world, int rank, int size, int local_rank, int *sockets, double timeout_s)
{
    struct star *star = malloc(sizeof(*star));
    if (!star) {
        log_error("no memory for the connections of rank %d", rank);
        return EXIT_RESOURCE;
    }
    *star = (struct star){.rank = rank, .size = size, .sockets = sockets, .timeout_s = timeout_s};
    *world = (struct world){
        .rank = rank, .size = size, .local_rank = local_rank, .gather = gather, .broadcast = broadcast, .state = star};
    return EXIT_OK;
}

void star_close(struct world *world)
{
    struct star *star = world->state;
    if (!star)
        return;
    int count = star->rank == 0 ? star->size : 1;
    for (int i = 0; i < count; i++)
        if (star->sockets[i] >= 0)
            close(star->sockets[i]);
    free(star->sockets);
    free(star);
    world->state = NULL;
}
