/* SPDX-License-Identifier: MIT
 *
 * The work of a collective in a rank's stream. Peers' buffers are read and written in place: no rank sends, each
 * fetches what it needs. Every call has two meetings: before (all buffers are ready, all calls equal) and after (all
 * have been read).
 *
 * Compiled with the thread sanitizer, so that it sees which bytes are touched.
 *
 * Each byte that crosses from one device to another is counted here, by the rank that moves it (S: bytes of a rank's
 * input): all-reduce      rank r reads slice r of all and writes the sum to all: 2 (n-1) S in all, the ring's 2 S/n
 * each way a pair reduce-scatter  the same without the writing: (n-1) S in all all-gather      n (n-1) S in all
 *   broadcast       (n-1) S, all from the root
 *   reduce          (n-1) S, all to the root
 */
#include "collective.h"

#include <string.h>

struct job {
    const struct collective_work *work;
    const struct collective_call *call;
    struct view *view;
    uint32_t range;
    bool empty; /* shape only: bytes are counted, not moved */
    int rank, ranks;
    size_t element; /* bytes */
};

static const char *send_of(const struct job *job, int rank)
{
    const struct control_rank *theirs = &job->view->control->rank[rank];
    return job->view->base[rank] + theirs->slot[job->call->sequence & 1].call.send;
}

static char *receive_of(const struct job *job, int rank)
{
    const struct control_rank *theirs = &job->view->control->rank[rank];
    return job->view->base[rank] + theirs->slot[job->call->sequence & 1].call.receive;
}

static void count_moved(const struct job *job, int from, int to, size_t bytes)
{
    if (from != to && bytes)
        soft_traffic_add(job->range, from, to, bytes);
}

static void fetch(const struct job *job, char *to, const char *from, int from_rank, size_t bytes)
{
    count_moved(job, from_rank, job->rank, bytes);
    if (!job->empty && to != from && bytes > 0)
        memcpy(to, from, bytes);
}

/* Folds `count` elements of all ranks' inputs from element `first` on into outs outputs. */
static void fold_inputs(const struct job *job, void *const *out, int outs, size_t first, size_t count)
{
    const void *in[COLLECTIVE_MAX_RANKS];
    for (int rank = 0; rank < job->ranks; rank++) {
        count_moved(job, rank, job->rank, count * job->element);
        in[rank] = send_of(job, rank) + first * job->element;
    }
    if (!job->empty)
        fold(out, outs, in, job->ranks, count, job->call->type, job->call->op);
}

/* Slices are whole cache lines, so that no two ranks write into one; the last takes what is over. */
static size_t slice_start(const struct job *job, int rank)
{
    const size_t line = COLLECTIVE_CACHE_LINE / job->element, lines = job->call->count / line;
    const size_t each = lines / (size_t)job->ranks, longer = lines % (size_t)job->ranks, r = (size_t)rank;
    return rank == job->ranks ? job->call->count : (each * r + (r < longer ? r : longer)) * line;
}

static void all_reduce(const struct job *job)
{
    const size_t first = slice_start(job, job->rank), count = slice_start(job, job->rank + 1) - first;
    void *out[COLLECTIVE_MAX_RANKS];
    for (int rank = 0; rank < job->ranks; rank++) {
        count_moved(job, job->rank, rank, count * job->element);
        out[rank] = receive_of(job, rank) + first * job->element;
    }
    fold_inputs(job, out, job->ranks, first, count);
}

static void broadcast(const struct job *job)
{
    const int root = job->call->root;
    fetch(job, job->work->receive, send_of(job, root), root, job->call->count * job->element);
}

static void reduce(const struct job *job)
{
    void *out = job->work->receive;
    if (job->rank == job->call->root)
        fold_inputs(job, &out, 1, 0, job->call->count);
}

static void all_gather(const struct job *job)
{
    const size_t bytes = job->call->count * job->element;
    for (int rank = 0; rank < job->ranks; rank++)
        fetch(job, job->work->receive + (size_t)rank * bytes, send_of(job, rank), rank, bytes);
}

static void reduce_scatter(const struct job *job)
{
    void *out = job->work->receive;
    fold_inputs(job, &out, 1, (size_t)job->rank * job->call->count, job->call->count);
}

static bool run(const struct job *job)
{
    static void (*const steps[])(const struct job *) = {
        [COLLECTIVE_ALL_REDUCE] = all_reduce,
        [COLLECTIVE_BROADCAST] = broadcast,
        [COLLECTIVE_REDUCE] = reduce,
        [COLLECTIVE_ALL_GATHER] = all_gather,
        [COLLECTIVE_REDUCE_SCATTER] = reduce_scatter,
    };
    softNcclComm_t comm = job->work->comm;
    if (!collective_meet(comm, job->call, true))
        return false;
    steps[job->call->kind](job);
    return collective_meet(comm, job->call, false);
}

void collective_task(softStream_t stream, const struct soft_what *what, void *arguments)
{
    const struct collective_work *work = arguments;
    const struct job job = {
        .work = work,
        .call = &work->call,
        .view = work->comm->view,
        .range = what->range,
        .empty = soft_settings()->shape_only,
        .rank = work->comm->rank,
        .ranks = work->comm->ranks,
        .element = fold_element_bytes(work->call.type),
    };
    const bool done = collective_begin(work->comm, &work->call) && run(&job);
    if (!done)
        soft_stream_break(stream);
    collective_end(work->comm, done);
}
