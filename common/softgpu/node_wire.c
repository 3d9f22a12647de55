/* SPDX-License-Identifier: MIT
 *
 * Datagrams with descriptors, tokens, and the sentence of an error.
 */
#include "node_wire.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

union descriptor_space {
    struct cmsghdr header; /* for its alignment */
    char bytes[CMSG_SPACE(NODE_MAX_DESCRIPTORS * sizeof(int))];
};

int node_send(int socket, const void *message, size_t bytes, const int *descriptors, int count)
{
    union descriptor_space space = {0};
    struct iovec data = {.iov_base = (void *)message, .iov_len = bytes};
    struct msghdr header = {.msg_iov = &data, .msg_iovlen = 1};
    if (count > 0) {
        header.msg_control = space.bytes;
        header.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
        memcpy(CMSG_DATA(rights), descriptors, (size_t)count * sizeof(int));
    }
    ssize_t sent;
    do
        sent = sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)bytes ? 0 : -1;
}

/* Collects the descriptors that came along into `all` (room for NODE_MAX_DESCRIPTORS); returns how many. */
static int take_descriptors(struct msghdr *header, int *all)
{
    int taken = 0;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(header); part; part = CMSG_NXTHDR(header, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        int here = (int)((part->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(all + taken, CMSG_DATA(part), (size_t)here * sizeof(int));
        taken += here;
    }
    return taken;
}

int node_receive(int socket, void *message, size_t bytes, int *descriptors, int count)
{
    union descriptor_space space;
    struct iovec data = {.iov_base = message, .iov_len = bytes};
    struct msghdr header = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = space.bytes};
    header.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
    ssize_t received;
    do
        received = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (received < 0 && errno == EINTR);
    if (received <= 0)
        return received == 0 ? 0 : -1;
    int all[NODE_MAX_DESCRIPTORS + 1]; /* CMSG_SPACE is rounded up: one more may fit in */
    int taken = take_descriptors(&header, all);
    if (received == (ssize_t)bytes && taken == count && !(header.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
        memcpy(descriptors, all, (size_t)count * sizeof(int));
        return 1;
    }
    for (int i = 0; i < taken; i++)
        close(all[i]);
    errno = header.msg_flags & MSG_CTRUNC ? EMFILE : EPROTO;
    return -1;
}

socklen_t node_address(struct sockaddr_un *address, const char *name)
{
    const size_t length = strnlen(name, NODE_NAME_BYTES);
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path + 1, name, length);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

bool node_same_token(const uint8_t a[NODE_TOKEN_BYTES], const uint8_t b[NODE_TOKEN_BYTES])
{
    unsigned different = 0;
    for (int i = 0; i < NODE_TOKEN_BYTES; i++)
        different |= (unsigned)(a[i] ^ b[i]);
    return different == 0;
}

softNcclResult_t node_random(void *bytes, size_t count, char why[NODE_WHY_BYTES])
{
    if (!getentropy(bytes, count))
        return softNcclSuccess;
    return node_fail(softNcclSystemError, why, "no random numbers: %s", strerror(errno));
}

softNcclResult_t node_fail(softNcclResult_t result, char why[NODE_WHY_BYTES], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, NODE_WHY_BYTES, format, arguments);
    va_end(arguments);
    return result;
}
