/* SPDX-License-Identifier: MIT
 *
 * rework SEED FILE OUT [TIMES]: a record as another run of the same command might have written it. What a run may
 * change is drawn anew: the numbers of DP's threads, of events, of collectives, of communicators and of strings; how
 * long everything took; and how the calls of DP's threads lie between each other while a job runs. What it may not
 * change stays: each thread's calls in their order, what it enqueued, and what it waited for. With TIMES the host
 * threads' times are not drawn: that run was so many times as slow.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record_file.h"
#include "sys/checksum.h"
#include "sys/exit_codes.h"
#include "sys/file.h"
#include "sys/log.h"
#include "sys/random.h"

#define STRETCH 64 /* mean of the new nanoseconds for an old one: room for each thread's calls inside a job */

static uint64_t seed, draws;

static uint32_t draw(void)
{
    return random_u32(seed, 5, draws++);
}

static void *take(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (!memory) {
        log_error("no memory for %zu bytes", bytes);
        exit(EXIT_RESOURCE);
    }
    return memory;
}

static void shuffle(uint32_t *values, uint32_t count)
{
    for (uint32_t i = count; i > 1; i--) {
        uint32_t other = draw() % i, kept = values[i - 1];
        values[i - 1] = values[other];
        values[other] = kept;
    }
}

/* A permutation of first .. last that leaves what is before `first` where it is. */
static uint32_t *permutation(uint32_t first, uint32_t last)
{
    uint32_t *to = take(((size_t)last + 1) * sizeof(*to));
    for (uint32_t i = 0; i <= last; i++)
        to[i] = i;
    shuffle(to + first, last + 1 - first);
    return to;
}

/* ---- times
 * -----------------------------------------------------------------------------------------------------------
 */

struct moment { /* one time of a host thread */
    uint64_t *at;
    uint32_t thread, job; /* job: that the thread works at; 0: none */
};

static struct moment *moments;
static size_t moment_count;

static int compare_moments(const void *a, const void *b)
{
    const struct moment *x = a, *y = b;
    if (x->thread != y->thread)
        return x->thread < y->thread ? -1 : 1;
    return (*x->at > *y->at) - (*x->at < *y->at);
}

