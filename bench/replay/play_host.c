/* SPDX-License-Identifier: MIT
 *
 * A host thread's turn. A launch is made by the thread alone, or inside the process's launch lock: an emulation of an
 * interpreter's lock, which CUDA programs in C do not have.
 */
#include "exact.h"
#include "play_state.h"
#include "sys/random.h"

static const struct operation *operation_of(const struct thread_run *thread)
{
    return &thread->list->operations[thread->at];
}

static int actor_of(const struct simulation *simulation, int thread)
{
    return simulation->stream_count + thread;
}

/* ---- steps ---------------------------------------------------------------------------------------------------------
 */

/* A normal number without a mathematics library: twelve uniform ones less six (Irwin and Hall). */
static double normal(uint64_t seed, uint64_t stream)
{
    double sum = -6;
    for (uint64_t i = 0; i < 12; i++)
        sum += (double)random_u32(seed, stream, i) / 4294967296.0;
    return sum;
}

#define JITTER_STREAM ((uint64_t)64 << 32) /* beside the purposes of sys/random.h */
#define JITTER_LEAST 0.1

static void step_begin(struct simulation *simulation, const struct thread_run *thread)
{
    const struct play_options *options = simulation->options;
    struct play_result *result = simulation->result;
    struct instance *instance = &simulation->instances[thread->instance];
    instance->step++;
    instance->factor = options->slow_rank == thread->instance ? options->slow_factor : 1;
    if (options->jitter_sigma > 0) {
        uint64_t which = (uint64_t)(uint32_t)instance->step * 65536 + (uint64_t)(uint32_t)thread->instance;
        double drawn = 1 + options->jitter_sigma * normal(options->jitter_seed, JITTER_STREAM + which);
        instance->factor *= drawn > JITTER_LEAST ? drawn : JITTER_LEAST;
    }
    if (instance->step < result->steps)
        result->rank_begin_ps[(size_t)instance->step * (size_t)result->instances + (size_t)thread->instance] =
            simulation->now_ps;
}

static void step_end(struct simulation *simulation, const struct thread_run *thread)
{
    struct play_result *result = simulation->result;
    int step = simulation->instances[thread->instance].step;
    if (step < 0 || step >= result->steps)
        return;
    size_t at = (size_t)step * (size_t)result->instances + (size_t)thread->instance;
    result->rank_step_ps[at] = simulation->now_ps - result->rank_begin_ps[at];
    if (result->rank_step_ps[at] > result->step_ps[step])
        result->step_ps[step] = result->rank_step_ps[at];
}

/* ---- operations that take time -------------------------------------------------------------------------------------
 */

/* When the operation that begins now ends; a launch first waits for the lock. */
static int64_t end_of(struct simulation *simulation, struct thread_run *thread)
{
    const struct operation *operation = operation_of(thread);
    struct instance *instance = &simulation->instances[thread->instance];
    int64_t start = simulation->now_ps, cost = 0;
    if (operation->kind == OP_WORK) {
        cost = exact_ps(exact_seconds(operation->ps) * simulation->machine->own_work);
        thread->work_ps += cost;
    } else {
        const struct stream_run *stream =
            &simulation->streams[simulation->instances[thread->instance].streams + operation->stream];
        cost = simulation->enqueue_ps[stream->list->tasks[stream->enqueued].kind];
        if (simulation->lock_ps) {
            start = instance->lock_free_ps > start ? instance->lock_free_ps : start;
            cost += simulation->lock_ps;
            instance->lock_free_ps = start + cost;
            instance->lock_busy_ps += cost;
        }
    }
    thread->busy_ps += cost;
    thread->since_ps = start;
    return start + cost;
}

static void enqueue(struct simulation *simulation, const struct thread_run *thread)
{
    const struct instance *instance = &simulation->instances[thread->instance];
    int s = instance->streams + operation_of(thread)->stream;
    int lane = (int)(thread - &simulation->threads[instance->threads]) + 1;
    struct stream_run *stream = &simulation->streams[s];
    stream->enqueued_ps[stream->enqueued++] = simulation->now_ps;
    if (simulation->options->spans && simulation->now_ps > thread->since_ps)
        play_span(simulation,
                  (struct play_span){-1, lane, thread->instance, stream->list->tasks[stream->enqueued - 1].name,
                                     PLAY_PHASES, thread->since_ps, simulation->now_ps});
    stream_poke(simulation, s);
}

/* ---- operations that wait ------------------------------------------------------------------------------------------
 */

