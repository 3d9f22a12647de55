/* SPDX-License-Identifier: MIT
 *
 * Where a step's time goes on one device: marks on the compute stream, each saying to which phase the time since the
 * mark before belongs. So phases are exclusive and add up by construction; nothing is a remainder.
 */
#ifndef RUN_TIMELINE_H
#define RUN_TIMELINE_H

#include "gpu/gpu.h"

enum phase {
    PHASE_SCATTER,
    PHASE_REPLICATE,
    PHASE_FORWARD,
    PHASE_GATHER,
    PHASE_LOSS,
    PHASE_BACKWARD,
    PHASE_REDUCE,
    PHASE_ALLREDUCE_EXPOSED,
    PHASE_UPDATE,
    PHASE_HOST,
    PHASE_WAIT,
    PHASES,
};

const char *phase_name(enum phase phase); /* "scatter", ...: also the NVTX range and the traffic kind */

#define TIMELINE_MAX_MARKS 1024
#define TIMELINE_MAX_COMMUNICATIONS 512

struct timeline {
    int device;
    int marks;                                 /* intervals: events 0 .. marks are recorded; -1: not begun */
    cudaEvent_t event[TIMELINE_MAX_MARKS + 1]; /* event[0]: begin */
    enum phase phase[TIMELINE_MAX_MARKS + 1];
    int communications; /* pairs of events round collectives on the communication stream */
    cudaEvent_t communication[TIMELINE_MAX_COMMUNICATIONS][2];
};

struct step_times {
    double ms[PHASES];              /* by phase, without host's ends */
    double first_s, last_s;         /* host clock of the first and the last mark */
    double communication_ms;        /* union of the communication intervals */
    double communication_hidden_ms; /* their part inside forward, loss or backward of this device */
};

int timeline_open(struct timeline *timeline, int device);
void timeline_close(struct timeline *timeline);
/* A step begins: the marks of the one before are forgotten. The timeline's device is current, here and below. */
int timeline_begin(struct timeline *timeline, cudaStream_t compute);
/* What was enqueued since the mark before belongs to `phase`. */
int timeline_mark(struct timeline *timeline, cudaStream_t compute, enum phase phase);
/* A phase's NVTX range with its mark: phase_begin names what is enqueued from here on by the calling thread (for the
 * ledger and for profilers), phase_end ends the range and marks. */
void phase_begin(enum phase phase);
int phase_end(struct timeline *timeline, cudaStream_t compute, enum phase phase);

int timeline_communication_begin(struct timeline *timeline, cudaStream_t stream);
int timeline_communication_end(struct timeline *timeline, cudaStream_t stream);
/* Host clock of interval i (0 .. marks-1), which ends at mark i and belongs to *phase; of communication i. For the
 * trace. */
int timeline_interval(const struct timeline *timeline, int i, enum phase *phase, double *start_s, double *end_s);
int timeline_communication(const struct timeline *timeline, int i, double *start_s, double *end_s);
/* Nothing was marked: all zero (a device that the batch did not reach). */
int timeline_read(const struct timeline *timeline, struct step_times *times); /* after the streams are idle */

#endif
