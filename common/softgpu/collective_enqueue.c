/* SPDX-License-Identifier: MIT
 *
 * Calls on their way into the streams: arguments are checked at once, in a group too; outside of a group a call is
 * enqueued at once, inside at the outermost ncclGroupEnd, which also runs the group's ncclCommInitRanks, side by side.
 */
#include "collective.h"

#include <pthread.h>
#include <stdlib.h>

/* One call, checked. */
struct pending {
    struct collective_work work;
    softStream_t stream;
    int place, index; /* among the group's calls on this communicator; among all */
};

struct joining {
    softNcclComm_t *comm;
    softNcclUniqueId id;
    int ranks, rank;
    struct soft_device *device;
    softNcclResult_t result;
    char why[NODE_WHY_BYTES];
};

static _Thread_local struct group {
    int depth;
    softNcclResult_t failed; /* of the first call that was refused: nothing of the group is done */
    int calls, room;
    struct pending *call;
    int joins;
    struct joining *join;
} group;

static const struct kind_facts {
    const char *function, *operation;
} kinds[] = {
    [COLLECTIVE_ALL_REDUCE] = {"ncclAllReduce", "all_reduce"},
    [COLLECTIVE_BROADCAST] = {"ncclBroadcast", "broadcast"},
    [COLLECTIVE_REDUCE] = {"ncclReduce", "reduce"},
    [COLLECTIVE_ALL_GATHER] = {"ncclAllGather", "all_gather"},
    [COLLECTIVE_REDUCE_SCATTER] = {"ncclReduceScatter", "reduce_scatter"},
};

/* ---- arguments --------------------------------------------------------------------------------------------------- */

/* How many counts long a rank's buffers are; 0: not used on this rank. */
static void buffer_lengths(const struct collective_call *call, int rank, int ranks, size_t *send, size_t *receive)
{
    *send = *receive = 1;
    if (call->kind == COLLECTIVE_ALL_GATHER)
        *receive = (size_t)ranks;
    if (call->kind == COLLECTIVE_REDUCE_SCATTER)
        *send = (size_t)ranks;
    if (call->kind == COLLECTIVE_BROADCAST && rank != call->root)
        *send = 0;
    if (call->kind == COLLECTIVE_REDUCE && rank != call->root)
        *receive = 0;
}

/* Finds a buffer of `lengths` counts in the communicator's device. *kernel stays NULL where no byte is used. */
static softNcclResult_t place_buffer(softNcclComm_t comm, const struct collective_call *call, const char *role,
                                     const void *pointer, size_t lengths, char **kernel, uint64_t *offset)
{
    const char *function = kinds[call->kind].function;
    const struct soft_device_map *map = soft_device_map(comm->device);
    size_t bytes, place;
    if (__builtin_mul_overflow(call->count, lengths * fold_element_bytes(call->type), &bytes))
        return collective_fail(softNcclInvalidArgument, "%s: a count of %llu is too large", function,
                               (unsigned long long)call->count);
    if (bytes == 0)
        return softNcclSuccess;
    if (!soft_device_find(comm->device, pointer, bytes, &place))
        return collective_fail(softNcclInvalidArgument,
                               "%s: the %s buffer, %zu bytes at %p, does not lie whole in one "
                               "allocation of device %d",
                               function, role, bytes, pointer, map->ordinal);
    *offset = place;
    *kernel = map->kernel_base + place;
    return softNcclSuccess;
}

static softNcclResult_t check(const struct pending *pending, int type, int op, int root)
{
    const softNcclComm_t comm = pending->work.comm;
    const char *function = kinds[pending->work.call.kind].function;
    if (!collective_is_comm(comm))
        return collective_fail(softNcclInvalidArgument, "%s: not a communicator", function);
    if (fold_element_bytes((softNcclDataType_t)type) == 0)
        return collective_fail(softNcclInvalidArgument, "%s: there is no data type %d", function, type);
    if (op < softNcclSum || op > softNcclMin)
        return collective_fail(softNcclInvalidArgument, "%s: there is no operation %d", function, op);
    if (root < 0 || root >= comm->ranks)
        return collective_fail(softNcclInvalidArgument, "%s: root %d; ranks are 0 to %d", function, root,
                               comm->ranks - 1);
    softNcclResult_t failed = (softNcclResult_t)__atomic_load_n(&comm->failed, __ATOMIC_ACQUIRE);
    if (failed)
        return collective_fail(failed, "%s: the communicator has failed: %s", function, comm->why);
    struct soft_device *device = soft_stream_device(pending->stream);
    if (!device)
        return collective_fail(softNcclInvalidArgument, "%s: %s", function, softErrorDetail());
    if (device != comm->device)
        return collective_fail(softNcclInvalidUsage,
                               "%s: the stream is one of device %d, rank %d's communicator one of "
                               "device %d",
                               function, soft_device_map(device)->ordinal, comm->rank,
                               soft_device_map(comm->device)->ordinal);
    if (soft_device_error(device))
        return collective_fail(softNcclUnhandledCudaError, "%s: %s", function, softErrorDetail());
    return softNcclSuccess;
}

