/* SPDX-License-Identifier: MIT
 *
 * Setting the replay up, its loop, and its end.
 */
#include "play.h"

#include <stdlib.h>

#include "cost.h"
#include "exact.h"
#include "play_state.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

void play_options_init(struct play_options *options)
{
    *options = (struct play_options){
        .what_if = {.bandwidth = 1, .latency = 1, .compute = 1}, .slow_rank = -1, .slow_factor = 1};
}

int play_no_memory(const struct simulation *simulation)
{
    log_error("no memory to replay %d streams and %d threads", simulation->stream_count, simulation->thread_count);
    return EXIT_RESOURCE;
}

/* ---- counting and laying out ---------------------------------------------------------------------------------------
 */

static int open_instances(struct simulation *simulation, const struct program *const *programs, int count)
{
    int replicate = simulation->options->replicate, collectives = 0;
    simulation->instance_count = replicate ? replicate : count;
    simulation->instances = calloc((size_t)simulation->instance_count, sizeof(*simulation->instances));
    if (!simulation->instances)
        return play_no_memory(simulation);
    for (int i = 0; i < simulation->instance_count; i++) {
        const struct program *program = programs[replicate ? 0 : i];
        simulation->instances[i] = (struct instance){.program = program,
                                                     .rank = replicate ? i : program->rank,
                                                     .devices = simulation->device_count,
                                                     .streams = simulation->stream_count,
                                                     .threads = simulation->thread_count,
                                                     .events = simulation->event_count,
                                                     .jobs = simulation->job_count,
                                                     .groups = collectives,
                                                     .step = NOBODY,
                                                     .factor = 1};
        simulation->device_count += program->devices;
        simulation->stream_count += program->stream_count;
        simulation->thread_count += program->thread_count;
        simulation->event_count += (int)program->event_count;
        simulation->job_count += (int)program->job_count;
        collectives += replicate ? 0 : (int)program->collective_count;
    }
    simulation->group_count = replicate ? (int)programs[0]->collective_count : collectives;
    return EXIT_OK;
}

static int open_arrays(struct simulation *simulation)
{
    size_t streams = (size_t)simulation->stream_count, threads = (size_t)simulation->thread_count;
    simulation->streams = calloc(streams + 1, sizeof(*simulation->streams));
    simulation->threads = calloc(threads + 1, sizeof(*simulation->threads));
    simulation->events = calloc((size_t)simulation->event_count + 1, sizeof(*simulation->events));
    simulation->jobs = calloc((size_t)simulation->job_count + 1, sizeof(*simulation->jobs));
    simulation->devices = calloc((size_t)simulation->device_count, sizeof(*simulation->devices));
    simulation->groups = calloc((size_t)simulation->group_count + 1, sizeof(*simulation->groups));
    simulation->group_of = calloc((size_t)simulation->group_count + 1, sizeof(*simulation->group_of));
    simulation->costs = calloc(streams + 1, sizeof(*simulation->costs));
    if (!simulation->streams || !simulation->threads || !simulation->events || !simulation->jobs ||
        !simulation->devices || !simulation->groups || !simulation->group_of || !simulation->costs ||
        play_queue_open(&simulation->queue, simulation->stream_count + simulation->thread_count))
        return play_no_memory(simulation);
    for (int i = 0; i < simulation->event_count; i++)
        simulation->events[i] = (struct event_run){NOT_YET, NOBODY, NOBODY};
    for (int i = 0; i < simulation->job_count; i++)
        simulation->jobs[i].threads = simulation->jobs[i].joining = NOBODY;
    for (int i = 0; i < simulation->device_count; i++)
        simulation->devices[i].running = simulation->devices[i].first = simulation->devices[i].collectives =
            simulation->devices[i].mark_stream = NOBODY;
    return EXIT_OK;
}

