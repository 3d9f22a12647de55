/* SPDX-License-Identifier: MIT
 *
 * Programs: what the host threads did. A thread's calls, waits, notes and enqueued tasks are put in order of time; what
 * lies between the end of one call and the start of the next is the host's own work, unless the thread slept there for
 * a job or a lock.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"
#include "program_build.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

/* Of things at one time a call comes before what happens in it. */
enum order { ORDER_CALL, ORDER_TASK, ORDER_WAIT, ORDER_NOTE };

struct item {
    const struct soft_record_entry *entry;
    uint64_t at;
    enum order order;
};

static int compare_items(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    if (x->entry->thread != y->entry->thread)
        return x->entry->thread < y->entry->thread ? -1 : 1;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    if (x->order != y->order)
        return x->order < y->order ? -1 : 1;
    if (x->entry->device != y->entry->device)
        return x->entry->device < y->entry->device ? -1 : 1;
    if (x->entry->stream != y->entry->stream)
        return x->entry->stream < y->entry->stream ? -1 : 1;
    return (x->entry->task > y->entry->task) - (x->entry->task < y->entry->task);
}

static bool note_is(const struct build *build, const struct soft_record_entry *entry, const char *what)
{
    return !strcmp(record_string(build->record, entry->name), what);
}

static bool is_job_note(const struct build *build, const struct soft_record_entry *entry)
{
    return entry->kind == SOFT_RECORD_NOTE && !strncmp(record_string(build->record, entry->name), "job_", 4);
}

struct operation *program_add_operation(struct thread_list *list)
{
    if (list->count == list->room) {
        uint32_t room = list->room ? 2 * list->room : 64;
        struct operation *larger = realloc(list->operations, room * sizeof(*larger));
        if (!larger)
            return NULL;
        list->operations = larger;
        list->room = room;
    }
    list->operations[list->count] = (struct operation){0};
    return &list->operations[list->count++];
}

/* ---- jobs ----------------------------------------------------------------------------------------------------------
 */

static int collect_jobs(struct build *build)
{
    struct program *program = build->program;
    uint32_t count = 0;
    build->jobs = malloc((build->record->count + 1) * sizeof(*build->jobs));
    if (!build->jobs)
        return build_no_memory(build);
    for (uint64_t i = 0; i < build->record->count; i++) {
        const struct soft_record_entry *entry = &build->record->entries[i];
        if (is_job_note(build, entry) && build_in_window(build, entry))
            build->jobs[count++] = entry->mark;
    }
    program->job_count = build_unique(build->jobs, count);
    program->job_ends = calloc(program->job_count + 1, sizeof(*program->job_ends));
    return program->job_ends ? EXIT_OK : build_no_memory(build);
}

/* ---- one thread ----------------------------------------------------------------------------------------------------
 */

struct walk {
    struct build *build;
    struct thread_list *list;
    uint64_t cursor_ns; /* the thread is known to be through with all before; 0: nothing is known */
    uint64_t locked_ns; /* of the time since, waited for locks */
    int status;
};

static struct operation *add(struct walk *walk, enum operation_kind kind, uint32_t number)
{
    static struct operation nowhere;
    struct operation *operation = program_add_operation(walk->list);
    if (!operation) {
        walk->status = build_no_memory(walk->build);
        return &nowhere;
    }
    operation->kind = (uint8_t)kind;
    operation->number = number;
    return operation;
}

/* The host's own work since the last call, up to `at`. */
static void add_work(struct walk *walk, uint64_t at)
{
    if (walk->cursor_ns && at > walk->cursor_ns + walk->locked_ns)
        add(walk, OP_WORK, 0)->ps = (int64_t)((at - walk->cursor_ns - walk->locked_ns) * 1000);
    walk->locked_ns = 0;
}

static void walk_note(struct walk *walk, const struct soft_record_entry *entry)
{
    static const struct {
        const char *name;
        enum operation_kind kind;
        bool slept; /* the thread slept until here: no work of its own */
    } notes[] = {{"step_begin", OP_STEP_BEGIN, false}, {"step_end", OP_STEP_END, false}, {"job_give", OP_GIVE, false},
                 {"job_begin", OP_BEGIN, true},        {"job_end", OP_END, false},       {"job_join", OP_JOIN, true}};
    struct build *build = walk->build;
    for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++) {
        if (!note_is(build, entry, notes[i].name))
            continue;
        if (!notes[i].slept)
            add_work(walk, entry->start_ns);
        uint32_t job = i < 2 ? entry->mark : build_find(build->jobs, build->program->job_count, entry->mark);
        add(walk, notes[i].kind, job);
        if (notes[i].kind == OP_END)
            build->program->job_ends[job]++;
        if (notes[i].kind == OP_STEP_END)
            build->program->steps++;
        walk->cursor_ns = entry->start_ns;
        walk->locked_ns = 0;
    }
}