static int compare_numbers(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static const char *name_of(const struct record_file *record, const struct soft_record_entry *entry)
{
    return entry->kind == SOFT_RECORD_NOTE ? record_string(record, entry->name) : "";
}

static void collect_moments(const struct record_file *record, struct soft_record_entry *entries)
{
    moments = take((3 * (size_t)record->count + 1) * sizeof(*moments));
    for (uint64_t i = 0; i < record->count; i++) {
        struct soft_record_entry *entry = &entries[i];
        if (entry->kind == SOFT_RECORD_FACTS)
            continue;
        bool task = entry->kind >= SOFT_RECORD_TASK;
        moments[moment_count++] =
            (struct moment){.at = task ? &entry->enqueued_ns : &entry->start_ns, .thread = entry->thread};
        if (!task && entry->end_ns > entry->start_ns)
            moments[moment_count++] = (struct moment){.at = &entry->end_ns, .thread = entry->thread};
    }
    qsort(moments, moment_count, sizeof(*moments), compare_moments);
}

/* Which moments lie in which job of their thread. */
static void find_jobs(const struct record_file *record, const struct soft_record_entry *entries)
{
    uint32_t job = 0;
    for (size_t i = 0; i < moment_count; i++) {
        const char *bytes = (const char *)moments[i].at;
        uint64_t index = (uint64_t)(bytes - (const char *)entries) / sizeof(*entries);
        const char *name = name_of(record, &entries[index]);
        if (i == 0 || moments[i].thread != moments[i - 1].thread)
            job = 0;
        if (!strcmp(name, "job_begin"))
            job = entries[index].mark;
        moments[i].job = job;
        if (!strcmp(name, "job_end"))
            job = 0;
    }
}

/* Old time to new time, the same for all threads: rising steps between the moments of all of them. */
static void stretch(void)
{
    uint64_t now = 1000, before = 0;
    uint64_t *old = take((moment_count + 1) * sizeof(*old)), *new = take((moment_count + 1) * sizeof(*new));
    for (size_t i = 0; i < moment_count; i++)
        old[i] = *moments[i].at;
    qsort(old, moment_count, sizeof(*old), compare_numbers);
    for (size_t i = 0; i < moment_count; i++) {
        now += i && old[i] == before ? 0 : STRETCH + draw() % (STRETCH * 10);
        before = old[i];
        new[i] = now;
    }
    for (size_t i = 0; i < moment_count; i++) {
        const uint64_t *found = bsearch(moments[i].at, old, moment_count, sizeof(*old), compare_numbers);
        *moments[i].at = new[found - old];
    }
    free(old);
    free(new);
}

static void slow_down(struct soft_record_entry *entries, uint64_t count, uint64_t times)
{
    for (uint64_t i = 0; i < count; i++) {
        struct soft_record_entry *entry = &entries[i];
        if (entry->kind == SOFT_RECORD_FACTS)
            continue;
        entry->start_ns *= times;
        entry->end_ns *= times;
        entry->enqueued_ns *= times;
    }
}

/* From job_give to job_join of the main thread. */
static void bounds_of(const struct record_file *record, const struct soft_record_entry *entries, uint32_t job,
                      uint64_t bounds[2])
{
    for (uint64_t i = 0; i < record->count; i++) {
        if (entries[i].kind != SOFT_RECORD_NOTE || entries[i].mark != job)
            continue;
        if (!strcmp(name_of(record, &entries[i]), "job_give"))
            bounds[0] = entries[i].start_ns;
        if (!strcmp(name_of(record, &entries[i]), "job_join"))
            bounds[1] = entries[i].start_ns;
    }
}

/* The moments of one thread in one job: other ones in their order, anywhere between give and join. */
static void scatter_job(struct moment *first, size_t count, const uint64_t bounds[2])
{
    uint64_t *drawn = take(count * sizeof(*drawn)), room = bounds[1] - bounds[0] - 1;
    for (size_t i = 0; i < count; i++)
        drawn[i] = ((uint64_t)draw() << 20 | draw() >> 12) % (room - count);
    qsort(drawn, count, sizeof(*drawn), compare_numbers);
    for (size_t i = 0; i < count; i++)
        *first[i].at = bounds[0] + 1 + drawn[i] + i;
    free(drawn);
}

static void scatter_jobs(const struct record_file *record, const struct soft_record_entry *entries)
{
    for (size_t first = 0, next; first < moment_count; first = next) {
        for (next = first; next < moment_count && moments[next].thread == moments[first].thread &&
                           moments[next].job == moments[first].job;
             next++)
            ;
        uint64_t bounds[2] = {0, 0};
        if (!moments[first].job)
            continue;
        bounds_of(record, entries, moments[first].job, bounds);
        if (bounds[1] < bounds[0] + 2 * (next - first) + 2) {
            log_error("job %" PRIu32 ": %zu times of thread %" PRIu32 " have no room in it", moments[first].job,
                      next - first, moments[first].thread);
            exit(EXIT_CHECK_FAILED);
        }
        scatter_job(&moments[first], next - first, bounds);
    }
}

/* ---- numbers
 * ---------------------------------------------------------------------------------------------------------
 */

static bool has_event(const struct soft_record_entry *entry)
{
    return entry->kind == SOFT_RECORD_HOST_WAIT || entry->kind == SOFT_RECORD_TASK + SOFT_TASK_EVENT_RECORD ||
           entry->kind == SOFT_RECORD_TASK + SOFT_TASK_EVENT_WAIT;
}

static void renumber(struct soft_record_entry *entries, uint64_t count, uint32_t main_thread)
{
    uint32_t threads = 0, marks = 0, facts = 0;
    for (uint64_t i = 0; i < count; i++) {
        const struct soft_record_entry *entry = &entries[i];
        if (entry->kind == SOFT_RECORD_FACTS)
            facts = record_facts(entry)->number > facts ? record_facts(entry)->number : facts;
        else
            threads = entry->thread > threads ? entry->thread : threads;
        if (has_event(entry))
            marks = entry->mark > marks ? entry->mark : marks;
    }
    uint32_t *thread = permutation(main_thread + 1, threads), *mark = permutation(1, marks),
             *fact = permutation(0, facts);
    for (uint64_t i = 0; i < count; i++) {
        struct soft_record_entry *entry = &entries[i];
        struct soft_record_facts *collective = (struct soft_record_facts *)(void *)entry;
        if (entry->kind == SOFT_RECORD_FACTS) {
            collective->number = fact[collective->number];
            collective->communicator = checksum(seed + 1, &collective->communicator, sizeof(collective->communicator));
            continue;
        }
        entry->thread = (uint16_t)thread[entry->thread];
        if (has_event(entry))
            entry->mark = mark[entry->mark];
        if (entry->kind == SOFT_RECORD_TASK + SOFT_TASK_COLLECTIVE)
            entry->mark = fact[entry->mark];
    }
    free(thread);
    free(mark);
    free(fact);
}

/* When tasks ran, and how long threads waited: anything. */
static void redraw_runs(struct soft_record_entry *entries, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        struct soft_record_entry *entry = &entries[i];
        if (entry->kind < SOFT_RECORD_TASK)
            continue;
        entry->start_ns = entry->enqueued_ns + draw() % 100000;
        entry->end_ns = entry->start_ns + draw() % 100000;
    }
}

