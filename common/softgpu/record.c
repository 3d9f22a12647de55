/* SPDX-License-Identifier: MIT
 *
 * The record of a run: entries of one size, appended by each thread to chunks of its own (no lock, no system call in a
 * step), sorted by start and written whole at the end. docs/record.md describes the file.
 */
#include "record.h"

#include <stdlib.h>
#include <unistd.h>

#include "sys/checksum.h"
#include "sys/clock.h"
#include "sys/exit_codes.h"
#include "sys/file.h"
#include "sys/log.h"

_Static_assert(sizeof(struct soft_record_entry) == 80, "the file's entry");
_Static_assert(sizeof(struct soft_record_facts) == sizeof(struct soft_record_entry),
               "facts are entries of another reading");
_Static_assert(sizeof(struct soft_record_header) == 56, "the file's header");

#define CHUNK_ENTRIES 4096

union entry {
    struct soft_record_entry task;
    struct soft_record_facts facts;
};

struct chunk {
    struct chunk *next;
    uint32_t count;
    union entry entries[CHUNK_ENTRIES];
};

bool soft_record_on;

static const char *record_path;
static struct soft_lock chunks_lock;
static struct chunk *chunks; /* of all threads */
static uint64_t lost;        /* entries there was no memory for */
static uint32_t threads_seen, collectives_seen;

/* What the calling thread's recorded host call did so far. */
static _Thread_local struct {
    bool open;
    uint32_t name;
    int device; /* -1: no stream was concerned */
    uint32_t stream;
    uint64_t task, waited_ns;
    double bytes;
} call;
static _Thread_local struct chunk *own_chunk;
static _Thread_local uint32_t own_thread; /* 1, 2, ...; 0: not yet numbered */

void soft_record_open(const char *path)
{
    record_path = path;
    __atomic_store_n(&soft_record_on, true, __ATOMIC_RELEASE);
}

bool soft_recording(void)
{
    return __atomic_load_n(&soft_record_on, __ATOMIC_RELAXED);
}

static uint16_t thread_number(void)
{
    if (own_thread == 0)
        own_thread = __atomic_add_fetch(&threads_seen, 1, __ATOMIC_RELAXED);
    return (uint16_t)own_thread;
}

uint64_t soft_record_clock(void)
{
    static _Thread_local uint64_t last_ns;
    uint64_t now_ns = clock_nanoseconds();
    last_ns = now_ns > last_ns ? now_ns : last_ns + 1;
    return last_ns;
}

static void append(const union entry *entry)
{
    if (!own_chunk || own_chunk->count == CHUNK_ENTRIES) {
        struct chunk *fresh = hidden_alloc(sizeof(*fresh));
        if (!fresh) {
            __atomic_add_fetch(&lost, 1, __ATOMIC_RELAXED);
            return;
        }
        soft_lock(&chunks_lock, NULL);
        fresh->next = chunks;
        chunks = fresh;
        soft_unlock(&chunks_lock);
        own_chunk = fresh;
    }
    own_chunk->entries[own_chunk->count] = *entry;
    __atomic_store_n(&own_chunk->count, own_chunk->count + 1, __ATOMIC_RELEASE);
}

/* ---- the host's side ------------------------------------------------------------------------- */

struct soft_host_call soft_host_call_begin(const char *name)
{
    struct soft_host_call begun = {NULL, 0};
    if (!soft_recording() || call.open)
        return begun;
    call.open = true;
    call.name = soft_intern(name);
    call.device = -1;
    call.stream = 0;
    call.task = call.waited_ns = 0;
    call.bytes = 0;
    begun.name = name;
    begun.start_ns = soft_record_clock();
    return begun;
}

void soft_host_call_end(struct soft_host_call *begun)
{
    if (!begun->name)
        return;
    call.open = false;
    struct soft_record_entry entry = {
        .kind = SOFT_RECORD_HOST_CALL,
        .thread = thread_number(),
        .device = (int16_t)(call.device >= 0 ? call.device : soft_current_ordinal()),
        .stream = (uint16_t)call.stream,
        .name = call.name,
        .range = soft_range_current(),
        .task = call.task,
        .start_ns = begun->start_ns,
        .end_ns = soft_record_clock(),
        .bytes = call.bytes,
        .waited_ns = call.waited_ns,
    };
    append(&(union entry){.task = entry});
}

void soft_record_enqueued(softStream_t stream, uint64_t task, struct soft_slot *slot)
{
    slot->enqueued_ns = soft_record_clock();
    slot->host_thread = thread_number();
    call.device = stream->device->map.ordinal;
    call.stream = stream->number;
    call.task = task;
}

void soft_record_waited(softStream_t stream, uint64_t task, uint32_t mark, uint64_t start_ns)
{
    uint64_t end_ns = soft_record_clock();
    struct soft_record_entry entry = {
        .kind = SOFT_RECORD_HOST_WAIT,
        .thread = thread_number(),
        .device = (int16_t)(stream ? stream->device->map.ordinal : -1),
        .stream = (uint16_t)(stream ? stream->number : 0),
        .name = call.open ? call.name : 0,
        .range = soft_range_current(),
        .task = task,
        .start_ns = start_ns,
        .end_ns = end_ns,
        .mark = mark,
    };
    append(&(union entry){.task = entry});
    call.waited_ns += end_ns - start_ns;
}

void soft_record_lock_wait(const char *name, uint64_t start_ns)
{
    if (!soft_recording())
        return;
    struct soft_record_entry entry = {
        .kind = SOFT_RECORD_LOCK_WAIT,
        .thread = thread_number(),
        .device = -1,
        .name = soft_intern(name),
        .start_ns = start_ns,
        .end_ns = soft_record_clock(),
    };
    append(&(union entry){.task = entry});
}

