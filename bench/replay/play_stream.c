/* SPDX-License-Identifier: MIT
 *
 * A stream's turn: its tasks one behind the other, each when it is enqueued, when the one before has ended, and when
 * what it needs is there: the device's compute engine, a copy's path, an event, a collective's other ranks.
 */
#include <stdlib.h>

#include "cost.h"
#include "exact.h"
#include "play_state.h"
#include "sys/exit_codes.h"

static const struct task *task_of(const struct stream_run *stream)
{
    return &stream->list->tasks[stream->head];
}

/* Of the collective that stands at the stream's head. */
static struct group_run *group_of(const struct simulation *simulation, const struct stream_run *stream)
{
    const struct instance *instance = &simulation->instances[stream->instance];
    return &simulation->groups[simulation->group_of[instance->groups + (int)task_of(stream)->number]];
}

static void keep_span(struct simulation *simulation, const struct stream_run *stream, int64_t start_ps)
{
    const struct task *task = task_of(stream);
    if (simulation->options->spans && simulation->now_ps > start_ps)
        play_span(simulation, (struct play_span){stream->device, stream->list->recorded_stream, stream->instance,
                                                 task->name, task->range, start_ps, simulation->now_ps});
}

/* ---- the compute engine --------------------------------------------------------------------------------------------
 */

int engines_open(struct simulation *simulation)
{
    const struct machine *machine = simulation->machine;
    const struct curve *curves[2] = {&machine->crowd_memory, &machine->crowd_products};
    for (int product = 0; product < 2; product++)
        for (int count = 0; count <= machine->devices; count++)
            simulation->crowd[product][count] = count > 1 && curves[product]->count
                                                    ? (int64_t)(curve_at(curves[product], count, false) * 1000 + 0.5)
                                                    : 1000;
    if (!curves[0]->count && !curves[1]->count)
        return EXIT_OK;
    int nodes = (simulation->device_count + machine->devices - 1) / machine->devices;
    simulation->computing = calloc((size_t)nodes, sizeof(*simulation->computing));
    return simulation->computing ? EXIT_OK : EXIT_RESOURCE;
}

/* Of the collectives that run on the device, the one that slows most counts. */
static int64_t collectives_slow(const struct simulation *simulation, const struct device_run *run)
{
    int64_t slow = 1000;
    for (int s = run->collectives; s != NOBODY; s = simulation->streams[s].next) {
        int64_t own = group_of(simulation, &simulation->streams[s])->slowdown;
        slow = own > slow ? own : slow;
    }
    return slow;
}

static int64_t engine_slow(const struct simulation *simulation, int device)
{
    const struct device_run *run = &simulation->devices[device];
    int64_t slow = collectives_slow(simulation, run);
    if (!simulation->computing)
        return slow;
    int product = task_of(&simulation->streams[run->running])->kind == TASK_PRODUCT;
    return slow * simulation->crowd[product][simulation->computing[device / simulation->machine->devices]] / 1000;
}

static void engine_schedule(struct simulation *simulation, int device)
{
    struct device_run *run = &simulation->devices[device];
    int64_t left = run->remaining_ps;
    run->slow = engine_slow(simulation, device);
    left = left / 1000 * run->slow + left % 1000 * run->slow / 1000;
    play_queue_set(&simulation->queue, run->running, simulation->now_ps + left);
}

/* The engine's speed may have changed: what was done at the old one is taken off. */
static void engine_pace(struct simulation *simulation, int device)
{
    struct device_run *run = &simulation->devices[device];
    if (run->running == NOBODY)
        return;
    int64_t passed = simulation->now_ps - run->changed_ps;
    passed = passed / run->slow * 1000 + passed % run->slow * 1000 / run->slow;
    run->remaining_ps -= passed; /* not below 0: the task's end, rounded down as this is, is not past */
    run->changed_ps = simulation->now_ps;
    engine_schedule(simulation, device);
}

/* The device's engine was taken (+1) or given back (-1): the node's others go on at another speed. */
static void engine_count(struct simulation *simulation, int device, int change)
{
    int size = simulation->machine->devices, node = device / size;
    if (!simulation->computing)
        return;
    simulation->computing[node] += change;
    for (int d = node * size; d < (node + 1) * size && d < simulation->device_count; d++)
        engine_pace(simulation, d); /* the device itself runs nothing now */
}

static void engine_start(struct simulation *simulation, int device, int s)
{
    struct device_run *run = &simulation->devices[device];
    struct stream_run *stream = &simulation->streams[s];
    const struct instance *instance = &simulation->instances[stream->instance];
    int64_t cost = stream->cost_ps[stream->head];
    if (instance->factor != 1)
        cost = exact_ps(exact_seconds(cost) * instance->factor);
    run->running = s;
    run->remaining_ps = cost;
    run->changed_ps = simulation->now_ps;
    stream->since_ps = simulation->now_ps;
    stream->state = STREAM_RUNNING;
    engine_schedule(simulation, device);
}

