/* SPDX-License-Identifier: MIT
 *
 * Sending and receiving with a deadline: try, and poll only when the socket has nothing to offer.
 */
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "sys/clock.h"

int wire_milliseconds(double deadline)
{
    double left = ceil((deadline - clock_seconds()) * 1e3);
    return left <= 0 ? 0 : left > 1e9 ? 1000000000 : (int)left;
}

enum wire_result wire_wait(int fd, short events, double deadline)
{
    struct pollfd entry = {.fd = fd, .events = events};
    for (;;) {
        int ready = poll(&entry, 1, wire_milliseconds(deadline));
        if (ready > 0)
            return WIRE_OK;
        if (ready < 0 && errno != EINTR)
            return WIRE_CLOSED;
        if (clock_seconds() >= deadline)
            return WIRE_TIMEOUT;
    }
}

static bool try_again(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

enum wire_result wire_send(int fd, const void *data, size_t bytes, double deadline)
{
    const char *next = data;
    while (bytes > 0) {
        ssize_t sent = send(fd, next, bytes, MSG_NOSIGNAL);
        if (sent > 0) {
            next += sent;
            bytes -= (size_t)sent;
            continue;
        }
        if (sent < 0 && !try_again())
            return WIRE_CLOSED;
        enum wire_result waited = wire_wait(fd, POLLOUT, deadline);
        if (waited != WIRE_OK)
            return waited;
    }
    return WIRE_OK;
}

ssize_t wire_receive_some(int fd, void *data, size_t bytes)
{
    ssize_t received = recv(fd, data, bytes, 0);
    if (received > 0)
        return received;
    return received < 0 && try_again() ? 0 : -1;
}

enum wire_result wire_receive(int fd, void *data, size_t bytes, double deadline)
{
    char *next = data;
    while (bytes > 0) {
        ssize_t received = wire_receive_some(fd, next, bytes);
        if (received < 0)
            return WIRE_CLOSED;
        next += received;
        bytes -= (size_t)received;
        if (received > 0)
            continue;
        enum wire_result waited = wire_wait(fd, POLLIN, deadline);
        if (waited != WIRE_OK)
            return waited;
    }
    return WIRE_OK;
}

bool wire_prepare(int fd)
{
    int one = 1;
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 &&
           setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0;
}
