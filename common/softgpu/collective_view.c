/* SPDX-License-Identifier: MIT
 *
 * One view a process and communicator, shared by the ranks that are its threads: their atomics and their data then have
 * one address each, which the thread sanitizer needs, and a peer in another process is mapped once.
 */
#include "collective.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct view *views;
static struct soft_lock views_lock;

static void unmap(struct view *view)
{
    for (int rank = 0; rank < view->ranks; rank++) {
        if (view->mapped_bytes[rank])
            munmap(view->base[rank], view->mapped_bytes[rank]);
        if (view->life[rank] >= 0)
            close(view->life[rank]);
    }
    if (view->control)
        munmap(view->control, sizeof *view->control);
    hidden_free(view);
}

static void *map_shared(int memfd, size_t bytes, const char *what, char why[NODE_WHY_BYTES])
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
    if (at != MAP_FAILED)
        return at;
    snprintf(why, NODE_WHY_BYTES, "can't map %zu bytes of %s: %s", bytes, what, strerror(errno));
    return NULL;
}

static struct view *view_new(int control, const uint8_t token[16], int ranks, char why[NODE_WHY_BYTES])
{
    struct view *view = hidden_alloc(sizeof *view);
    if (!view) {
        snprintf(why, NODE_WHY_BYTES, "no memory for a communicator");
        return NULL;
    }
    view->ranks = ranks;
    for (int rank = 0; rank < COLLECTIVE_MAX_RANKS; rank++)
        view->life[rank] = -1;
    hidden_copy(view->token, token, sizeof view->token);
    view->control = map_shared(control, sizeof *view->control, "the control segment", why);
    if (view->control)
        return view;
    hidden_free(view);
    return NULL;
}

static bool map_peers(struct view *view, const struct node *node, char why[NODE_WHY_BYTES])
{
    for (int rank = 0; rank < node->ranks; rank++) {
        if (node_is_here(&node->member[rank]))
            continue;
        char what[64];
        snprintf(what, sizeof what, "rank %d's device", rank);
        view->base[rank] = map_shared(node->memory[rank], node->member[rank].memory_bytes, what, why);
        if (!view->base[rank])
            return false;
        view->mapped_bytes[rank] = node->member[rank].memory_bytes;
        view->process[rank] = node->member[rank].process;
        view->life[rank] = (int)syscall(SYS_pidfd_open, node->member[rank].process, 0); /* Linux 5.3; close-on-exec */
    }
    return true;
}

static struct view *find(const uint8_t token[16])
{
    for (struct view *view = views; view; view = view->next)
        if (!memcmp(view->token, token, sizeof view->token))
            return view;
    return NULL;
}

struct view *view_attach(const struct node *node, int rank, char *kernel_base, char why[NODE_WHY_BYTES])
{
    soft_lock(&views_lock, "communicators");
    struct view *view = find(node->token);
    if (!view) {
        view = view_new(node->control, node->token, node->ranks, why);
        if (view && !map_peers(view, node, why)) {
            control_stop(view->control, softNcclSystemError, why); /* the others need not wait for this rank */
            unmap(view);
            view = NULL;
        }
        if (view) {
            view->next = views;
            views = view;
        }
    }
    if (view) {
        view->base[rank] = kernel_base;
        view->users++;
    }
    soft_unlock(&views_lock);
    return view;
}

struct view *view_create(int control, const uint8_t token[16], int ranks, char *const *kernel_base,
                         char why[NODE_WHY_BYTES])
{
    struct view *view = view_new(control, token, ranks, why);
    if (!view)
        return NULL;
    view->one_call = true;
    view->users = ranks;
    for (int rank = 0; rank < ranks; rank++)
        view->base[rank] = kernel_base[rank];
    soft_lock(&views_lock, "communicators");
    view->next = views;
    views = view;
    soft_unlock(&views_lock);
    return view;
}

bool view_has_gone(const struct view *view, int rank)
{
    struct pollfd polled = {.fd = view->life[rank], .events = POLLIN};
    return view->life[rank] >= 0 && poll(&polled, 1, 0) == 1;
}

void view_detach(struct view *view)
{
    soft_lock(&views_lock, "communicators");
    bool last = --view->users == 0;
    for (struct view **at = &views; last && *at; at = &(*at)->next)
        if (*at == view) {
            *at = view->next;
            break;
        }
    soft_unlock(&views_lock);
    if (last)
        unmap(view);
}
