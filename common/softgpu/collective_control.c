/* SPDX-License-Identifier: MIT
 *
 * How ranks meet: a counter of arrivals and a signal. The last to arrive opens the counter for the next meeting and
 * rings the signal once for all, so that with more ranks than cores each sleeper is woken once a meeting.
 *
 * A stop rings the same signal: whoever waits, or is about to, sees it at once. The signal grows by 2 a meeting and by
 * 1 at the stop, so its lowest bit says "stopped" and the others still tell a meeting that was held from one that never
 * will be.
 *
 * Compiled without the thread sanitizer, as all of the soft GPU's inner locks are; a meeting's edge (each rank's work
 * before it happens before each rank's work after it) is stated. There are two addresses for these edges, used in turn:
 * a rank can't come to meeting n + 2 before every rank has left meeting n.
 */
#include "collective.h"

#include <stdio.h>
#include <string.h>

#include "sys/clock.h"

#define STOPPED 1u
#define MEETING 2u

/* About the price of waking a thread of another process on another core; a rank that has a core to itself loses no more
 * by spinning in vain than it would have paid for the sleep. */
#define MEETING_SPIN_NS 50000u

/* How often a rank that waits looks whether those it waits for are still alive. */
#define LOOK_NS 100000000u

/* How long to wait for the sentence of a rank that is just writing it, and may be dead. */
#define SENTENCE_LIMIT_NS 100000000u