void soft_record_bytes(double bytes)
{
    call.bytes = bytes;
}

static void append_words(int kind, const char *name, const char *text, uint32_t number)
{
    uint64_t now = soft_record_clock();
    struct soft_record_entry entry = {
        .kind = (uint16_t)kind,
        .thread = thread_number(),
        .device = (int16_t)(call.stream ? call.device : -1),
        .stream = (uint16_t)call.stream,
        .name = soft_intern(name),
        .range = soft_intern(text),
        .task = call.task,
        .start_ns = now,
        .end_ns = now,
        .mark = number,
    };
    append(&(union entry){.task = entry});
}

void softRecordNote(const char *what, const char *text, uint32_t number)
{
    if (soft_recording())
        append_words(SOFT_RECORD_NOTE, what, text, number);
}

void softRecordSetting(const char *name, const char *value)
{
    if (soft_recording())
        append_words(SOFT_RECORD_SETTING, name, value, 0);
}

uint32_t soft_record_collective(const struct soft_collective_facts *facts)
{
    if (!soft_recording())
        return 0;
    struct soft_record_facts entry = {
        .kind = SOFT_RECORD_FACTS,
        .rank = (uint16_t)facts->rank,
        .root = (int16_t)facts->root,
        .ranks = (uint16_t)facts->ranks,
        .name = soft_intern(facts->operation),
        .number = __atomic_add_fetch(&collectives_seen, 1, __ATOMIC_RELAXED),
        .communicator = facts->communicator,
        .sequence = facts->sequence,
        .count = facts->count,
        .type = (uint32_t)facts->type,
        .reduce_op = (uint32_t)facts->reduce_op,
    };
    append(&(union entry){.facts = entry});
    return entry.number;
}

/* ---- the streams' side ----------------------------------------------------------------------- */

void soft_record_task(softStream_t stream, uint64_t number, const struct soft_slot *slot, uint64_t start_ns)
{
    struct soft_record_entry entry = {
        .kind = (uint16_t)(SOFT_RECORD_TASK + slot->what.kind),
        .thread = (uint16_t)slot->host_thread,
        .device = (int16_t)stream->device->map.ordinal,
        .stream = (uint16_t)stream->number,
        .name = soft_intern(slot->what.name),
        .range = slot->what.range,
        .task = number,
        .start_ns = start_ns,
        .end_ns = clock_nanoseconds(),
        .enqueued_ns = slot->enqueued_ns,
        .flops = slot->what.flops,
        .bytes = slot->what.bytes,
        .mark = slot->what.detail,
    };
    append(&(union entry){.task = entry});
}

/* ---- writing --------------------------------------------------------------------------------- */

static uint64_t start_of(const union entry *entry)
{
    return entry->task.kind == SOFT_RECORD_FACTS ? 0 : entry->task.start_ns; /* facts first */
}

static int compare(const void *a, const void *b)
{
    uint64_t first = start_of(a), second = start_of(b);
    return (first > second) - (first < second);
}

/* Offset of the entries behind the strings; strings are written if `out` is given. */
static size_t write_strings(char *out, uint64_t *count)
{
    size_t used = 0;
    *count = soft_intern_count();
    for (uint32_t i = 0; i < *count; i++) {
        const char *text = soft_range_name(i);
        size_t length = 0;
        while (text[length])
            length++;
        if (out)
            hidden_copy(out + used, text, length + 1);
        used += length + 1;
    }
    return (used + 7) / 8 * 8;
}

static size_t count_entries(void)
{
    size_t count = 0;
    for (const struct chunk *chunk = chunks; chunk; chunk = chunk->next)
        count += __atomic_load_n(&chunk->count, __ATOMIC_ACQUIRE);
    return count;
}

static void collect(union entry *out, size_t room)
{
    for (const struct chunk *chunk = chunks; chunk; chunk = chunk->next) {
        size_t count = __atomic_load_n(&chunk->count, __ATOMIC_ACQUIRE);
        count = count < room ? count : room;
        hidden_copy(out, chunk->entries, count * sizeof(*out));
        out += count;
        room -= count;
    }
}

softError_t softRecordFinish(void)
{
    if (!soft_recording())
        return softSuccess;
    __atomic_store_n(&soft_record_on, false, __ATOMIC_RELAXED);
    struct soft_record_header header = {.version = SOFT_RECORD_VERSION, .entry_bytes = sizeof(union entry), .pid = (uint32_t)getpid()};
    hidden_copy(header.magic, SOFT_RECORD_MAGIC, sizeof(header.magic));
    header.flags = soft_settings()->shape_only ? 1 : 0;
    header.string_bytes = write_strings(NULL, &header.string_count);
    header.entry_count = count_entries();
    size_t bytes = sizeof(header) + header.string_bytes + header.entry_count * sizeof(union entry);
    char *file = hidden_alloc(bytes);
    if (!file || lost)
        return soft_fail(softErrorMemoryAllocation, "%s: no memory for the record: %zu bytes, %zu entries are lost",
                         record_path, bytes, (size_t)lost);
    write_strings(file + sizeof(header), &header.string_count);
    union entry *entries = (union entry *)(void *)(file + sizeof(header) + header.string_bytes);
    collect(entries, header.entry_count);
    qsort(entries, header.entry_count, sizeof(*entries), compare);
    header.checksum = checksum(CHECKSUM_SEED, file + sizeof(header), bytes - sizeof(header));
    hidden_copy(file, &header, sizeof(header));
    int failed = file_write_atomic(record_path, file, bytes);
    hidden_free(file);
    return failed ? soft_fail(softErrorUnknown, "%s: the record can't be written", record_path) : softSuccess;
}