/* The strings in another order; 0 stays. */
static void reorder_strings(const struct record_file *record, char *text, struct soft_record_entry *entries)
{
    uint32_t count = (uint32_t)record->header->string_count, *to = permutation(1, count - 1);
    uint32_t *from = take(count * sizeof(*from));
    memset(text, 0, (size_t)record->header->string_bytes);
    for (uint32_t i = 0; i < count; i++)
        from[to[i]] = i;
    for (uint32_t i = 0; i < count; i++) {
        size_t length = strlen(record_string(record, from[i])) + 1;
        memcpy(text, record_string(record, from[i]), length);
        text += length;
    }
    for (uint64_t i = 0; i < record->count; i++) {
        entries[i].name = to[entries[i].name];
        if (entries[i].kind != SOFT_RECORD_FACTS)
            entries[i].range = to[entries[i].range];
    }
    free(to);
    free(from);
}

/* ---- the file
 * --------------------------------------------------------------------------------------------------------
 */

static uint64_t start_of(const struct soft_record_entry *entry)
{
    return entry->kind == SOFT_RECORD_FACTS ? 0 : entry->start_ns;
}

static int compare_starts(const void *a, const void *b)
{
    uint64_t x = start_of(a), y = start_of(b);
    return (x > y) - (x < y);
}

static uint32_t main_thread_of(const struct record_file *record)
{
    for (uint64_t i = 0; i < record->count; i++)
        if (!strcmp(name_of(record, &record->entries[i]), "step_begin"))
            return record->entries[i].thread;
    log_error("%s: no step begins, expected at least 1", record->path);
    exit(EXIT_BAD_FILE);
}

static void rework(const struct record_file *record, struct soft_record_header *header, uint64_t times)
{
    char *text = (char *)(header + 1);
    struct soft_record_entry *entries = (void *)(text + header->string_bytes);
    if (times) {
        slow_down(entries, record->count, times);
    } else {
        collect_moments(record, entries);
        find_jobs(record, entries);
        stretch();
        scatter_jobs(record, entries);
    }
    redraw_runs(entries, record->count);
    renumber(entries, record->count, main_thread_of(record));
    reorder_strings(record, text, entries);
    qsort(entries, (size_t)record->count, sizeof(*entries), compare_starts);
    header->pid = draw();
}

int main(int argc, char **argv)
{
    struct record_file record;
    void *data = NULL;
    size_t bytes = 0;
    log_set_program("rework");
    if (argc < 4 || argc > 5)
        return EXIT_USAGE;
    seed = strtoull(argv[1], NULL, 10);
    int status = record_load(&record, argv[2]);
    status = status ? status : file_read(argv[2], (size_t)1 << 30, &data, &bytes);
    if (status)
        return status;
    struct soft_record_header *header = data;
    rework(&record, header, argc > 4 ? strtoull(argv[4], NULL, 10) : 0);
    header->checksum = checksum(CHECKSUM_SEED, header + 1, bytes - sizeof(*header));
    status = file_write_atomic(argv[3], data, bytes);
    record_close(&record);
    free(moments);
    free(data);
    return status;
}
