/* SPDX-License-Identifier: MIT
 *
 * The record of a run, read back as docs/record.md says.
 */
#include "play.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#include "softgpu/record.h"
#include "sys/checksum.h"
#include "sys/clock.h"
#include "sys/file.h"

static char folder[] = "/tmp/test_record.XXXXXX";
static char path[64];

struct record {
    void *data;
    const struct soft_record_header *header;
    const char *names[256];
    const struct soft_record_entry *entries;
};

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/record", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static struct record read_record(void)
{
    struct record record = {0};
    size_t bytes;
    assert_int_equal(file_read(path, 1u << 24, &record.data, &bytes), 0);
    assert_true(bytes >= sizeof(*record.header));
    record.header = record.data;
    const struct soft_record_header *header = record.header;
    assert_memory_equal(header->magic, SOFT_RECORD_MAGIC, 8);
    assert_int_equal(header->version, SOFT_RECORD_VERSION);
    assert_int_equal(header->entry_bytes, sizeof(*record.entries));
    assert_int_equal(bytes, sizeof(*header) + header->string_bytes + header->entry_count * header->entry_bytes);
    assert_true(header->checksum == checksum(CHECKSUM_SEED, header + 1, bytes - sizeof(*header)));
    const char *text = (const char *)(header + 1);
    assert_true(header->string_count < 256);
    for (uint64_t i = 0; i < header->string_count; i++, text += strlen(text) + 1)
        record.names[i] = text;
    record.entries = (const void *)((const char *)(header + 1) + header->string_bytes);
    return record;
}

/* The only (or, of several, the last) entry of this kind and name; fails if there is none. */
static const struct soft_record_entry *find(const struct record *record, int kind, const char *name)
{
    const struct soft_record_entry *found = NULL;
    for (uint64_t i = 0; i < record->header->entry_count; i++) {
        const struct soft_record_entry *entry = &record->entries[i];
        if (entry->kind == kind && !strcmp(record->names[entry->name], name))
            found = entry;
    }
    if (!found)
        fail_msg("no entry of kind %d named %s", kind, name);
    return found;
}

/* ---- a run ----------------------------------------------------------------------------------- */

static struct soft_lock held;

static void *wait_for_lock(void *unused)
{
    soft_lock(&held, "test lock");
    soft_unlock(&held);
    return unused;
}

static void wait_for_a_held_lock(void)
{
    pthread_t thread;
    soft_lock(&held, "test lock");
    EXPECT(!pthread_create(&thread, NULL, wait_for_lock, NULL));
    clock_sleep(0.02);
    soft_unlock(&held);
    pthread_join(thread, NULL);
}

static void nothing(softStream_t stream, const struct soft_what *what, void *arguments)
{
    (void)stream;
    (void)what;
    (void)arguments;
}

static void run_and_record(void)
{
    softStream_t stream = new_stream(0), other = new_stream(1);
    char *memory = new_memory(0, 1000), *peer = new_memory(1, 1000), *host = new_pinned(1000);
    softEvent_t event;
    EXPECT_OK(softSetDevice(0));
    EXPECT_OK(softEventCreateWithFlags(&event, softEventDefault));
    EXPECT(softRangePush("forward") == 0);
    EXPECT_OK(softMemsetAsync(memory, 0, 1000, stream));
    EXPECT_OK(launch_on(stream, add_one, memory, 4, 1));
    EXPECT(softRangePop() == 0);
    EXPECT_OK(softEventRecord(event, stream));
    softRecordNote("phase", "forward", 7);
    softRecordSetting("model", "mlp");
    EXPECT_OK(softStreamWaitEvent(other, event, 0));
    EXPECT_OK(softMemcpyPeerAsync(peer, 1, memory, 0, 700, other));
    EXPECT_OK(softMemcpyAsync(host, peer, 600, softMemcpyDeviceToHost, other));
    EXPECT_OK(softEventSynchronize(event));
    struct soft_collective_facts facts = {.communicator = 0xabcdef,
                                          .sequence = 41,
                                          .operation = "all_reduce",
                                          .count = 1024,
                                          .type = softNcclFloat32,
                                          .reduce_op = softNcclMax,
                                          .root = 3,
                                          .rank = 1,
                                          .ranks = 4};
    struct soft_what what = {
        .kind = SOFT_TASK_COLLECTIVE, .name = "all_reduce", .bytes = 4096, .detail = soft_record_collective(&facts)};
    EXPECT_OK(soft_enqueue(stream, &what, nothing, NULL, 0));
    EXPECT_OK(softStreamSynchronize(stream));
    EXPECT_OK(softStreamSynchronize(other));
    wait_for_a_held_lock();
    EXPECT_OK(softStreamDestroy(other));
    EXPECT_OK(softRecordFinish());
}