/* ---- into the stream --------------------------------------------------------------------------------------------- */

/* One thread that calls on several communicators of ncclCommInitAll must do it in a group: NCCL would wait, in the
 * first call, for a call that this thread is yet to make. */
static softNcclResult_t check_group(softNcclComm_t comm, const char *function)
{
    static uint64_t threads;
    static _Thread_local uint64_t thread;
    struct view *view = comm->view;
    if (!view->one_call)
        return softNcclSuccess;
    if (!thread)
        thread = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
    for (int rank = 0; rank < comm->ranks; rank++)
        if (rank != comm->rank && __atomic_load_n(&view->ungrouped[rank], __ATOMIC_RELAXED) == thread)
            return collective_fail(softNcclInvalidUsage,
                                   "%s: one thread calls on ranks %d and %d of ncclCommInitAll: put "
                                   "the calls between ncclGroupStart and ncclGroupEnd",
                                   function, rank, comm->rank);
    __atomic_store_n(&view->ungrouped[comm->rank], thread, __ATOMIC_RELAXED);
    return softNcclSuccess;
}

static uint32_t record_facts(softNcclComm_t comm, const struct collective_call *call)
{
    if (!soft_recording())
        return 0;
    return soft_record_collective(&(struct soft_collective_facts){.communicator = comm->name,
                                                                  .sequence = call->sequence,
                                                                  .operation = kinds[call->kind].operation,
                                                                  .count = call->count,
                                                                  .type = call->type,
                                                                  .reduce_op = call->op,
                                                                  .root = call->root,
                                                                  .rank = comm->rank,
                                                                  .ranks = comm->ranks});
}

/* Number and place in the stream are taken together: a call that stood before its predecessor would wait for it for
 * ever. */
static softNcclResult_t enqueue(struct pending *pending)
{
    softNcclComm_t comm = pending->work.comm;
    struct collective_call *call = &pending->work.call;
    struct soft_what what = {.kind = SOFT_TASK_COLLECTIVE,
                             .name = kinds[call->kind].operation,
                             .bytes = (double)call->count * (double)fold_element_bytes(call->type)};
    soft_lock(&comm->lock, "communicator");
    call->sequence = comm->sequence;
    what.detail = record_facts(comm, call);
    __atomic_add_fetch(&comm->references, 1, __ATOMIC_RELAXED);
    softError_t error = soft_enqueue(pending->stream, &what, collective_task, &pending->work, sizeof pending->work);
    if (!error)
        comm->sequence++;
    soft_unlock(&comm->lock);
    if (!error)
        return softNcclSuccess;
    collective_release(comm);
    return collective_fail(softNcclUnhandledCudaError, "%s: %s", kinds[call->kind].function, softErrorDetail());
}

static softNcclResult_t append(const struct pending *pending)
{
    if (group.calls == group.room) {
        const int room = group.room ? 2 * group.room : 16;
        struct pending *larger = realloc(group.call, (size_t)room * sizeof *larger);
        if (!larger)
            return collective_fail(softNcclSystemError, "no memory for a group of %d calls", room);
        group.call = larger;
        group.room = room;
    }
    struct pending *last = &group.call[group.calls];
    *last = *pending;
    last->index = group.calls++;
    last->place = 0;
    for (struct pending *before = group.call; before < last; before++)
        last->place += before->work.comm == last->work.comm;
    return softNcclSuccess;
}

/* The call of every API function below; root and op are those of the kind, or 0. */
static softNcclResult_t submit(enum collective_kind kind, const void *send, void *receive, size_t count, int type,
                               int op, int root, softNcclComm_t comm, softStream_t stream)
{
    SOFT_HOST_CALL(kinds[kind].function);
    struct pending pending = {.stream = stream, .work.comm = comm};
    struct collective_call *call = &pending.work.call;
    size_t send_lengths, receive_lengths;
    char *from = NULL;
    *call = (struct collective_call){
        .kind = (uint8_t)kind, .count = count, .type = (uint8_t)type, .op = (uint8_t)op, .root = (uint8_t)root};
    softNcclResult_t result = check(&pending, type, op, root);
    if (!result) {
        buffer_lengths(call, comm->rank, comm->ranks, &send_lengths, &receive_lengths);
        result = place_buffer(comm, call, "send", send, send_lengths, &from, &call->send);
    }
    if (!result)
        result = place_buffer(comm, call, "receive", receive, receive_lengths, &pending.work.receive, &call->receive);
    pending.work.send = from;
    if (!result && !group.depth)
        result = check_group(comm, kinds[kind].function);
    if (!result)
        result = group.depth ? append(&pending) : enqueue(&pending);
    if (result && group.depth && !group.failed)
        group.failed = result;
    return result;
}

softNcclResult_t softNcclAllReduce(const void *send, void *receive, size_t count, softNcclDataType_t type,
                                   softNcclRedOp_t op, softNcclComm_t comm, softStream_t stream)
{
    return submit(COLLECTIVE_ALL_REDUCE, send, receive, count, (int)type, (int)op, 0, comm, stream);
}

