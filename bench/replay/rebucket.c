/* SPDX-License-Identifier: MIT
 *
 * DDP with other buckets. The reducer's steps (ddp_multi_process/reducer.c) are found in the program and made again:
 *
 *   a gradient is ready     copy_scale (with --gradient-as-bucket-view: scale) on the compute stream, in the backward
 * phase; half its bytes are the tensor's a bucket is full        event `filled`; on the communication stream: wait for
 * it, event, all-reduce, event, `reduced` after the backward pass bucket by bucket: wait for `reduced`, mark, copy each
 * tensor back, mark
 *
 * Tensors join buckets in the order in which they became ready; a bucket is closed when it holds at least its limit, 1
 * MiB for the first one (PyTorch's rule: append, then look).
 */
#include <stdlib.h>
#include <string.h>

#include "study.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

#define MIB 1048576.0
#define FIRST_LIMIT MIB
#define OWN_SEQUENCES ((uint64_t)1 << 40) /* beyond all that a record can hold */

struct pass {
    const struct program *old;
    struct program *new;    /* streams, threads and collectives are made anew */
    uint32_t *cursor;       /* [stream_count] old tasks passed */
    uint32_t **moved;       /* [stream_count][old count] new tasks when so many old ones had passed */
    struct thread_list *to; /* of the operations made now */
    int compute, communication;
    const struct collective *pattern;
    double cap;
    double *tensors;      /* of this step, in ready order */
    uint32_t *bucket_end; /* [buckets] of this step: number of its last tensor + 1 */
    uint32_t *reduced;    /* [buckets] events */
    uint32_t tensor_count, tensors_in_step, buckets;
    double held, room; /* of the open bucket: bytes of its tensors, and what they take up in it */
    bool views;        /* --gradient-as-bucket-view: gradients are scaled in place, and nothing is copied back */
    bool dropping;     /* the old waits and copies behind the backward pass */
    bool failed;
};

static const struct task *next_old(const struct pass *pass, const struct operation *operation)
{
    const struct task_list *list = &pass->old->streams[operation->stream];
    return &list->tasks[pass->cursor[operation->stream]];
}

static bool is_gradient(const struct pass *pass, const struct task *task)
{
    return task->kind == TASK_KERNEL && task->range == PLAY_BACKWARD &&
           !strcmp(task->name, pass->views ? "scale" : "copy_scale");
}

static struct task *emit(struct pass *pass, int stream, struct task task)
{
    struct task *made = program_add_task(&pass->new->streams[stream]);
    struct operation *operation = program_add_operation(pass->to);
    if (!made || !operation) {
        pass->failed = true;
        return NULL;
    }
    operation->kind = OP_ENQUEUE;
    operation->stream = (uint16_t)stream;
    *made = task;
    return made;
}

static uint32_t emit_event(struct pass *pass, int stream, uint8_t mark, int range)
{
    uint32_t number = pass->new->event_count++;
    emit(pass, stream,
         (struct task){
             .kind = TASK_EVENT, .mark = mark, .range = (uint8_t)range, .number = number, .name = "event_record"});
    return number;
}

static void emit_wait(struct pass *pass, int stream, uint32_t event, int range)
{
    emit(pass, stream,
         (struct task){.kind = TASK_EVENT_WAIT, .range = (uint8_t)range, .number = event, .name = "event_wait"});
}

/* A collective of the new program like `pattern`; its number. */
static uint32_t add_collective(struct pass *pass, const struct collective *pattern, double bytes)
{
    struct program *program = pass->new;
    uint32_t number = program->collective_count;
    struct collective *larger = realloc(program->collectives, (number + 1) * sizeof(*larger));
    if (!larger) {
        pass->failed = true;
        return 0;
    }
    program->collectives = larger;
    program->collectives[number] = *pattern;
    program->collectives[number].bytes = bytes;
    program->collectives[number].sequence = OWN_SEQUENCES + number;
    program->collective_count++;
    return number;
}

static void close_bucket(struct pass *pass)
{
    uint32_t number = add_collective(pass, pass->pattern, pass->room);
    emit_wait(pass, pass->communication, emit_event(pass, pass->compute, MARK_NONE, PLAY_ALLREDUCE_EXPOSED),
              PLAY_ALLREDUCE_EXPOSED);
    emit_event(pass, pass->communication, MARK_NONE, PLAY_ALLREDUCE_EXPOSED);
    emit(pass, pass->communication,
         (struct task){.kind = TASK_COLLECTIVE,
                       .range = PLAY_ALLREDUCE_EXPOSED,
                       .number = number,
                       .bytes = pass->room,
                       .name = pass->pattern->operation});
    emit_event(pass, pass->communication, MARK_NONE, PLAY_ALLREDUCE_EXPOSED);
    pass->reduced[pass->buckets] = emit_event(pass, pass->communication, MARK_NONE, PLAY_ALLREDUCE_EXPOSED);
    pass->bucket_end[pass->buckets++] = pass->tensor_count;
    pass->held = pass->room = 0;
}