static void check_tasks(const struct record *record)
{
    const struct soft_record_entry *launch = find(record, SOFT_RECORD_TASK + SOFT_TASK_LAUNCH, "test_kernel");
    assert_string_equal(record->names[launch->range], "forward");
    assert_true(launch->flops == 2 && launch->bytes == 8);
    assert_int_equal(launch->device, 0);
    assert_int_equal(launch->stream, 1);
    assert_int_equal(launch->task, 1); /* behind the memset */
    assert_true(launch->enqueued_ns <= launch->start_ns && launch->start_ns <= launch->end_ns);
    const struct soft_record_entry *fill = find(record, SOFT_RECORD_TASK + SOFT_TASK_MEMSET, "memset");
    assert_int_equal(fill->task, 0);
    assert_true(fill->end_ns <= launch->start_ns);
    const struct soft_record_entry *copy = find(record, SOFT_RECORD_TASK + SOFT_TASK_COPY, "copy_peer");
    assert_int_equal(copy->mark >> 16, 0 + 1);
    assert_int_equal(copy->mark & 0xffff, 1 + 1);
    assert_true(copy->bytes == 700);
    assert_string_equal(record->names[copy->range], "");
    const struct soft_record_entry *down = find(record, SOFT_RECORD_TASK + SOFT_TASK_COPY, "copy_device_to_host");
    assert_int_equal(down->mark, (1 + 1) << 16 | 0);
}

static void check_dependencies(const struct record *record)
{
    const struct soft_record_entry *made = find(record, SOFT_RECORD_TASK + SOFT_TASK_EVENT_RECORD, "event_record");
    const struct soft_record_entry *wait = find(record, SOFT_RECORD_TASK + SOFT_TASK_EVENT_WAIT, "event_wait");
    const struct soft_record_entry *on_host = find(record, SOFT_RECORD_HOST_WAIT, "cudaEventSynchronize");
    assert_true(made->mark != 0);
    assert_int_equal(wait->mark, made->mark);
    assert_int_equal(on_host->mark, made->mark);
    assert_int_equal(wait->device, 1);
    const struct soft_record_entry *drain = find(record, SOFT_RECORD_HOST_WAIT, "cudaStreamSynchronize");
    assert_int_equal(drain->device, 1);
    assert_int_equal(drain->stream, 1);
    assert_int_equal(drain->task, 3); /* three tasks: wait, peer copy, copy to the host */
    const struct soft_record_entry *call = find(record, SOFT_RECORD_HOST_CALL, "cudaStreamSynchronize");
    assert_true(call->start_ns <= drain->start_ns && drain->end_ns <= call->end_ns);
    assert_true(call->waited_ns == drain->end_ns - drain->start_ns);
}

static void check_host(const struct record *record)
{
    const struct soft_record_entry *call = find(record, SOFT_RECORD_HOST_CALL, "cudaLaunchKernel");
    const struct soft_record_entry *launch = find(record, SOFT_RECORD_TASK + SOFT_TASK_LAUNCH, "test_kernel");
    assert_int_equal(call->device, launch->device);
    assert_int_equal(call->stream, launch->stream);
    assert_int_equal(call->task, launch->task);
    assert_int_equal(call->thread, launch->thread);
    assert_true(call->start_ns <= launch->enqueued_ns && launch->enqueued_ns <= call->end_ns);
    assert_string_equal(record->names[call->range], "forward");
    find(record, SOFT_RECORD_HOST_CALL, "cudaMalloc");
    const struct soft_record_entry *lock = find(record, SOFT_RECORD_LOCK_WAIT, "test lock");
    assert_true(lock->end_ns > lock->start_ns);
    assert_true(lock->thread != call->thread);
}

static void check_words(const struct record *record)
{
    const struct soft_record_entry *note = find(record, SOFT_RECORD_NOTE, "phase");
    const struct soft_record_entry *made = find(record, SOFT_RECORD_TASK + SOFT_TASK_EVENT_RECORD, "event_record");
    assert_string_equal(record->names[note->range], "forward");
    assert_int_equal(note->mark, 7);
    assert_int_equal(note->device, made->device);
    assert_int_equal(note->stream, made->stream);
    assert_int_equal(note->task, made->task);
    assert_int_equal(note->thread, made->thread);
    assert_string_equal(record->names[find(record, SOFT_RECORD_SETTING, "model")->range], "mlp");
    assert_true(find(record, SOFT_RECORD_HOST_CALL, "cudaMalloc")->bytes == 1000);
}