static void engine_ask(struct simulation *simulation, int s)
{
    struct stream_run *stream = &simulation->streams[s];
    struct device_run *run = &simulation->devices[stream->device];
    if (run->running == NOBODY) {
        engine_count(simulation, stream->device, +1);
        engine_start(simulation, stream->device, s);
        return;
    }
    stream->state = STREAM_BLOCKED; /* first come, first served */
    stream->next = NOBODY;
    if (run->first == NOBODY)
        run->first = s;
    else
        simulation->streams[run->last].next = s;
    run->last = s;
}

static void engine_leave(struct simulation *simulation, const struct stream_run *stream)
{
    struct device_run *run = &simulation->devices[stream->device];
    resource_take(&simulation->result->device[stream->device].engine, stream->since_ps, simulation->now_ps);
    run->running = NOBODY;
    if (run->first == NOBODY) {
        engine_count(simulation, stream->device, -1);
        return;
    }
    int s = run->first;
    run->first = simulation->streams[s].next;
    engine_start(simulation, simulation->streams[s].device, s);
}

/* ---- collectives ---------------------------------------------------------------------------------------------------
 */

static void collective_begin(struct simulation *simulation, int s)
{
    struct stream_run *stream = &simulation->streams[s];
    struct device_run *run = &simulation->devices[stream->device];
    if (run->collectives == NOBODY)
        run->collective_since_ps = simulation->now_ps;
    if (s != run->mark_stream && run->beside++ == 0)
        run->beside_since_ps = simulation->now_ps;
    stream->since_ps = simulation->now_ps;
    stream->state = STREAM_RUNNING;
    stream->next = run->collectives;
    run->collectives = s;
    engine_pace(simulation, stream->device);
}

static void collective_end(struct simulation *simulation, int s)
{
    const struct stream_run *stream = &simulation->streams[s];
    struct device_run *run = &simulation->devices[stream->device];
    if (s != run->mark_stream && --run->beside == 0)
        run->beside_ps += simulation->now_ps - run->beside_since_ps;
    int *link = &run->collectives;
    while (*link != s)
        link = &simulation->streams[*link].next;
    *link = stream->next;
    if (run->collectives == NOBODY)
        simulation->result->device[stream->device].collective_ps += simulation->now_ps - run->collective_since_ps;
    engine_pace(simulation, stream->device);
}

/* The last rank starts all. */
static void collective_arrive(struct simulation *simulation, int s)
{
    struct stream_run *stream = &simulation->streams[s];
    struct group_run *group = group_of(simulation, stream);
    stream->state = STREAM_BLOCKED;
    stream->next = group->streams;
    group->streams = s;
    if (++group->arrived < group->ranks)
        return;
    int64_t end = simulation->now_ps + group->duration_ps;
    simulation->result->collective_ps += group->duration_ps;
    links_count_collective(simulation, group);
    for (int member = group->streams, next; member != NOBODY; member = next) {
        next = simulation->streams[member].next;
        collective_begin(simulation, member);
        play_queue_set(&simulation->queue, member, end);
    }
}

/* ---- events and marks ----------------------------------------------------------------------------------------------
 */

static void mark(struct simulation *simulation, int s, int kind)
{
    const struct stream_run *stream = &simulation->streams[s];
    struct device_run *run = &simulation->devices[stream->device];
    int step = simulation->instances[stream->instance].step;
    if (step < 0 || step >= simulation->result->steps)
        return;
    struct play_step *row =
        &simulation->result->marks[(size_t)step * (size_t)simulation->device_count + (size_t)stream->device];
    int64_t beside = run->beside_ps;
    if (run->beside) {
        beside += simulation->now_ps - run->beside_since_ps;
        run->beside_since_ps = simulation->now_ps;
    }
    run->beside_ps = 0;
    if (kind == MARK_BEGIN) {
        run->mark_stream = s;
        row->first_ps = simulation->now_ps;
        row->marked = true;
    } else {
        int phase = kind - MARK_PHASE;
        row->phase_ps[phase] += simulation->now_ps - run->mark_ps;
        if (phase == PLAY_FORWARD || phase == PLAY_LOSS || phase == PLAY_BACKWARD)
            row->hidden_ps += beside;
    }
    row->last_ps = run->mark_ps = simulation->now_ps;
}