/* Views lie as parameters do, each at a multiple of 256 bytes; copies stand one behind the other. */
static double room_of(const struct pass *pass, double bytes)
{
    return pass->views ? (double)(((uint64_t)bytes + 255) / 256 * 256) : bytes;
}

static void gradient_ready(struct pass *pass, const struct task *task)
{
    double limit = pass->buckets == 0 ? FIRST_LIMIT : pass->cap;
    pass->tensors[pass->tensor_count++] = task->bytes / 2;
    pass->held += task->bytes / 2;
    pass->room += room_of(pass, task->bytes / 2);
    if (pass->held >= limit || pass->tensor_count == pass->tensors_in_step)
        close_bucket(pass);
}

/* After the backward pass. */
static void copy_back(struct pass *pass)
{
    uint32_t tensor = 0;
    int16_t device = (int16_t)pass->old->streams[pass->compute].device;
    for (uint32_t bucket = 0; bucket < pass->buckets; bucket++) {
        emit_wait(pass, pass->compute, pass->reduced[bucket], PLAY_PHASES);
        emit_event(pass, pass->compute, MARK_PHASE + PLAY_ALLREDUCE_EXPOSED, PLAY_PHASES);
        if (pass->views)
            continue;
        for (; tensor < pass->bucket_end[bucket]; tensor++)
            emit(pass, pass->compute,
                 (struct task){.kind = TASK_COPY,
                               .range = PLAY_PHASES,
                               .from = device,
                               .to = device,
                               .bytes = pass->tensors[tensor],
                               .name = "copy_device_to_device"});
        emit_event(pass, pass->compute, MARK_PHASE + PLAY_BACKWARD, PLAY_PHASES);
    }
}

/* One enqueued task of the old program. */
static void pass_task(struct pass *pass, const struct operation *operation)
{
    const struct task *task = next_old(pass, operation);
    int stream = operation->stream;
    if (task->range == PLAY_UPDATE)
        pass->dropping = false;
    if (task->range != PLAY_ALLREDUCE_EXPOSED && !pass->dropping) {
        struct task kept = *task;
        if (task->kind == TASK_COLLECTIVE) { /* of buffers: not the buckets' */
            const struct collective *own = &pass->old->collectives[task->number];
            kept.number = add_collective(pass, own, own->bytes);
        }
        emit(pass, stream, kept);
    }
    if (is_gradient(pass, task))
        gradient_ready(pass, task);
    if (task->kind == TASK_EVENT && task->mark == MARK_PHASE + PLAY_BACKWARD && !pass->dropping) {
        copy_back(pass);
        pass->dropping = true;
    }
    pass->cursor[stream]++;
    pass->moved[stream][pass->cursor[stream]] = pass->new->streams[stream].count;
}

/* Gradients from here to the end of the step. */
static uint32_t count_gradients(const struct pass *pass, const struct thread_list *list, uint32_t at)
{
    uint32_t ahead[2] = {pass->cursor[pass->compute], 0}, count = 0;
    for (; at < list->count && list->operations[at].kind != OP_STEP_END; at++)
        if (list->operations[at].kind == OP_ENQUEUE && list->operations[at].stream == pass->compute)
            count += is_gradient(pass, &pass->old->streams[pass->compute].tasks[ahead[0]++]);
    return count;
}

static void pass_operation(struct pass *pass, const struct thread_list *list, uint32_t at)
{
    const struct operation *operation = &list->operations[at];
    if (operation->kind == OP_ENQUEUE) {
        pass_task(pass, operation);
        return;
    }
    struct operation *made = program_add_operation(pass->to);
    if (!made) {
        pass->failed = true;
        return;
    }
    *made = *operation;
    if (operation->kind == OP_WAIT_STREAM)
        made->number = pass->moved[operation->stream][operation->number <= pass->cursor[operation->stream]
                                                          ? operation->number
                                                          : pass->cursor[operation->stream]];
    if (operation->kind == OP_STEP_BEGIN) {
        pass->tensors_in_step = count_gradients(pass, list, at);
        pass->tensor_count = pass->buckets = 0;
        pass->held = pass->room = 0;
        pass->dropping = false;
    }
}

