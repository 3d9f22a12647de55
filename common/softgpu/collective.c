/* SPDX-License-Identifier: MIT
 *
 * Communicators: made, asked, destroyed, aborted.
 */
#include "collective.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "sys/checksum.h"
#include "sys/topology.h"

#define COMM_MAGIC UINT64_C(0x6d6d6f436c636e73)

/* The rendezvous may take longer than a collective: devices are opened and programs loaded before it. */
#define RENDEZVOUS_PER_COLLECTIVE_LIMIT 2.0

static _Thread_local char last_sentence[NODE_WHY_BYTES];

softNcclResult_t collective_fail(softNcclResult_t result, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_sentence, sizeof last_sentence, format, arguments);
    va_end(arguments);
    return result;
}

static double rendezvous_limit_s(void)
{
    return RENDEZVOUS_PER_COLLECTIVE_LIMIT * soft_settings()->collective_limit_s;
}

bool collective_is_comm(softNcclComm_t comm)
{
    return comm && comm->magic == COMM_MAGIC;
}

void collective_release(softNcclComm_t comm)
{
    if (__atomic_sub_fetch(&comm->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    view_detach(comm->view);
    comm->magic = 0;
    hidden_free(comm);
}

/* Takes over the view's one use. */
static softNcclComm_t comm_new(struct view *view, int rank, struct soft_device *device)
{
    softNcclComm_t comm = hidden_alloc(sizeof *comm);
    if (!comm) {
        view_detach(view);
        return NULL;
    }
    comm->magic = COMM_MAGIC;
    comm->rank = rank;
    comm->ranks = view->ranks;
    comm->crowded = view->ranks > topology_usable_cores();
    comm->device = device;
    comm->view = view;
    comm->name = checksum(CHECKSUM_SEED, view->token, sizeof view->token);
    comm->references = 1;
    return comm;
}

/* ---- ncclCommInitRank -------------------------------------------------------------------------------------------- */

softNcclResult_t softNcclGetUniqueId(softNcclUniqueId *id)
{
    char why[NODE_WHY_BYTES];
    if (!id)
        return collective_fail(softNcclInvalidArgument, "ncclGetUniqueId: the id is NULL");
    softNcclResult_t result = node_make_id(id, rendezvous_limit_s(), sizeof(struct control), why);
    return result ? collective_fail(result, "ncclGetUniqueId: %s", why) : softNcclSuccess;
}

/* The ranks know each other: take up the view, and meet once, so that all have it or none. */
static softNcclResult_t take_up(softNcclComm_t *comm, const struct node *node, int rank, struct soft_device *device)
{
    char why[NODE_WHY_BYTES];
    struct view *view = view_attach(node, rank, soft_device_map(device)->kernel_base, why);
    softNcclComm_t made = view ? comm_new(view, rank, device) : NULL;
    if (!made)
        return collective_fail(softNcclSystemError, "ncclCommInitRank: rank %d: %s", rank,
                               view ? "no memory for a communicator" : why);
    if (!control_first_meeting(made, rendezvous_limit_s())) {
        softNcclResult_t result = control_reason(view->control, why);
        collective_release(made);
        return collective_fail(result, "ncclCommInitRank: %s", why);
    }
    *comm = made;
    return softNcclSuccess;
}

softNcclResult_t collective_init_rank(softNcclComm_t *comm, int ranks, const softNcclUniqueId *id, int rank,
                                      struct soft_device *device)
{
    const struct soft_device_map *map = soft_device_map(device);
    char why[NODE_WHY_BYTES];
    struct node node;
    softNcclResult_t result =
        node_join(id, rank, ranks, map->physical, map->memfd, map->map_bytes, rendezvous_limit_s(), &node, why);
    if (result)
        return collective_fail(result, "ncclCommInitRank: %s", why);
    result = take_up(comm, &node, rank, device);
    node_close(&node);
    return result;
}

/* ---- ncclCommInitAll --------------------------------------------------------------------------------------------- */

static softNcclResult_t open_devices(int count, const int *list, struct soft_device **device)
{
    for (int i = 0; i < count; i++) {
        const int ordinal = list ? list[i] : i;
        device[i] = soft_device_get(ordinal);
        if (!device[i])
            return collective_fail(softNcclInvalidArgument, "ncclCommInitAll: %s", softErrorDetail());
        for (int before = 0; before < i; before++)
            if (device[before] == device[i])
                return collective_fail(softNcclInvalidUsage, "ncclCommInitAll: ranks %d and %d both use device %d",
                                       before, i, ordinal);
    }
    return softNcclSuccess;
}

softNcclResult_t softNcclCommInitAll(softNcclComm_t *comms, int devices, const int *device_list)
{
    struct soft_device *device[COLLECTIVE_MAX_RANKS] = {NULL};
    char *base[COLLECTIVE_MAX_RANKS], why[NODE_WHY_BYTES];
    uint8_t token[16];
    int control;
    if (!comms || devices < 1 || devices > COLLECTIVE_MAX_RANKS)
        return collective_fail(softNcclInvalidArgument, "ncclCommInitAll: %d devices; 1 to %d are possible", devices,
                               COLLECTIVE_MAX_RANKS);
    softNcclResult_t result = open_devices(devices, device_list, device);
    if (result)
        return result;
    for (int rank = 0; rank < devices; rank++)
        base[rank] = soft_device_map(device[rank])->kernel_base;
    result = node_make_control(sizeof(struct control), &control, token, why);
    if (result)
        return collective_fail(result, "ncclCommInitAll: %s", why);
    struct view *view = view_create(control, token, devices, base, why);
    close(control);
    if (!view)
        return collective_fail(softNcclSystemError, "ncclCommInitAll: %s", why);
    bool complete = true;
    for (int rank = 0; rank < devices; rank++) {
        comms[rank] = comm_new(view, rank, device[rank]);
        complete = complete && comms[rank];
    }
    for (int rank = 0; rank < devices && !complete; rank++)
        if (comms[rank])
            collective_release(comms[rank]);
    return complete ? softNcclSuccess : collective_fail(softNcclSystemError, "ncclCommInitAll: no memory");
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

static softNcclResult_t not_a_comm(const char *function)
{
    return collective_fail(softNcclInvalidArgument, "%s: not a communicator", function);
}

/* Calls that are still under way keep what they need; the last one takes it down. */
softNcclResult_t softNcclCommDestroy(softNcclComm_t comm)
{
    if (!comm)
        return softNcclSuccess;
    if (!collective_is_comm(comm))
        return not_a_comm("ncclCommDestroy");
    collective_release(comm);
    return softNcclSuccess;
}

softNcclResult_t softNcclCommAbort(softNcclComm_t comm)
{
    char why[NODE_WHY_BYTES];
    if (!comm)
        return softNcclSuccess;
    if (!collective_is_comm(comm))
        return not_a_comm("ncclCommAbort");
    snprintf(why, sizeof why, "rank %d aborted the communicator", comm->rank);
    __atomic_store_n(&comm->aborted, 1, __ATOMIC_RELEASE);
    control_stop(comm->view->control, softNcclRemoteError, why);
    collective_release(comm);
    return softNcclSuccess;
}

/* ---- questions --------------------------------------------------------------------------------------------------- */

softNcclResult_t softNcclCommGetAsyncError(softNcclComm_t comm, softNcclResult_t *error)
{
    if (!collective_is_comm(comm) || !error)
        return not_a_comm("ncclCommGetAsyncError");
    *error = (softNcclResult_t)__atomic_load_n(&comm->failed, __ATOMIC_ACQUIRE);
    return softNcclSuccess;
}

softNcclResult_t softNcclCommCount(softNcclComm_t comm, int *ranks)
{
    if (!collective_is_comm(comm) || !ranks)
        return not_a_comm("ncclCommCount");
    *ranks = comm->ranks;
    return softNcclSuccess;
}

softNcclResult_t softNcclCommUserRank(softNcclComm_t comm, int *rank)
{
    if (!collective_is_comm(comm) || !rank)
        return not_a_comm("ncclCommUserRank");
    *rank = comm->rank;
    return softNcclSuccess;
}

/* NCCL's sentences. */
const char *softNcclGetErrorString(softNcclResult_t result)
{
    switch (result) {
    case softNcclSuccess:
        return "no error";
    case softNcclUnhandledCudaError:
        return "unhandled cuda error";
    case softNcclSystemError:
        return "unhandled system error";
    case softNcclInternalError:
        return "internal error";
    case softNcclInvalidArgument:
        return "invalid argument";
    case softNcclInvalidUsage:
        return "invalid usage";
    case softNcclRemoteError:
        return "remote process exited or there was a network error";
    case softNcclInProgress:
        return "NCCL operation in progress";
    }
    return "unknown result code";
}

const char *softNcclGetLastError(softNcclComm_t comm)
{
    if (collective_is_comm(comm) && __atomic_load_n(&comm->failed, __ATOMIC_ACQUIRE))
        return comm->why;
    return last_sentence;
}