static void check_collective(const struct record *record)
{
    const struct soft_record_facts *facts = (const void *)find(record, SOFT_RECORD_FACTS, "all_reduce");
    const struct soft_record_entry *task = find(record, SOFT_RECORD_TASK + SOFT_TASK_COLLECTIVE, "all_reduce");
    assert_int_equal(task->mark, facts->number);
    assert_true(facts->communicator == 0xabcdef && facts->sequence == 41 && facts->count == 1024);
    assert_int_equal(facts->type, softNcclFloat32);
    assert_int_equal(facts->reduce_op, softNcclMax);
    assert_true(facts->root == 3 && facts->rank == 1 && facts->ranks == 4);
}

static void a_record_is_complete(void **state)
{
    (void)state;
    play(run_and_record, &(struct scene){.settings.record_path = path});
    struct record record = read_record();
    assert_int_equal(record.header->flags, 0);
    check_tasks(&record);
    check_dependencies(&record);
    check_host(&record);
    check_words(&record);
    check_collective(&record);
    for (uint64_t i = 1; i < record.header->entry_count; i++) {
        const struct soft_record_entry *entry = &record.entries[i];
        assert_true(entry->kind == SOFT_RECORD_FACTS || entry[-1].kind == SOFT_RECORD_FACTS ||
                    entry[-1].start_ns <= entry->start_ns);
    }
    free(record.data);
}

static void a_record_of_shapes_is_as_complete(void **state)
{
    (void)state;
    play(run_and_record, &(struct scene){.settings = {.record_path = path, .shape_only = true}});
    struct record record = read_record();
    assert_int_equal(record.header->flags, 1);
    check_tasks(&record);
    check_dependencies(&record);
    check_host(&record);
    check_words(&record);
    check_collective(&record);
    free(record.data);
}

/* ---- many threads ---------------------------------------------------------------------------- */

enum { THREADS = 4, LAUNCHES = 3000 };
static softStream_t shared_stream;
static void *shared_memory;

static void *launch_many(void *unused)
{
    EXPECT_OK(softSetDevice(0));
    for (int i = 0; i < LAUNCHES; i++)
        EXPECT_OK(launch_on(shared_stream, add_one, shared_memory, 4, 1));
    return unused;
}

static void record_many_threads(void)
{
    pthread_t threads[THREADS];
    shared_stream = new_stream(0);
    shared_memory = new_memory(0, 4);
    for (int i = 0; i < THREADS; i++)
        EXPECT(!pthread_create(&threads[i], NULL, launch_many, NULL));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    EXPECT_OK(softDeviceSynchronize());
    EXPECT_OK(softRecordFinish());
}

/* More entries than a chunk holds, from threads that contend for one stream: none is lost, tasks are numbered through.
 */
static void no_entry_is_lost(void **state)
{
    (void)state;
    play(record_many_threads, &(struct scene){.settings.record_path = path});
    struct record record = read_record();
    uint64_t tasks = 0, calls = 0, sum = 0;
    for (uint64_t i = 0; i < record.header->entry_count; i++) {
        const struct soft_record_entry *entry = &record.entries[i];
        if (entry->kind == SOFT_RECORD_TASK + SOFT_TASK_LAUNCH) {
            tasks++;
            sum += entry->task;
        }
        calls += entry->kind == SOFT_RECORD_HOST_CALL && !strcmp(record.names[entry->name], "cudaLaunchKernel");
    }
    assert_int_equal(tasks, THREADS * LAUNCHES);
    assert_int_equal(calls, THREADS * LAUNCHES);
    assert_true(sum == tasks * (tasks - 1) / 2);
    free(record.data);
}

static void finish_in_no_folder(void)
{
    new_stream(0);
    EXPECT_FAILS(softRecordFinish(), softErrorUnknown, "can't be written");
}

static void a_record_that_cannot_be_written_is_an_error(void **state)
{
    (void)state;
    play(finish_in_no_folder, &(struct scene){.settings.record_path = "/no/such/folder/record"});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_record_is_complete),
        cmocka_unit_test(a_record_of_shapes_is_as_complete),
        cmocka_unit_test(no_entry_is_lost),
        cmocka_unit_test(a_record_that_cannot_be_written_is_an_error),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
