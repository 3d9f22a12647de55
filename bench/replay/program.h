/* SPDX-License-Identifier: MIT
 *
 * What one process of a run did in its timed steps, ready to be played: lists of tasks by stream, lists of operations
 * by host thread, and the numbers that tie them together. A program is never changed by the replay, so that a thousand
 * ranks play one.
 *
 * The window is from the first step_begin to the last step_end. What was enqueued before it has happened: an event that
 * was recorded before is met, a wait for tasks before is over.
 */
#ifndef REPLAY_PROGRAM_H
#define REPLAY_PROGRAM_H

#include <stdbool.h>

#include "record_file.h"

enum task_kind { TASK_KERNEL, TASK_PRODUCT, TASK_COPY, TASK_FILL, TASK_EVENT, TASK_EVENT_WAIT, TASK_COLLECTIVE };

/* Phases in the order of results.csv (common/run/timeline.h has the same list). */
enum play_phase {
    PLAY_SCATTER,
    PLAY_REPLICATE,
    PLAY_FORWARD,
    PLAY_GATHER,
    PLAY_LOSS,
    PLAY_BACKWARD,
    PLAY_REDUCE,
    PLAY_ALLREDUCE_EXPOSED,
    PLAY_UPDATE,
    PLAY_HOST,
    PLAY_WAIT,
    PLAY_PHASES,
};
extern const char *const play_phase_names[PLAY_PHASES];

#define MARK_NONE 0
#define MARK_BEGIN 1 /* the step begins on the device */
#define MARK_PHASE 2 /* + enum play_phase: this phase ends */

#define HOST_SIDE (-1) /* of a copy */

struct task {
    uint8_t kind;     /* enum task_kind */
    uint8_t mark;     /* MARK_*, of TASK_EVENT */
    uint8_t range;    /* enum play_phase of the range it was enqueued in; PLAY_PHASES: none */
    uint8_t type;     /* of a product's inputs: CUDA's number + 1; 0: not said */
    int16_t from, to; /* of a copy: devices of the program, or HOST_SIDE */
    uint32_t
        number; /* of an event: its own; of a collective: struct collective's; TASK_EVENT_WAIT of the past: NO_EVENT */
    double flops, bytes;
    const char *name; /* of the record */
};
#define NO_EVENT UINT32_MAX

enum operation_kind {
    OP_WORK,        /* the host's own, `ps` long in the record */
    OP_ENQUEUE,     /* the next task of `stream` */
    OP_WAIT_STREAM, /* until `number` tasks of `stream` are done */
    OP_WAIT_EVENT,  /* until event `number` is done */
    OP_GIVE,
    OP_BEGIN,
    OP_END,
    OP_JOIN, /* job `number` */
    OP_STEP_BEGIN,
    OP_STEP_END,
};

struct operation {
    uint8_t kind;
    uint16_t stream;
    uint32_t number;
    int64_t ps;
};

struct task_list {
    int device; /* of the program */
    int recorded_stream;
    struct task *tasks;
    uint32_t count, room;
    uint64_t first; /* number of tasks[0] in the record */
};

struct thread_list {
    int recorded_thread;
    const struct soft_record_entry *first_task; /* that it enqueued; NULL: none */
    struct operation *operations;
    uint32_t count, room;
};

struct collective {
    uint64_t communicator, sequence;
    const char *operation;
    double bytes; /* nccl-tests' size: of the whole vector, also where a rank holds a part */
    int rank, ranks, root;
};

struct program {
    struct record_file *record; /* borrowed: names are its */
    const char *path;
    int devices;
    int *ordinals;      /* [devices] in the record */
    double *peak_bytes; /* [devices] of cudaMalloc; 0: not recorded */
    struct task_list *streams;
    int stream_count;
    struct thread_list *threads; /* by their first tasks: by device, stream, number */
    int thread_count;
    uint32_t event_count, job_count;
    uint32_t *job_ends; /* [job_count] threads that take the job */
    struct collective *collectives;
    uint32_t collective_count;
    int steps; /* 0: the record has none, the window is all of it */
    int rank, ranks;
};

/* Builds the program of a record that record_load has believed; the record must live as long. What does not fit
 * together (a task missing in a stream, a collective without facts), or comes from a run that failed or broke off, is
 * reported: EXIT_BAD_FILE. */
int program_build(struct program *program, struct record_file *record);
void program_close(struct program *program);

/* The setting of the record, or `otherwise`. */
const char *program_setting(const struct program *program, const char *name, const char *otherwise);

/* Bytes of a collective's vector as nccl-tests count them. */
double collective_bytes(const char *operation, uint64_t count, uint32_t type, int ranks);

struct task *program_add_task(struct task_list *list);
struct operation *program_add_operation(struct thread_list *list);

#endif
