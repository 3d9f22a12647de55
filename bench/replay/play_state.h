/* SPDX-License-Identifier: MIT
 *
 * The replay's own rooms: play.c (setting up, the loop, the end), play_groups.c (collectives over their ranks),
 * play_stream.c (tasks), play_host.c (host threads), play_links.c (copies), play_queue.c (what happens next).
 *
 * Actors are the streams and the host threads; each has at most one thing coming, at a time in `queue`. They are
 * numbered by device, stream; then process, thread: the number decides between things that happen at the same time.
 */
#ifndef REPLAY_PLAY_STATE_H
#define REPLAY_PLAY_STATE_H

#include "play.h"

#define NOBODY (-1)

/* A binary heap of actors by (time, number). */
struct play_queue {
    int *heap, *place; /* place[actor]: its index in heap; NOBODY: not in it */
    int64_t *at;       /* [actor] */
    int count;
};
int play_queue_open(struct play_queue *queue, int actors);
void play_queue_close(struct play_queue *queue);
void play_queue_set(struct play_queue *queue, int actor, int64_t at); /* puts it in, or moves it */
int play_queue_take(struct play_queue *queue);                        /* the next; NOBODY: empty */

enum stream_state {
    STREAM_IDLE,    /* its next task is not yet enqueued */
    STREAM_READY,   /* will be at its next task at a known time */
    STREAM_RUNNING, /* its task ends at a known time */
    STREAM_BLOCKED, /* waits for an event, for the engine, or for a collective's other ranks */
};

struct stream_run {
    const struct task_list *list;
    const int64_t *cost_ps;  /* of compute tasks */
    int64_t *enqueued_ps;    /* [list->count] */
    uint32_t enqueued, head; /* tasks known, tasks done */
    int state, instance, device;
    int next;         /* the next in the line this stream stands in */
    int host_waiting; /* first of the threads that wait for it */
    int64_t since_ps; /* its task began */
};

struct thread_run {
    const struct thread_list *list;
    uint32_t at;
    bool issued; /* the operation's time is running */
    int instance, next;
    int64_t busy_ps, work_ps, since_ps; /* work_ps: of busy_ps, OP_WORK */
};

struct event_run {
    int64_t done_ps;      /* NOT_YET */
    int streams, threads; /* first of those that wait */
};
#define NOT_YET (-1)

struct job_run {
    bool given;
    uint32_t ended;
    int threads; /* that wait to begin */
    int joining; /* the thread that waits for all ends */
};

struct group_run { /* a collective over its ranks */
    enum collective_operation operation;
    int ranks, root, arrived, streams;
    double bytes;
    int64_t duration_ps, slowdown; /* slowdown: of kernels beside it, in thousandths */
};

struct device_run {
    int running, first, last; /* streams: on the engine, and the line behind it */
    int64_t remaining_ps;     /* of the running task at full speed */
    int64_t changed_ps, slow; /* slow: thousandths of the full speed's time that it takes, since changed_ps */
    int collectives;          /* first of the streams whose collective runs here, by stream_run.next */
    int beside;               /* of them, on another stream than the marks' */
    int mark_stream;
    int64_t mark_ps, beside_ps, beside_since_ps, collective_since_ps;
};

struct instance {
    const struct program *program;
    int rank, devices, streams, threads, events, jobs, groups; /* first of its own */
    int64_t lock_free_ps, lock_busy_ps;
    int step;      /* begun so far; NOBODY: none */
    double factor; /* on the duration of its kernels, in this step */
};

struct simulation {
    const struct machine *machine;
    const struct play_options *options;
    struct play_result *result;
    struct instance *instances;
    struct stream_run *streams;
    struct thread_run *threads;
    struct event_run *events;
    struct job_run *jobs;
    struct group_run *groups;
    int *group_of; /* [sum of the programs' collectives]; replicated: the same for all instances */
    struct device_run *devices;
    int64_t **costs; /* [program stream] */
    int instance_count, stream_count, thread_count, event_count, job_count, group_count, device_count, cost_count;
    struct play_queue queue;
    int *by_rank; /* [largest collective's ranks] devices, while one is counted */
    int64_t now_ps, start_ps;
    int *computing; /* [node] devices whose engine is taken; NULL: they do not slow each other */
    int64_t crowd[2][MACHINE_MAX_DEVICES + 1]; /* [product][computing] thousandths */
    int64_t enqueue_ps[TASK_COLLECTIVE + 1], sync_ps, lock_ps;
    int status;
};

/* ---- play.c ---- */
int play_no_memory(const struct simulation *simulation); /* says so */
/* A time has passed EXACT_MAX_PS: says so, once, and ends the replay. Even 100 times as much (the largest slowdown) is
 * still a time, so that nothing overflows before it is looked at. */
bool play_too_late(struct simulation *simulation, int64_t at_ps);
void play_span(struct simulation *simulation, struct play_span span);

/* ---- play_groups.c ---- */
/* Ties all ranks' calls of a collective together and prices it; a rank is missing, or ranks disagree: reported. */
int groups_open(struct simulation *simulation);

/* ---- play_stream.c ---- */
int engines_open(struct simulation *simulation);
void stream_poke(struct simulation *simulation, int stream); /* a task was enqueued */
void stream_turn(struct simulation *simulation, int stream); /* its time has come */

/* ---- play_host.c ---- */
void thread_turn(struct simulation *simulation, int thread);
void thread_wake(struct simulation *simulation, int thread); /* what it waited for has happened */

/* ---- play_links.c ---- */
int links_open(struct simulation *simulation);
/* Takes a copy's path from the first time on at which all of it is free; returns when the copy ends. */
int64_t links_take(struct simulation *simulation, int from, int to, double bytes, int64_t *start_ps);
void resource_take(struct play_resource *resource, int64_t start_ps, int64_t end_ps);
void links_count(struct simulation *simulation, int from, int to, double bytes);
void links_count_collective(struct simulation *simulation, const struct group_run *group);

#endif
