/* SPDX-License-Identifier: MIT
 *
 * What the files of the collectives (NCCL on soft GPUs) share: a call's fingerprint, the control segment through which
 * the ranks meet, a process's view of a communicator, and the communicator itself. docs/collectives.md tells the
 * protocol.
 *
 *   node*.c                the ranks find each other and hand out their devices' memory
 *   collective_view.c      one mapping of control segment and peers a process, however many ranks are its threads
 *   collective_control.c   the barrier, the stop with its sentence, the comparison of fingerprints
 *   collective.c           communicators: made, asked, destroyed, aborted
 *   collective_enqueue.c   calls: arguments checked, groups, order in the communicator
 *   collective_run.c       the work in the stream: who reads and writes what
 *   collective_fold.c      the arithmetic
 */
#ifndef SOFTGPU_COLLECTIVE_H
#define SOFTGPU_COLLECTIVE_H

#include "collective_fold.h"
#include "internal.h"
#include "node.h"

#define COLLECTIVE_MAX_RANKS NODE_MAX_RANKS
#define COLLECTIVE_CACHE_LINE 64

enum collective_kind {
    COLLECTIVE_ALL_REDUCE = 1, /* 0 is no call: the control segment starts as zeros */
    COLLECTIVE_BROADCAST,
    COLLECTIVE_REDUCE,
    COLLECTIVE_ALL_GATHER,
    COLLECTIVE_REDUCE_SCATTER,
};

/* One rank's call. All ranks' must agree before any data is touched; only the places of the buffers may differ. */
struct collective_call {
    uint64_t sequence; /* 0, 1, ... in the communicator */
    uint64_t count;    /* as the caller gave it: of the result for reduce-scatter, of the contribution for all-gather */
    uint8_t kind, type, op, root;
    uint64_t send, receive; /* offsets of this rank's buffers in its device's memory */
};

/* ---- control segment: shared by the processes; zeroed memory is a fresh one -------------------------------------- */

struct control_slot {
    _Alignas(COLLECTIVE_CACHE_LINE) struct collective_call call;
};

struct control_rank {                                  /* written by its rank alone */
    struct control_slot slot[2];                       /* by the parity of the call's number */
    _Alignas(COLLECTIVE_CACHE_LINE) uint64_t arrivals; /* meetings that it came to; read by those who wait in vain */
    uint64_t entered;                                  /* collectives that it began */
};

enum control_state { CONTROL_RUNNING, CONTROL_STOPPING, CONTROL_STOPPED };

struct control {
    struct soft_signal meeting; /* twice the meetings held; the lowest bit: the communicator is stopped */
    uint32_t arrived;           /* ranks at the present meeting */
    uint32_t state;             /* enum control_state */
    int32_t result;             /* once stopped: softNcclResult_t and the sentence */
    char why[NODE_WHY_BYTES];
    struct control_rank rank[COLLECTIVE_MAX_RANKS];
};

/* ---- a process's view of one communicator ------------------------------------------------------------------------ */

struct view {
    struct view *next;
    uint8_t token[16];
    int ranks, users;
    bool one_call; /* made by ncclCommInitAll */
    struct control *control;
    char *base[COLLECTIVE_MAX_RANKS];          /* kernel address of each rank's device memory */
    size_t mapped_bytes[COLLECTIVE_MAX_RANKS]; /* 0: a device of this process, not ours to unmap */
    int32_t process[COLLECTIVE_MAX_RANKS];     /* of a rank in another process: its number, and a pidfd that tells */
    int life[COLLECTIVE_MAX_RANKS];            /* when it has gone; -1: can't be told */
    uint64_t ungrouped[COLLECTIVE_MAX_RANKS];  /* last thread that called on this rank outside of a group */
    char edge[2];                              /* happens-before of even and odd meetings, for the sanitizer */
};

/* The view of the node's communicator, made or found; this rank's device memory lies at kernel_base. The descriptors
 * stay the caller's. NULL: `why` says what failed. */
struct view *view_attach(const struct node *node, int rank, char *kernel_base, char why[NODE_WHY_BYTES]);
/* The view of a communicator whose ranks all are here; control is a fresh segment. */
struct view *view_create(int control, const uint8_t token[16], int ranks, char *const *kernel_base,
                         char why[NODE_WHY_BYTES]);
void view_detach(struct view *view);
/* Has this rank's process ended? What it wrote before is seen by whoever is told so. */
bool view_has_gone(const struct view *view, int rank);

/* ---- communicator ------------------------------------------------------------------------------------------------ */

struct softNcclComm {
    uint64_t magic;
    int rank, ranks;
    bool crowded; /* more ranks on this node than cores: a wait that spins only keeps the others out */
    struct soft_device *device;
    struct view *view;
    uint64_t name;           /* hash of the id: the same on all ranks */
    struct soft_lock lock;   /* sequence numbers and their place in the streams go together */
    uint64_t sequence;       /* of the next call */
    struct soft_signal turn; /* calls done here: order over several streams */
    uint32_t meetings;       /* this rank's, its parity chooses the sanitizer's edge */
    uint32_t references;     /* the handle and each enqueued call */
    uint32_t aborted;        /* by this rank */
    uint32_t failed;         /* softNcclResult_t; why is written before */
    char why[NODE_WHY_BYTES];
};

bool collective_is_comm(softNcclComm_t comm);
void collective_release(softNcclComm_t comm); /* the last reference frees */

/* Keeps the sentence for ncclGetLastError(NULL) of this thread; returns the result. */
softNcclResult_t collective_fail(softNcclResult_t result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Creates one rank's communicator on the device; blocks until all ranks have joined. ncclCommInitRank, in a group or
 * not. */
softNcclResult_t collective_init_rank(softNcclComm_t *comm, int ranks, const softNcclUniqueId *id, int rank,
                                      struct soft_device *device);

/* ---- meeting of the ranks (collective_control.c) ----------------------------------------------------------------- */

/* Waits for this call's turn in the communicator; false if the communicator was stopped. */
bool collective_begin(softNcclComm_t comm, const struct collective_call *call);
/* A meeting of all ranks: returns true once all have come, false if the communicator was stopped, by a rank, by the
 * time limit or by this rank finding the calls unequal (first meeting of a call; compare = true). */
bool collective_meet(softNcclComm_t comm, const struct collective_call *call, bool compare);
/* Passes the turn on. Not done, the communicator being stopped: the rank's device and its async error learn why. */
void collective_end(softNcclComm_t comm, bool done);

/* Ends the communicator for all ranks at once; the first sentence stays. */
void control_stop(struct control *control, softNcclResult_t result, const char *why);
/* Result and sentence of a stopped communicator. */
softNcclResult_t control_reason(const struct control *control, char why[NODE_WHY_BYTES]);
/* The first meeting, of ranks that have just joined. */
bool control_first_meeting(softNcclComm_t comm, double limit_s);

/* ---- the work (collective_run.c) --------------------------------------------------------------------------------- */

/* What a stream's task gets; this rank's buffers are kernel pointers. */
struct collective_work {
    softNcclComm_t comm;
    struct collective_call call;
    const char *send;
    char *receive;
};
void collective_task(softStream_t stream, const struct soft_what *what, void *work);

#endif
