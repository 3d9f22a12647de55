/* SPDX-License-Identifier: MIT
 *
 * Whole messages over non-blocking sockets, each with a deadline (clock_seconds). Short reads and EINTR are no events;
 * a closed or reset peer is seen at once. Nothing here raises SIGPIPE.
 */
#ifndef DDP_WIRE_H
#define DDP_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum wire_result { WIRE_OK, WIRE_CLOSED, WIRE_TIMEOUT };

enum wire_result wire_send(int fd, const void *data, size_t bytes, double deadline);
enum wire_result wire_receive(int fd, void *data, size_t bytes, double deadline);

/* What there is right now, at most `bytes`: > 0, 0: nothing yet, -1: closed or reset. */
ssize_t wire_receive_some(int fd, void *data, size_t bytes);

/* Waits until fd has one of `events` (POLLIN, POLLOUT) or hung up; WIRE_TIMEOUT at the deadline. */
enum wire_result wire_wait(int fd, short events, double deadline);

/* poll's timeout argument: milliseconds until the deadline, rounded up, never negative. */
int wire_milliseconds(double deadline);

/* Non-blocking, close-on-exec, without Nagle's delay. false: refused by the system. */
bool wire_prepare(int fd);

#endif