static int open_result(struct simulation *simulation)
{
    struct play_result *result = simulation->result;
    size_t instances = (size_t)simulation->instance_count, devices = (size_t)simulation->device_count;
    result->instances = simulation->instance_count;
    result->devices = simulation->device_count;
    result->steps = simulation->instances[0].program->steps;
    for (int i = 1; i < simulation->instance_count; i++)
        if (simulation->instances[i].program->steps < result->steps)
            result->steps = simulation->instances[i].program->steps;
    size_t steps = (size_t)result->steps;
    result->step_ps = calloc(steps + 1, sizeof(*result->step_ps));
    result->rank_step_ps = calloc(steps * instances + 1, sizeof(*result->rank_step_ps));
    result->rank_begin_ps = calloc(steps * instances + 1, sizeof(*result->rank_begin_ps));
    result->marks = calloc(steps * devices + 1, sizeof(*result->marks));
    result->device = calloc(devices, sizeof(*result->device));
    if (!result->step_ps || !result->rank_step_ps || !result->rank_begin_ps || !result->marks || !result->device ||
        links_open(simulation))
        return play_no_memory(simulation);
    return EXIT_OK;
}

/* What each compute task of a stream costs, once for all instances of its program. */
static int price_tasks(struct simulation *simulation, const struct task_list *list, int64_t **cost)
{
    *cost = malloc((list->count + 1) * sizeof(**cost));
    if (!*cost)
        return play_no_memory(simulation);
    simulation->costs[simulation->cost_count++] = *cost;
    for (uint32_t i = 0; i < list->count; i++)
        (*cost)[i] = cost_is_compute(&list->tasks[i])
                         ? cost_compute(simulation->machine, &simulation->options->what_if, &list->tasks[i])
                         : 0;
    return EXIT_OK;
}

static int open_actors(struct simulation *simulation)
{
    for (int i = 0; i < simulation->instance_count; i++) {
        const struct instance *instance = &simulation->instances[i];
        const struct program *program = instance->program;
        for (int d = 0; d < program->devices; d++) {
            simulation->result->device[instance->devices + d].instance = i;
            simulation->result->device[instance->devices + d].rank = instance->rank;
        }
        for (int s = 0; s < program->stream_count; s++) {
            struct stream_run *run = &simulation->streams[instance->streams + s];
            const struct task_list *list = &program->streams[s];
            int64_t *cost = i && simulation->options->replicate ? simulation->costs[s] : NULL;
            if (!cost && price_tasks(simulation, list, &cost))
                return EXIT_RESOURCE;
            *run = (struct stream_run){.list = list,
                                       .cost_ps = cost,
                                       .instance = i,
                                       .device = instance->devices + list->device,
                                       .next = NOBODY,
                                       .host_waiting = NOBODY};
            run->enqueued_ps = malloc((list->count + 1) * sizeof(*run->enqueued_ps));
            if (!run->enqueued_ps)
                return play_no_memory(simulation);
        }
        for (int t = 0; t < program->thread_count; t++)
            simulation->threads[instance->threads + t] =
                (struct thread_run){.list = &program->threads[t], .instance = i, .next = NOBODY};
    }
    return EXIT_OK;
}

/* ---- spans ---------------------------------------------------------------------------------------------------------
 */

void play_span(struct simulation *simulation, struct play_span span)
{
    struct play_result *result = simulation->result;
    if (result->span_count == result->span_room) {
        size_t room = result->span_room ? 2 * result->span_room : 1024;
        struct play_span *larger = realloc(result->spans, room * sizeof(*larger));
        if (!larger) {
            simulation->status = play_no_memory(simulation);
            return;
        }
        result->spans = larger;
        result->span_room = room;
    }
    result->spans[result->span_count++] = span;
}

bool play_too_late(struct simulation *simulation, int64_t at_ps)
{
    if (at_ps < EXACT_MAX_PS)
        return false;
    if (!simulation->status)
        log_error(
            "%s: the replay comes to %.0f hours, expected less than %.1f: costs in the record, or rates of machine "
            "%s, are out of range",
            simulation->instances[0].program->path, exact_seconds(at_ps) / 3600, exact_seconds(EXACT_MAX_PS) / 3600,
            simulation->machine->name);
    simulation->status = EXIT_BAD_FILE;
    return true;
}

/* ---- the loop ------------------------------------------------------------------------------------------------------
 */

static void run(struct simulation *simulation)
{
    for (int t = 0; t < simulation->thread_count; t++)
        play_queue_set(&simulation->queue, simulation->stream_count + t, 0);
    while (!simulation->status) {
        int actor = play_queue_take(&simulation->queue);
        if (actor == NOBODY)
            return;
        simulation->now_ps = simulation->queue.at[actor];
        if (play_too_late(simulation, simulation->now_ps))
            return;
        if (actor < simulation->stream_count)
            stream_turn(simulation, actor);
        else
            thread_turn(simulation, actor - simulation->stream_count);
        if (simulation->now_ps > simulation->result->makespan_ps)
            simulation->result->makespan_ps = simulation->now_ps;
    }
}