/* Puts the thread into a line if it has to wait; true: it has. */
static bool waits(struct simulation *simulation, int t)
{
    struct thread_run *thread = &simulation->threads[t];
    const struct operation *operation = operation_of(thread);
    const struct instance *instance = &simulation->instances[thread->instance];
    int *line = NULL;
    if (operation->kind == OP_WAIT_STREAM) {
        struct stream_run *stream = &simulation->streams[instance->streams + operation->stream];
        line = stream->head < operation->number ? &stream->host_waiting : NULL;
    } else if (operation->kind == OP_WAIT_EVENT) {
        struct event_run *event = &simulation->events[instance->events + (int)operation->number];
        line = event->done_ps == NOT_YET ? &event->threads : NULL;
    } else if (operation->kind == OP_BEGIN) {
        struct job_run *job = &simulation->jobs[instance->jobs + (int)operation->number];
        line = job->given ? NULL : &job->threads;
    } else if (operation->kind == OP_JOIN) {
        struct job_run *job = &simulation->jobs[instance->jobs + (int)operation->number];
        line = job->ended < instance->program->job_ends[operation->number] ? &job->joining : NULL;
    }
    if (!line)
        return false;
    thread->next = *line;
    *line = t;
    return true;
}

static void job_given(struct simulation *simulation, struct job_run *job)
{
    job->given = true;
    for (int waiting = job->threads, next; waiting != NOBODY; waiting = next) {
        next = simulation->threads[waiting].next;
        thread_wake(simulation, waiting);
    }
    job->threads = NOBODY;
}

static void job_ended(struct simulation *simulation, const struct instance *instance, struct job_run *job,
                      uint32_t number)
{
    job->ended++;
    if (job->ended < instance->program->job_ends[number] || job->joining == NOBODY)
        return;
    thread_wake(simulation, job->joining);
    job->joining = NOBODY;
}

/* It goes on with its next operation, after a synchronisation with the device at its cost. */
void thread_wake(struct simulation *simulation, int t)
{
    struct thread_run *thread = &simulation->threads[t];
    int kind = operation_of(thread)->kind;
    int64_t cost = kind == OP_WAIT_STREAM || kind == OP_WAIT_EVENT ? simulation->sync_ps : 0;
    thread->at++;
    thread->busy_ps += cost;
    simulation->result->operations++;
    play_queue_set(&simulation->queue, actor_of(simulation, t), simulation->now_ps + cost);
}

/* ---- a turn --------------------------------------------------------------------------------------------------------
 */

/* What takes no time of its own. */
static void pass(struct simulation *simulation, int t)
{
    struct thread_run *thread = &simulation->threads[t];
    const struct operation *operation = operation_of(thread);
    const struct instance *instance = &simulation->instances[thread->instance];
    if (operation->kind == OP_STEP_BEGIN)
        step_begin(simulation, thread);
    else if (operation->kind == OP_STEP_END)
        step_end(simulation, thread);
    else if (operation->kind == OP_GIVE)
        job_given(simulation, &simulation->jobs[instance->jobs + (int)operation->number]);
    else if (operation->kind == OP_END)
        job_ended(simulation, instance, &simulation->jobs[instance->jobs + (int)operation->number], operation->number);
}

/* An operation that takes time: true if the thread can go on at once. */
static bool timed(struct simulation *simulation, int t)
{
    struct thread_run *thread = &simulation->threads[t];
    struct play_queue *queue = &simulation->queue;
    if (!thread->issued) {
        int64_t end = end_of(simulation, thread);
        thread->issued = true;
        if (play_too_late(simulation, end))
            return false;
        if (end > simulation->now_ps && queue->count && queue->at[queue->heap[0]] <= end) {
            play_queue_set(queue, actor_of(simulation, t), end);
            return false;
        }
        simulation->now_ps = end; /* nothing else happens before */
    }
    thread->issued = false;
    if (operation_of(thread)->kind == OP_ENQUEUE)
        enqueue(simulation, thread);
    return true;
}

void thread_turn(struct simulation *simulation, int t)
{
    struct thread_run *thread = &simulation->threads[t];
    while (thread->at < thread->list->count) {
        int kind = operation_of(thread)->kind;
        if (kind == OP_WORK || kind == OP_ENQUEUE) {
            if (!timed(simulation, t))
                return;
        } else if (waits(simulation, t)) {
            return;
        } else if (kind == OP_WAIT_STREAM || kind == OP_WAIT_EVENT) {
            thread_wake(simulation, t); /* over already: the call's cost remains */
            return;
        } else {
            pass(simulation, t);
        }
        thread->at++;
        simulation->result->operations++;
    }
}