static uint64_t load64(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

/* ---- stop -------------------------------------------------------------------------------------------------------- */

void control_stop(struct control *control, softNcclResult_t result, const char *why)
{
    uint32_t running = CONTROL_RUNNING;
    if (!__atomic_compare_exchange_n(&control->state, &running, CONTROL_STOPPING, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE))
        return;
    control->result = result;
    hidden_copy_text(control->why, sizeof control->why, why);
    __atomic_store_n(&control->state, CONTROL_STOPPED, __ATOMIC_RELEASE);
    soft_signal_add(&control->meeting, STOPPED);
}

softNcclResult_t control_reason(const struct control *control, char why[NODE_WHY_BYTES])
{
    const uint64_t deadline = clock_nanoseconds() + SENTENCE_LIMIT_NS;
    while (__atomic_load_n(&control->state, __ATOMIC_ACQUIRE) != CONTROL_STOPPED) {
        if (clock_nanoseconds() >= deadline) {
            snprintf(why, NODE_WHY_BYTES, "a rank stopped the communicator and died");
            return softNcclRemoteError;
        }
        soft_pause();
    }
    hidden_copy_text(why, NODE_WHY_BYTES, control->why);
    return (softNcclResult_t)control->result;
}

/* ---- sentences --------------------------------------------------------------------------------------------------- */

static void describe(char *text, size_t size, const struct collective_call *call)
{
    static const char *const names[] = {"no call", "all-reduce", "broadcast", "reduce", "all-gather", "reduce-scatter"};
    const char *name = call->kind < sizeof names / sizeof *names ? names[call->kind] : "unknown call";
    const char *type = fold_type_name(call->type), *op = fold_operation_name(call->op);
    const unsigned long long count = call->count;
    switch (call->kind) {
    case COLLECTIVE_BROADCAST:
        snprintf(text, size, "%s of %llu %s from root %d", name, count, type, call->root);
        break;
    case COLLECTIVE_REDUCE:
        snprintf(text, size, "%s of %llu %s %s to root %d", name, count, type, op, call->root);
        break;
    case COLLECTIVE_ALL_GATHER:
        snprintf(text, size, "%s of %llu %s", name, count, type);
        break;
    default:
        snprintf(text, size, "%s of %llu %s %s", name, count, type, op);
    }
}

static bool same_call(const struct collective_call *a, const struct collective_call *b)
{
    return a->sequence == b->sequence && a->count == b->count && a->kind == b->kind && a->type == b->type &&
           a->op == b->op && a->root == b->root;
}

static const struct collective_call *call_of(const struct control *control, int rank, uint64_t sequence)
{
    return &control->rank[rank].slot[sequence & 1].call;
}

/* All ranks see the same calls, so all come to the same sentence, whoever is the first to write it. */
static void stop_unequal(softNcclComm_t comm, uint64_t sequence, int other)
{
    struct control *control = comm->view->control;
    char why[NODE_WHY_BYTES], theirs[128], first[128];
    describe(theirs, sizeof theirs, call_of(control, other, sequence));
    describe(first, sizeof first, call_of(control, 0, sequence));
    snprintf(why, sizeof why, "rank %d called %s, rank 0 %s, collective %llu", other, theirs, first,
             (unsigned long long)sequence);
    control_stop(control, softNcclInvalidUsage, why);
}

static bool equal_calls(softNcclComm_t comm, const struct collective_call *call)
{
    const struct control *control = comm->view->control;
    for (int rank = 1; rank < comm->ranks; rank++)
        if (!same_call(call_of(control, rank, call->sequence), call_of(control, 0, call->sequence))) {
            stop_unequal(comm, call->sequence, rank);
            return false;
        }
    return true;
}

/* "time limit of 30.0 s: rank 2 is at collective 41, rank 3 at 40, others at 42" */
static void stop_late(softNcclComm_t comm, double limit_s)
{
    struct control *control = comm->view->control;
    const struct control_rank *mine = &control->rank[comm->rank];
    const uint64_t entered = load64(&mine->entered);
    char why[NODE_WHY_BYTES];
    int at = snprintf(why, sizeof why, "time limit of %.1f s:", limit_s), late = 0;
    for (int rank = 0; rank < comm->ranks && at < NODE_WHY_BYTES - 96; rank++) {
        const struct control_rank *theirs = &control->rank[rank];
        if (load64(&theirs->arrivals) >= load64(&mine->arrivals))
            continue;
        const size_t room = (size_t)(NODE_WHY_BYTES - at);
        const char *comma = late++ ? "," : "";
        const unsigned long long reached = load64(&theirs->entered);
        if (reached == 0)
            at += snprintf(why + at, room, "%s rank %d has called no collective", comma, rank);
        else if (reached == entered)
            at += snprintf(why + at, room, "%s rank %d has not finished collective %llu", comma, rank, reached - 1);
        else
            at += snprintf(why + at, room, "%s rank %d is at collective %llu", comma, rank, reached - 1);
    }
    if (entered)
        snprintf(why + at, sizeof why - (size_t)at, ", others at %llu", (unsigned long long)entered - 1);
    control_stop(control, softNcclRemoteError, why);
}

/* Waits for a rank whose process has ended? Then nobody needs to wait for the limit. A rank that came and went then is
 * not meant: its arrival is seen with its end. */
static bool stop_for_the_dead(softNcclComm_t comm)
{
    struct control *control = comm->view->control;
    const uint64_t arrivals = load64(&control->rank[comm->rank].arrivals);
    char why[NODE_WHY_BYTES];
    for (int rank = 0; rank < comm->ranks; rank++) {
        if (!view_has_gone(comm->view, rank))
            continue;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (load64(&control->rank[rank].arrivals) >= arrivals)
            continue;
        const unsigned long long reached = load64(&control->rank[rank].entered);
        int at = snprintf(why, sizeof why, "rank %d (process %d) has gone, ", rank, comm->view->process[rank]);
        if (reached)
            snprintf(why + at, sizeof why - (size_t)at, "at collective %llu", reached - 1);
        else
            snprintf(why + at, sizeof why - (size_t)at, "before its first collective");
        control_stop(control, softNcclRemoteError, why);
        return true;
    }
    return false;
}

/* Until the meeting has been held or the communicator is stopped, by this rank if it waits in vain. */
static void await_others(softNcclComm_t comm, uint32_t held, double limit_s)
{
    struct soft_signal *meeting = &comm->view->control->meeting;
    const uint64_t deadline = clock_nanoseconds() + (uint64_t)(limit_s * 1e9);
    uint64_t spin = comm->crowded || !soft_spin_ns() ? 0 : MEETING_SPIN_NS;
    for (;;) {
        const uint64_t look = clock_nanoseconds() + LOOK_NS;
        if (soft_signal_wait(meeting, held, spin, look < deadline ? look : deadline))
            return;
        if (stop_for_the_dead(comm))
            return;
        if (clock_nanoseconds() >= deadline) {
            stop_late(comm, limit_s);
            return;
        }
        spin = 0;
    }
}

/* ---- meeting ----------------------------------------------------------------------------------------------------- */

static bool meet(softNcclComm_t comm, double limit_s)
{
    struct control *control = comm->view->control;
    struct control_rank *mine = &control->rank[comm->rank];
    const void *edge = &comm->view->edge[comm->meetings++ & 1];
    const uint32_t held = soft_signal_read(&control->meeting);
    if (held & STOPPED)
        return false;
    soft_release(edge);
    __atomic_store_n(&mine->arrivals, mine->arrivals + 1, __ATOMIC_RELAXED);
    if (__atomic_add_fetch(&control->arrived, 1, __ATOMIC_ACQ_REL) == (uint32_t)comm->ranks) {
        __atomic_store_n(&control->arrived, 0, __ATOMIC_RELAXED);
        soft_signal_add(&control->meeting, MEETING);
    } else {
        await_others(comm, held, limit_s);
        if (soft_signal_read(&control->meeting) - held < MEETING)
            return false;
    }
    soft_acquire(edge);
    return true;
}

bool control_first_meeting(softNcclComm_t comm, double limit_s)
{
    return comm->ranks == 1 || meet(comm, limit_s);
}

bool collective_begin(softNcclComm_t comm, const struct collective_call *call)
{
    for (;;) {
        const uint32_t turn = soft_signal_read(&comm->turn);
        if (turn == (uint32_t)call->sequence)
            break;
        soft_signal_wait(&comm->turn, turn, 0, SOFT_NO_DEADLINE);
    }
    struct control_rank *mine = &comm->view->control->rank[comm->rank];
    mine->slot[call->sequence & 1].call = *call;
    __atomic_store_n(&mine->entered, call->sequence + 1, __ATOMIC_RELAXED);
    return !(soft_signal_read(&comm->view->control->meeting) & STOPPED);
}

bool collective_meet(softNcclComm_t comm, const struct collective_call *call, bool compare)
{
    if (comm->ranks == 1)
        return true;
    return meet(comm, soft_settings()->collective_limit_s) && (!compare || equal_calls(comm, call));
}

void collective_end(softNcclComm_t comm, bool done)
{
    if (!done && !__atomic_load_n(&comm->failed, __ATOMIC_RELAXED)) {
        softNcclResult_t result = control_reason(comm->view->control, comm->why);
        __atomic_store_n(&comm->failed, (uint32_t)result, __ATOMIC_RELEASE);
        if (!__atomic_load_n(&comm->aborted, __ATOMIC_ACQUIRE))
            soft_device_fail(comm->device, softErrorLaunchFailure, "%s", comm->why);
    }
    soft_signal_add(&comm->turn, 1);
    collective_release(comm);
}
