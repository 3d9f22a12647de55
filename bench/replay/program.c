/* SPDX-License-Identifier: MIT
 *
 * Programs: the tasks of each stream, with events and collectives numbered anew (program.h). Everything is put in order
 * by its own numbers and times, never by its place in the file.
 */
#include "program.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "program_build.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

const char *const play_phase_names[PLAY_PHASES] = {"scatter", "replicate", "forward", "gather",
                                                   "loss",    "backward",  "reduce",  "allreduce_exposed",
                                                   "update",  "host",      "wait"};

int build_no_memory(const struct build *build)
{
    log_error("%s: no memory for the program of its %" PRIu64 " entries", build->record->path, build->record->count);
    return EXIT_RESOURCE;
}

static int compare_numbers(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

uint32_t build_unique(uint32_t *values, uint32_t count)
{
    uint32_t kept = 0;
    if (count)
        qsort(values, count, sizeof(*values), compare_numbers);
    for (uint32_t i = 0; i < count; i++)
        if (kept == 0 || values[kept - 1] != values[i])
            values[kept++] = values[i];
    return kept;
}

uint32_t build_find(const uint32_t *rising, uint32_t count, uint32_t key)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (rising[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && rising[low] == key ? low : NO_EVENT;
}

static bool is_task(const struct soft_record_entry *entry)
{
    return entry->kind >= SOFT_RECORD_TASK;
}

bool build_in_window(const struct build *build, const struct soft_record_entry *entry)
{
    uint64_t at = is_task(entry) ? entry->enqueued_ns : entry->start_ns;
    return entry->kind != SOFT_RECORD_FACTS && at >= build->begin_ns && at <= build->end_ns;
}

bool build_is_note(const struct record_file *record, const struct soft_record_entry *entry, const char *what)
{
    return entry->kind == SOFT_RECORD_NOTE && !strcmp(record_string(record, entry->name), what);
}

static void find_window(struct build *build)
{
    const struct record_file *record = build->record;
    build->begin_ns = UINT64_MAX;
    build->end_ns = 0;
    for (uint64_t i = 0; i < record->count; i++) {
        const struct soft_record_entry *entry = &record->entries[i];
        if (build_is_note(record, entry, "step_begin") && entry->start_ns < build->begin_ns) {
            build->begin_ns = entry->start_ns;
            build->main_thread = entry->thread;
        }
        if (build_is_note(record, entry, "step_end") && entry->start_ns > build->end_ns)
            build->end_ns = entry->start_ns;
    }
    if (build->main_thread && build->end_ns >= build->begin_ns)
        return;
    build->main_thread = 0; /* version 1, or no timed step: all of it */
    build->begin_ns = 0;
    build->end_ns = UINT64_MAX;
}

/* ---- devices -------------------------------------------------------------------------------------------------------
 */

static int collect_devices(struct build *build)
{
    struct program *program = build->program;
    bool used[SOFTGPU_MAX_DEVICES] = {false};
    for (uint64_t i = 0; i < build->record->count; i++) {
        const struct soft_record_entry *entry = &build->record->entries[i];
        if (!is_task(entry) || !build_in_window(build, entry))
            continue;
        used[entry->device] = true;
        if (entry->kind == SOFT_RECORD_TASK + SOFT_TASK_COPY && entry->mark >> 16)
            used[(entry->mark >> 16) - 1] = true;
        if (entry->kind == SOFT_RECORD_TASK + SOFT_TASK_COPY && (entry->mark & 0xffff))
            used[(entry->mark & 0xffff) - 1] = true;
    }
    program->ordinals = calloc(SOFTGPU_MAX_DEVICES, sizeof(*program->ordinals));
    program->peak_bytes = calloc(SOFTGPU_MAX_DEVICES, sizeof(*program->peak_bytes));
    if (!program->ordinals || !program->peak_bytes)
        return build_no_memory(build);
    for (int i = 0; i < SOFTGPU_MAX_DEVICES; i++)
        if (used[i])
            program->ordinals[program->devices++] = i;
    if (program->devices)
        return EXIT_OK;
    log_error("%s: no task was enqueued in the timed steps, expected at least 1", build->record->path);
    return EXIT_BAD_FILE;
}

static int device_index(const struct program *program, int ordinal)
{
    for (int i = 0; i < program->devices; i++)
        if (program->ordinals[i] == ordinal)
            return i;
    return HOST_SIDE;
}

static int compare_times(const void *a, const void *b)
{
    const struct soft_record_entry *x = *(const struct soft_record_entry *const *)a,
                                   *y = *(const struct soft_record_entry *const *)b;
    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

/* The most bytes that each device held at a time. */
static int add_up_memory(struct build *build)
{
    const struct record_file *record = build->record;
    struct program *program = build->program;
    const struct soft_record_entry **calls = malloc((record->count + 1) * sizeof(*calls));
    double held[SOFTGPU_MAX_DEVICES] = {0};
    size_t count = 0;
    if (!calls)
        return build_no_memory(build);
    for (uint64_t i = 0; i < record->count; i++) {
        const struct soft_record_entry *entry = &record->entries[i];
        if (entry->kind == SOFT_RECORD_HOST_CALL && entry->bytes > 0 && entry->device >= 0)
            calls[count++] = entry;
    }
    if (count)
        qsort(calls, count, sizeof(*calls), compare_times);
    for (size_t i = 0; i < count; i++) {
        int device = device_index(program, calls[i]->device);
        bool more = !strcmp(record_string(record, calls[i]->name), "cudaMalloc");
        if (device < 0)
            continue;
        held[device] += more ? calls[i]->bytes : -calls[i]->bytes;
        if (held[device] > program->peak_bytes[device])
            program->peak_bytes[device] = held[device];
    }
    free(calls);
    return EXIT_OK;
}

/* ---- streams -------------------------------------------------------------------------------------------------------
 */

struct task_list *build_stream(const struct build *build, int device_ordinal, int stream)
{
    struct program *program = build->program;
    for (int i = 0; i < program->stream_count; i++) {
        struct task_list *list = &program->streams[i];
        if (program->ordinals[list->device] == device_ordinal && list->recorded_stream == stream)
            return list;
    }
    return NULL;
}

static int compare_tasks(const void *a, const void *b)
{
    const struct soft_record_entry *x = *(const struct soft_record_entry *const *)a,
                                   *y = *(const struct soft_record_entry *const *)b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    if (x->stream != y->stream)
        return x->stream < y->stream ? -1 : 1;
    return (x->task > y->task) - (x->task < y->task);
}

static int phase_of(const struct record_file *record, uint32_t string)
{
    const char *text = record_string(record, string);
    int phase = 0;
    while (phase < PLAY_PHASES && strcmp(text, play_phase_names[phase]) != 0)
        phase++;
    return phase;
}

struct task *program_add_task(struct task_list *list)
{
    if (list->count == list->room) {
        uint32_t room = list->room ? 2 * list->room : 64;
        struct task *larger = realloc(list->tasks, room * sizeof(*larger));
        if (!larger)
            return NULL;
        list->tasks = larger;
        list->room = room;
    }
    list->tasks[list->count] = (struct task){.name = ""};
    return &list->tasks[list->count++];
}

static int add_task(struct build *build, struct task_list *list, const struct soft_record_entry *entry)
{
    const struct program *program = build->program;
    struct task *task = program_add_task(list);
    if (!task)
        return build_no_memory(build);
    *task = (struct task){.kind = (uint8_t)(entry->kind - SOFT_RECORD_TASK),
                          .range = (uint8_t)phase_of(build->record, entry->range),
                          .flops = entry->flops,
                          .bytes = entry->bytes,
                          .number = entry->mark,
                          .name = record_string(build->record, entry->name)};
    if (task->kind == TASK_PRODUCT)
        task->type = entry->mark < 256 ? (uint8_t)entry->mark : 0;
    if (task->kind == TASK_COPY) {
        task->from = (int16_t)device_index(program, (int)(entry->mark >> 16) - 1);
        task->to = (int16_t)device_index(program, (int)(entry->mark & 0xffff) - 1);
    }
    if (task->kind == TASK_EVENT || task->kind == TASK_EVENT_WAIT)
        task->number = build_find(build->marks, program->event_count, entry->mark);
    return EXIT_OK;
}

/* tasks[count] in order: a list for each stream, without gaps. */
static int add_streams(struct build *build, const struct soft_record_entry **tasks, size_t count)
{
    struct program *program = build->program;
    for (size_t i = 0; i < count; i++) {
        const struct soft_record_entry *entry = tasks[i], *before = i ? tasks[i - 1] : NULL;
        if (!before || before->device != entry->device || before->stream != entry->stream) {
            struct task_list *larger =
                realloc(program->streams, (size_t)(program->stream_count + 1) * sizeof(*program->streams));
            if (!larger)
                return build_no_memory(build);
            program->streams = larger;
            program->streams[program->stream_count++] = (struct task_list){
                .device = device_index(program, entry->device), .recorded_stream = entry->stream, .first = entry->task};
        } else if (entry->task != before->task + 1) {
            log_error("%s: device %d stream %d: task %" PRIu64 " follows task %" PRIu64 ", expected %" PRIu64,
                      build->record->path, entry->device, entry->stream, entry->task, before->task, before->task + 1);
            return EXIT_BAD_FILE;
        }
        int status = add_task(build, &program->streams[program->stream_count - 1], entry);
        if (status)
            return status;
    }
    return EXIT_OK;
}

static int collect_marks(struct build *build)
{
    const struct record_file *record = build->record;
    uint32_t count = 0;
    build->marks = malloc((record->count + 1) * sizeof(*build->marks));
    if (!build->marks)
        return build_no_memory(build);
    for (uint64_t i = 0; i < record->count; i++) {
        const struct soft_record_entry *entry = &record->entries[i];
        if (entry->kind == SOFT_RECORD_TASK + SOFT_TASK_EVENT_RECORD && build_in_window(build, entry))
            build->marks[count++] = entry->mark;
    }
    build->program->event_count = build_unique(build->marks, count);
    if (build->program->event_count == count)
        return EXIT_OK;
    log_error("%s: %u event records have %u different marks, expected one each", record->path, count,
              build->program->event_count);
    return EXIT_BAD_FILE;
}

static int collect_tasks(struct build *build)
{
    const struct record_file *record = build->record;
    const struct soft_record_entry **tasks = malloc((record->count + 1) * sizeof(*tasks));
    size_t count = 0;
    if (!tasks)
        return build_no_memory(build);
    for (uint64_t i = 0; i < record->count; i++)
        if (is_task(&record->entries[i]) && build_in_window(build, &record->entries[i]))
            tasks[count++] = &record->entries[i];
    if (count)
        qsort(tasks, count, sizeof(*tasks), compare_tasks);
    int status = add_streams(build, tasks, count);
    free(tasks);
    return status;
}

/* Notes of phases tie the event records that they name to the phase that ends there. */
static void mark_phases(struct build *build)
{
    for (uint64_t i = 0; i < build->record->count; i++) {
        const struct soft_record_entry *entry = &build->record->entries[i];
        if (!build_is_note(build->record, entry, "phase") || !build_in_window(build, entry))
            continue;
        struct task_list *list = build_stream(build, entry->device, entry->stream);
        if (!list || entry->task < list->first || entry->task - list->first >= list->count)
            continue;
        struct task *task = &list->tasks[entry->task - list->first];
        int phase = phase_of(build->record, entry->range);
        if (task->kind == TASK_EVENT)
            task->mark = (uint8_t)(phase == PLAY_PHASES ? MARK_BEGIN : MARK_PHASE + phase);
    }
}

/* ---- all of it -----------------------------------------------------------------------------------------------------
 */

const char *program_setting(const struct program *program, const char *name, const char *otherwise)
{
    const struct record_file *record = program->record;
    for (uint64_t i = 0; i < record->count; i++) {
        const struct soft_record_entry *entry = &record->entries[i];
        if (entry->kind == SOFT_RECORD_SETTING && !strcmp(record_string(record, entry->name), name))
            return record_string(record, entry->range);
    }
    return otherwise;
}

/* Rank and number of processes: settings, or (version 1) those of the largest communicator of one device's process. */
static void find_rank(struct program *program)
{
    program->rank = atoi(program_setting(program, "rank", "0"));
    program->ranks = atoi(program_setting(program, "ranks", "0"));
    if (program->ranks > 0)
        return;
    program->ranks = 1;
    for (uint32_t i = 0; i < program->collective_count && program->devices == 1; i++)
        if (program->collectives[i].ranks > program->ranks) {
            program->ranks = program->collectives[i].ranks;
            program->rank = program->collectives[i].rank;
        }
}

int program_build(struct program *program, struct record_file *record)
{
    *program = (struct program){.record = record, .path = record->path};
    struct build build = {.program = program, .record = record};
    int (*const parts[])(struct build *) = {build_check_end, collect_devices,   add_up_memory, collect_marks,
                                            collect_tasks,   build_collectives, build_threads};
    int status = EXIT_OK;
    find_window(&build);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && !status; i++)
        status = parts[i](&build);
    if (!status) {
        mark_phases(&build);
        find_rank(program);
    }
    free(build.marks);
    free(build.jobs);
    if (status)
        program_close(program);
    return status;
}

void program_close(struct program *program)
{
    for (int i = 0; i < program->stream_count; i++)
        free(program->streams[i].tasks);
    for (int i = 0; i < program->thread_count; i++)
        free(program->threads[i].operations);
    free(program->streams);
    free(program->threads);
    free(program->collectives);
    free(program->job_ends);
    free(program->ordinals);
    free(program->peak_bytes);
    *program = (struct program){0};
}