/* Nothing is left to happen: is all done? */
static int check_done(const struct simulation *simulation)
{
    for (int t = 0; t < simulation->thread_count; t++) {
        const struct thread_run *thread = &simulation->threads[t];
        if (thread->at < thread->list->count) {
            log_error("%s: thread %d stands for ever at its operation %u of %u: what it waits for never happens in the "
                      "records given",
                      simulation->instances[thread->instance].program->path, thread->list->recorded_thread, thread->at,
                      thread->list->count);
            return EXIT_BAD_FILE;
        }
    }
    for (int s = 0; s < simulation->stream_count; s++) {
        const struct stream_run *stream = &simulation->streams[s];
        if (stream->head < stream->list->count) {
            log_error("%s: device %d stream %d stands for ever at its task %u of %u (%s)",
                      simulation->instances[stream->instance].program->path, stream->list->device,
                      stream->list->recorded_stream, stream->head, stream->list->count,
                      stream->list->tasks[stream->head].name);
            return EXIT_BAD_FILE;
        }
    }
    return EXIT_OK;
}

static void settle(struct simulation *simulation)
{
    struct play_result *result = simulation->result;
    for (int d = 0; d < result->devices; d++)
        resource_take(&result->device[d].engine, result->makespan_ps, result->makespan_ps);
    for (size_t i = 0; i < result->link_count; i++)
        resource_take(&result->link[i], result->makespan_ps, result->makespan_ps);
    for (int t = 0; t < simulation->thread_count; t++) {
        const struct thread_run *thread = &simulation->threads[t];
        result->host_busy_ps = thread->busy_ps > result->host_busy_ps ? thread->busy_ps : result->host_busy_ps;
        result->host_work_ps = thread->work_ps > result->host_work_ps ? thread->work_ps : result->host_work_ps;
    }
    for (int i = 0; i < simulation->instance_count; i++)
        if (simulation->instances[i].lock_busy_ps > result->lock_busy_ps)
            result->lock_busy_ps = simulation->instances[i].lock_busy_ps;
}

static void close_simulation(struct simulation *simulation)
{
    for (int s = 0; simulation->streams && s < simulation->stream_count; s++)
        free(simulation->streams[s].enqueued_ps);
    for (int i = 0; i < simulation->cost_count; i++)
        free(simulation->costs[i]);
    play_queue_close(&simulation->queue);
    free(simulation->instances);
    free(simulation->streams);
    free(simulation->threads);
    free(simulation->events);
    free(simulation->jobs);
    free(simulation->groups);
    free(simulation->group_of);
    free(simulation->devices);
    free(simulation->costs);
    free(simulation->by_rank);
    free(simulation->computing);
}

int play(struct play_result *result, const struct program *const *programs, int count, const struct machine *machine,
         const struct play_options *options)
{
    struct simulation simulation = {.machine = machine, .options = options, .result = result};
    *result = (struct play_result){0};
    int status = open_instances(&simulation, programs, count);
    status = status ? status : open_arrays(&simulation);
    status = status ? status : open_result(&simulation);
    status = status ? status : open_actors(&simulation);
    status = status ? status : groups_open(&simulation);
    status = status ? status : engines_open(&simulation);
    if (!status) {
        simulation.start_ps = exact_ps(machine->start_s);
        simulation.sync_ps = exact_ps(machine->sync_s);
        simulation.lock_ps = exact_ps(options->launch_lock_s);
        for (int kind = 0; kind <= TASK_COLLECTIVE; kind++)
            simulation.enqueue_ps[kind] = cost_enqueue(machine, &(struct task){.kind = (uint8_t)kind});
        run(&simulation);
        status = simulation.status ? simulation.status : check_done(&simulation);
        settle(&simulation);
    }
    close_simulation(&simulation);
    return status;
}

void play_close(struct play_result *result)
{
    free(result->step_ps);
    free(result->rank_step_ps);
    free(result->rank_begin_ps);
    free(result->marks);
    free(result->device);
    free(result->pair_bytes);
    free(result->link);
    free(result->spans);
    *result = (struct play_result){0};
}
