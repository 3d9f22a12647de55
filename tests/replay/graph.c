/* SPDX-License-Identifier: MIT
 *
 * See graph.h.
 */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

static int current; /* thread */

void graph_machine(struct machine *machine, int devices)
{
    *machine = (struct machine){.name = "paper",
                                .description = "by hand",
                                .devices = devices,
                                .nodes = 1,
                                .launch_s = 10e-9,
                                .memory_bytes_per_s = 1e9,
                                .copy_engines = 2,
                                .host_up = {1e9, 100e-9},
                                .host_down = {1e9, 100e-9}};
    machine->products[TYPE_FP32] = (struct curve){1, {1024}, {1e9}};
    for (int from = 0; from < devices; from++)
        for (int to = 0; to < devices; to++)
            if (from != to)
                machine->direct[from][to] = (struct link){1e9, 100e-9};
    machine->table_count = 1;
    machine->tables[0] =
        (struct collective_table){.operation = ALL_REDUCE, .ranks = 2, .seconds = {2, {100, 1100}, {1e-6, 2e-6}}};
    collective_fit(&machine->tables[0]);
}

void graph_open(struct program *program, int devices, int streams, const int *stream_devices)
{
    *program =
        (struct program){.path = "paper", .devices = devices, .stream_count = streams, .thread_count = 1, .ranks = 1};
    program->streams = calloc((size_t)streams, sizeof(*program->streams));
    program->threads = calloc(1, sizeof(*program->threads));
    program->collectives = calloc(64, sizeof(*program->collectives));
    program->job_ends = calloc(1, sizeof(*program->job_ends));
    program->ordinals = calloc((size_t)devices, sizeof(*program->ordinals));
    program->peak_bytes = calloc((size_t)devices, sizeof(*program->peak_bytes));
    current = 0;
    for (int s = 0; s < streams; s++)
        program->streams[s] = (struct task_list){.device = stream_devices[s], .recorded_stream = s + 1};
}

void graph_close(struct program *program)
{
    program_close(program);
}

static struct task *add(struct program *program, int stream, enum task_kind kind)
{
    struct operation *operation = program_add_operation(&program->threads[current]);
    struct task *task = program_add_task(&program->streams[stream]);
    if (!operation || !task)
        abort();
    operation->kind = OP_ENQUEUE;
    operation->stream = (uint16_t)stream;
    task->kind = (uint8_t)kind;
    task->range = PLAY_PHASES;
    return task;
}

void graph_kernel(struct program *program, int stream, double bytes)
{
    add(program, stream, TASK_KERNEL)->bytes = bytes;
}

void graph_copy(struct program *program, int stream, int from, int to, double bytes)
{
    struct task *task = add(program, stream, TASK_COPY);
    task->from = (int16_t)from;
    task->to = (int16_t)to;
    task->bytes = bytes;
}

uint32_t graph_event(struct program *program, int stream, uint8_t mark)
{
    struct task *task = add(program, stream, TASK_EVENT);
    task->mark = mark;
    task->number = program->event_count;
    return program->event_count++;
}

void graph_wait(struct program *program, int stream, uint32_t event)
{
    add(program, stream, TASK_EVENT_WAIT)->number = event;
}

void graph_all_reduce(struct program *program, int stream, int rank, int ranks, uint64_t sequence, double bytes)
{
    add(program, stream, TASK_COLLECTIVE)->number = program->collective_count;
    program->collectives[program->collective_count++] = (struct collective){.communicator = 7,
                                                                            .sequence = sequence,
                                                                            .operation = "all_reduce",
                                                                            .bytes = bytes,
                                                                            .rank = rank,
                                                                            .ranks = ranks};
}

void graph_work(struct program *program, int64_t ns)
{
    struct operation *operation = program_add_operation(&program->threads[current]);
    if (!operation)
        abort();
    operation->kind = OP_WORK;
    operation->ps = ns * NS;
}

void graph_sync(struct program *program, int stream)
{
    struct operation *operation = program_add_operation(&program->threads[current]);
    if (!operation)
        abort();
    operation->kind = OP_WAIT_STREAM;
    operation->stream = (uint16_t)stream;
    operation->number = program->streams[stream].count;
}

void graph_sync_event(struct program *program, uint32_t event)
{
    struct operation *operation = program_add_operation(&program->threads[current]);
    if (!operation)
        abort();
    operation->kind = OP_WAIT_EVENT;
    operation->number = event;
}

void graph_thread(struct program *program, int thread)
{
    if (thread >= program->thread_count) {
        struct thread_list *larger = realloc(program->threads, ((size_t)thread + 1) * sizeof(*larger));
        if (!larger)
            abort();
        memset(larger + program->thread_count, 0, (size_t)(thread + 1 - program->thread_count) * sizeof(*larger));
        program->threads = larger;
        program->thread_count = thread + 1;
    }
    current = thread;
}

void graph_job(struct program *program, enum operation_kind kind)
{
    struct operation *operation = program_add_operation(&program->threads[current]);
    if (!operation)
        abort();
    operation->kind = (uint8_t)kind;
    program->job_count = 1;
    program->job_ends[0] += kind == OP_END;
}

void graph_step(struct program *program, bool begin)
{
    struct operation *operation = program_add_operation(&program->threads[current]);
    if (!operation)
        abort();
    operation->kind = begin ? OP_STEP_BEGIN : OP_STEP_END;
    program->steps += !begin;
}