/* The streams of the first gradient and of the first all-reduce; false: not a DDP that overlaps. */
static bool find_streams(struct pass *pass)
{
    const struct program *old = pass->old;
    pass->compute = pass->communication = -1;
    pass->views = strstr(program_setting(old, "variant", ""), "gradient_as_bucket_view") != NULL;
    for (int s = 0; s < old->stream_count; s++)
        for (uint32_t i = 0; i < old->streams[s].count; i++) {
            const struct task *task = &old->streams[s].tasks[i];
            if (is_gradient(pass, task) && pass->compute < 0)
                pass->compute = s;
            if (task->kind == TASK_COLLECTIVE && task->range == PLAY_ALLREDUCE_EXPOSED && pass->communication < 0) {
                pass->communication = s;
                pass->pattern = &old->collectives[task->number];
            }
        }
    return pass->compute >= 0 && pass->communication >= 0 && pass->compute != pass->communication &&
           old->thread_count == 1 && old->steps > 0 && !strstr(program_setting(old, "variant", ""), "no_overlap");
}

static bool open_pass(struct pass *pass)
{
    const struct program *old = pass->old;
    struct program *new = pass->new;
    size_t streams = (size_t)old->stream_count, most = old->streams[pass->compute].count + 1;
    new->streams = calloc(streams, sizeof(*new->streams));
    new->threads = calloc(1, sizeof(*new->threads));
    pass->cursor = calloc(streams, sizeof(*pass->cursor));
    pass->moved = calloc(streams, sizeof(*pass->moved));
    pass->tensors = malloc(most * sizeof(*pass->tensors));
    pass->bucket_end = malloc(most * sizeof(*pass->bucket_end));
    pass->reduced = malloc(most * sizeof(*pass->reduced));
    if (!new->streams || !new->threads || !pass->cursor || !pass->moved || !pass->tensors || !pass->bucket_end ||
        !pass->reduced)
        return false;
    for (size_t s = 0; s < streams; s++) {
        new->streams[s] =
            (struct task_list){.device = old->streams[s].device, .recorded_stream = old->streams[s].recorded_stream};
        pass->moved[s] = calloc(old->streams[s].count + 1, sizeof(**pass->moved));
        if (!pass->moved[s])
            return false;
    }
    new->threads[0].recorded_thread = old->threads[0].recorded_thread;
    pass->to = &new->threads[0];
    return true;
}

static void close_pass(struct pass *pass)
{
    for (int s = 0; pass->moved && s < pass->old->stream_count; s++)
        free(pass->moved[s]);
    free(pass->moved);
    free(pass->cursor);
    free(pass->tensors);
    free(pass->bucket_end);
    free(pass->reduced);
}

/* The lists of one program take the place of the other's. */
static void take_over(struct program *program, const struct program *new)
{
    for (int s = 0; s < program->stream_count; s++)
        free(program->streams[s].tasks);
    free(program->streams);
    free(program->threads[0].operations);
    free(program->threads);
    free(program->collectives);
    program->streams = new->streams;
    program->threads = new->threads;
    program->collectives = new->collectives;
    program->collective_count = new->collective_count;
    program->event_count = new->event_count;
}

int rebucket(struct program *program, double cap_mib)
{
    struct program new = {.event_count = program->event_count, .stream_count = program->stream_count};
    struct pass pass = {.old = program, .new = &new, .cap = cap_mib *MIB};
    if (!find_streams(&pass)) {
        const char *variant = program_setting(program, "variant", "");
        log_error("%s: --bucket-cap-mb: the record is %s%s%s%s, expected timed steps of DDP with overlap and gradients "
                  "beside their buckets on at least 2 ranks",
                  program->path, program_setting(program, "strategy", "of an unknown strategy"), *variant ? " (" : "",
                  variant, *variant ? ")" : "");
        return EXIT_USAGE;
    }
    pass.failed = !open_pass(&pass);
    const struct thread_list *list = &program->threads[0];
    for (uint32_t at = 0; at < list->count && !pass.failed; at++)
        pass_operation(&pass, list, at);
    close_pass(&pass);
    if (pass.failed) {
        log_error("%s: --bucket-cap-mb: no memory", program->path);
        return EXIT_RESOURCE;
    }
    take_over(program, &new);
    return EXIT_OK;
}