static void event_happens(struct simulation *simulation, int s)
{
    const struct stream_run *stream = &simulation->streams[s];
    const struct task *task = task_of(stream);
    if (task->mark)
        mark(simulation, s, task->mark);
    if (task->number == NO_EVENT)
        return;
    struct event_run *event = &simulation->events[simulation->instances[stream->instance].events + (int)task->number];
    event->done_ps = simulation->now_ps;
    for (int waiting = event->streams; waiting != NOBODY; waiting = simulation->streams[waiting].next) {
        simulation->streams[waiting].state = STREAM_READY;
        play_queue_set(&simulation->queue, waiting, simulation->now_ps);
    }
    for (int waiting = event->threads, next; waiting != NOBODY; waiting = next) {
        next = simulation->threads[waiting].next;
        thread_wake(simulation, waiting);
    }
    event->streams = event->threads = NOBODY;
}

/* true: the event has happened, or lies before the window. */
static bool event_wait(struct simulation *simulation, int s)
{
    struct stream_run *stream = &simulation->streams[s];
    const struct task *task = task_of(stream);
    if (task->number == NO_EVENT)
        return true;
    struct event_run *event = &simulation->events[simulation->instances[stream->instance].events + (int)task->number];
    if (event->done_ps != NOT_YET)
        return true;
    stream->state = STREAM_BLOCKED;
    stream->next = event->streams;
    event->streams = s;
    return false;
}

/* ---- a turn --------------------------------------------------------------------------------------------------------
 */

static void copy_begin(struct simulation *simulation, int s)
{
    struct stream_run *stream = &simulation->streams[s];
    const struct task *task = task_of(stream);
    int base = simulation->instances[stream->instance].devices;
    int from = task->from == HOST_SIDE ? HOST_SIDE : base + task->from;
    int to = task->to == HOST_SIDE ? HOST_SIDE : base + task->to;
    stream->state = STREAM_RUNNING;
    play_queue_set(&simulation->queue, s, links_take(simulation, from, to, task->bytes, &stream->since_ps));
}

/* Begins the task whose time has come; true: it took no time. */
static bool task_begin(struct simulation *simulation, int s)
{
    struct stream_run *stream = &simulation->streams[s];
    const struct task *task = task_of(stream);
    stream->since_ps = simulation->now_ps;
    if (task->kind == TASK_EVENT) {
        event_happens(simulation, s);
        return true;
    }
    if (task->kind == TASK_EVENT_WAIT)
        return event_wait(simulation, s);
    if (task->kind == TASK_COLLECTIVE)
        collective_arrive(simulation, s);
    else if (cost_is_compute(task))
        engine_ask(simulation, s);
    else
        copy_begin(simulation, s);
    return false;
}

static void task_end(struct simulation *simulation, int s)
{
    struct stream_run *stream = &simulation->streams[s];
    keep_span(simulation, stream, stream->since_ps);
    stream->head++;
    simulation->result->operations++;
    for (int waiting = stream->host_waiting, next, *link = &stream->host_waiting; waiting != NOBODY; waiting = next) {
        struct thread_run *thread = &simulation->threads[waiting];
        next = thread->next;
        if (thread->list->operations[thread->at].number <= stream->head) {
            *link = next;
            thread_wake(simulation, waiting);
        } else {
            link = &thread->next;
        }
    }
}

/* The stream's next task: true if its time is now. */
static bool next_task(struct simulation *simulation, int s)
{
    struct stream_run *stream = &simulation->streams[s];
    if (stream->head >= stream->enqueued) {
        stream->state = STREAM_IDLE;
        return false;
    }
    int64_t ready = stream->enqueued_ps[stream->head] + simulation->start_ps;
    stream->state = STREAM_READY;
    if (ready <= simulation->now_ps &&
        (simulation->queue.count == 0 || simulation->queue.at[simulation->queue.heap[0]] > simulation->now_ps))
        return true;
    play_queue_set(&simulation->queue, s, ready > simulation->now_ps ? ready : simulation->now_ps);
    return false;
}

void stream_poke(struct simulation *simulation, int s)
{
    struct stream_run *stream = &simulation->streams[s];
    if (stream->state != STREAM_IDLE)
        return;
    stream->state = STREAM_READY;
    play_queue_set(&simulation->queue, s, stream->enqueued_ps[stream->head] + simulation->start_ps);
}

void stream_turn(struct simulation *simulation, int s)
{
    struct stream_run *stream = &simulation->streams[s];
    if (stream->state == STREAM_RUNNING) {
        const struct task *task = task_of(stream);
        if (task->kind == TASK_COLLECTIVE)
            collective_end(simulation, s);
        else if (cost_is_compute(task))
            engine_leave(simulation, stream);
        task_end(simulation, s);
        if (!next_task(simulation, s))
            return;
    }
    while (task_begin(simulation, s)) {
        task_end(simulation, s);
        if (!next_task(simulation, s))
            return;
    }
}