softNcclResult_t softNcclBroadcast(const void *send, void *receive, size_t count, softNcclDataType_t type, int root,
                                   softNcclComm_t comm, softStream_t stream)
{
    return submit(COLLECTIVE_BROADCAST, send, receive, count, (int)type, softNcclSum, root, comm, stream);
}

softNcclResult_t softNcclReduce(const void *send, void *receive, size_t count, softNcclDataType_t type,
                                softNcclRedOp_t op, int root, softNcclComm_t comm, softStream_t stream)
{
    return submit(COLLECTIVE_REDUCE, send, receive, count, (int)type, (int)op, root, comm, stream);
}

softNcclResult_t softNcclAllGather(const void *send, void *receive, size_t send_count, softNcclDataType_t type,
                                   softNcclComm_t comm, softStream_t stream)
{
    return submit(COLLECTIVE_ALL_GATHER, send, receive, send_count, (int)type, softNcclSum, 0, comm, stream);
}

softNcclResult_t softNcclReduceScatter(const void *send, void *receive, size_t receive_count, softNcclDataType_t type,
                                       softNcclRedOp_t op, softNcclComm_t comm, softStream_t stream)
{
    return submit(COLLECTIVE_REDUCE_SCATTER, send, receive, receive_count, (int)type, (int)op, 0, comm, stream);
}

/* ---- joining and groups ------------------------------------------------------------------------------------------ */

softNcclResult_t softNcclCommInitRank(softNcclComm_t *comm, int ranks, softNcclUniqueId id, int rank)
{
    struct soft_device *device = soft_device_current();
    if (!comm)
        return collective_fail(softNcclInvalidArgument, "ncclCommInitRank: the communicator is NULL");
    *comm = NULL;
    if (!device)
        return collective_fail(softNcclUnhandledCudaError, "ncclCommInitRank: %s", softErrorDetail());
    if (!group.depth)
        return collective_init_rank(comm, ranks, &id, rank, device);
    struct joining *larger = realloc(group.join, (size_t)(group.joins + 1) * sizeof *larger);
    if (!larger)
        return collective_fail(softNcclSystemError, "ncclCommInitRank: no memory");
    group.join = larger;
    group.join[group.joins++] =
        (struct joining){.comm = comm, .id = id, .ranks = ranks, .rank = rank, .device = device};
    return softNcclSuccess;
}

static void *join_one(void *argument)
{
    struct joining *join = argument;
    join->result = collective_init_rank(join->comm, join->ranks, &join->id, join->rank, join->device);
    if (join->result)
        hidden_copy_text(join->why, sizeof join->why, softNcclGetLastError(NULL));
    return NULL;
}

/* All of a group's ranks join at once, each from a thread of its own: each waits for the others. */
static softNcclResult_t join_all(void)
{
    softNcclResult_t result = softNcclSuccess;
    pthread_t thread[COLLECTIVE_MAX_RANKS];
    bool started[COLLECTIVE_MAX_RANKS] = {false};
    if (group.joins > COLLECTIVE_MAX_RANKS)
        return collective_fail(softNcclInvalidUsage, "%d ncclCommInitRanks in one group; at most %d are possible",
                               group.joins, COLLECTIVE_MAX_RANKS);
    for (int i = 0; i < group.joins; i++) {
        started[i] = !pthread_create(&thread[i], NULL, join_one, &group.join[i]);
        if (!started[i])
            result = collective_fail(softNcclSystemError, "ncclGroupEnd: no thread to join with");
    }
    for (int i = 0; i < group.joins; i++) {
        if (!started[i])
            continue;
        pthread_join(thread[i], NULL);
        if (group.join[i].result && !result)
            result = collective_fail(group.join[i].result, "%s", group.join[i].why);
    }
    return result;
}

/* First the first call on each communicator, then the second on each, ...: so no stream's ring fills up with calls that
 * wait for calls which this thread has still to enqueue. */
static int by_place(const void *a, const void *b)
{
    const struct pending *left = a, *right = b;
    return left->place != right->place ? left->place - right->place : left->index - right->index;
}

static softNcclResult_t enqueue_all(void)
{
    softNcclResult_t result = softNcclSuccess;
    if (group.calls > 1)
        qsort(group.call, (size_t)group.calls, sizeof *group.call, by_place);
    for (int i = 0; i < group.calls && !result; i++)
        result = enqueue(&group.call[i]);
    return result;
}

softNcclResult_t softNcclGroupStart(void)
{
    group.depth++;
    return softNcclSuccess;
}

softNcclResult_t softNcclGroupEnd(void)
{
    SOFT_HOST_CALL("ncclGroupEnd");
    if (group.depth == 0)
        return collective_fail(softNcclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
    if (--group.depth > 0)
        return softNcclSuccess;
    softNcclResult_t result = group.failed;
    if (!result && group.joins)
        result = join_all();
    if (!result)
        result = enqueue_all();
    free(group.call);
    free(group.join);
    group = (struct group){0};
    return result;
}