static void walk_wait(struct walk *walk, const struct soft_record_entry *entry)
{
    const struct build *build = walk->build;
    if (entry->mark) {
        uint32_t event = build_find(build->marks, build->program->event_count, entry->mark);
        if (event != NO_EVENT)
            add(walk, OP_WAIT_EVENT, event);
        return;
    }
    const struct task_list *list = entry->device < 0 ? NULL : build_stream(build, entry->device, entry->stream);
    if (!list || entry->task <= list->first)
        return;
    uint64_t tasks = entry->task - list->first;
    add(walk, OP_WAIT_STREAM, (uint32_t)(tasks < list->count ? tasks : list->count))->stream =
        (uint16_t)(list - build->program->streams);
}

static void walk_item(struct walk *walk, const struct item *item)
{
    const struct soft_record_entry *entry = item->entry;
    switch (entry->kind) {
    case SOFT_RECORD_HOST_CALL:
        add_work(walk, entry->start_ns);
        walk->cursor_ns = entry->end_ns;
        return;
    case SOFT_RECORD_HOST_WAIT:
        walk_wait(walk, entry);
        return;
    case SOFT_RECORD_LOCK_WAIT:
        if (entry->start_ns >= walk->cursor_ns)
            walk->locked_ns += entry->end_ns - entry->start_ns;
        return;
    case SOFT_RECORD_NOTE:
        walk_note(walk, entry);
        return;
    default:
        if (!walk->list->first_task)
            walk->list->first_task = entry;
        add(walk, OP_ENQUEUE, 0)->stream =
            (uint16_t)(build_stream(walk->build, entry->device, entry->stream) - walk->build->program->streams);
    }
}

/* ---- all threads ---------------------------------------------------------------------------------------------------
 */

static size_t collect_items(struct build *build, struct item *items)
{
    size_t count = 0;
    for (uint64_t i = 0; i < build->record->count; i++) {
        const struct soft_record_entry *entry = &build->record->entries[i];
        if (entry->kind == SOFT_RECORD_FACTS || entry->kind == SOFT_RECORD_SETTING || !build_in_window(build, entry))
            continue;
        struct item *item = &items[count++];
        *item = (struct item){entry, entry->start_ns, ORDER_CALL};
        if (entry->kind == SOFT_RECORD_HOST_WAIT)
            item->order = ORDER_WAIT;
        else if (entry->kind == SOFT_RECORD_NOTE)
            item->order = ORDER_NOTE;
        else if (entry->kind >= SOFT_RECORD_TASK)
            *item = (struct item){entry, entry->enqueued_ns, ORDER_TASK};
    }
    if (count)
        qsort(items, count, sizeof(*items), compare_items);
    return count;
}

/* Threads have numbers in the order of their first calls: other ones in each run of the same command. What they enqueue
 * is the same: by the first task's device, stream and number; those without a task come last. */
static int compare_threads(const void *a, const void *b)
{
    const struct thread_list *x = a, *y = b;
    const struct soft_record_entry *first = x->first_task, *second = y->first_task;
    if (!first || !second)
        return first ? -1 : second ? 1 : x->recorded_thread - y->recorded_thread;
    if (first->device != second->device)
        return first->device < second->device ? -1 : 1;
    if (first->stream != second->stream)
        return first->stream < second->stream ? -1 : 1;
    return (first->task > second->task) - (first->task < second->task);
}

static int walk_threads(struct build *build, const struct item *items, size_t count)
{
    struct program *program = build->program;
    struct walk walk = {.build = build};
    for (size_t i = 0; i < count && !walk.status; i++) {
        if (i == 0 || items[i].entry->thread != items[i - 1].entry->thread) {
            struct thread_list *larger =
                realloc(program->threads, (size_t)(program->thread_count + 1) * sizeof(*larger));
            if (!larger)
                return build_no_memory(build);
            program->threads = larger;
            walk = (struct walk){.build = build, .list = &program->threads[program->thread_count++]};
            *walk.list = (struct thread_list){.recorded_thread = items[i].entry->thread};
        }
        walk_item(&walk, &items[i]);
    }
    if (program->thread_count)
        qsort(program->threads, (size_t)program->thread_count, sizeof(*program->threads), compare_threads);
    return walk.status;
}

/* Each stream's tasks were enqueued in the order of their numbers, or threads and streams do not fit together. */
static int check_jobs(const struct build *build)
{
    const struct program *program = build->program;
    for (int t = 0; t < program->thread_count; t++)
        for (uint32_t i = 0; i < program->threads[t].count; i++) {
            const struct operation *operation = &program->threads[t].operations[i];
            bool job = operation->kind >= OP_GIVE && operation->kind <= OP_JOIN;
            if (job && operation->number >= program->job_count) {
                log_error("%s: thread %d: a note of job %u, expected one of %u jobs", build->record->path,
                          program->threads[t].recorded_thread, operation->number, program->job_count);
                return EXIT_BAD_FILE;
            }
        }
    return EXIT_OK;
}

int build_threads(struct build *build)
{
    struct item *items = malloc((build->record->count + 1) * sizeof(*items));
    if (!items)
        return build_no_memory(build);
    int status = collect_jobs(build);
    if (!status)
        status = walk_threads(build, items, collect_items(build, items));
    free(items);
    return status ? status : check_jobs(build);
}
