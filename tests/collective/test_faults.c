/* SPDX-License-Identifier: MIT
 *
 * Faults: abort, the time limit with the late rank's name, ranks killed.
 */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "softgpu/node_wire.h"
#include "stage.h"
#include "sys/random.h"

/* ---- abort and the time limit ------------------------------------------------------------------------------------ */

/* All but rank 1 wait in an all-reduce until rank 1, some time later, aborts. */
static int body_abort(struct rank *rank)
{
    softNcclResult_t error = softNcclSuccess;
    void *buffer;
    NEED_SOFT(softMalloc(&buffer, 4096));
    if (rank->rank == 1) {
        mark_await(&rank->marks[0], (uint32_t)rank->ranks - 1);
        usleep(20000);
        NEED_NCCL(softNcclCommAbort(rank->comm));
        rank->comm = NULL;
        NEED_SOFT(softStreamSynchronize(rank->stream));
        return 0;
    }
    NEED_NCCL(softNcclAllReduce(buffer, buffer, 1024, softNcclFloat32, softNcclSum, rank->comm, rank->stream));
    mark_add(&rank->marks[0], 1);
    NEED(softStreamSynchronize(rank->stream) != softSuccess);
    NEED_NCCL(softNcclCommGetAsyncError(rank->comm, &error));
    NEED(error == softNcclRemoteError);
    NEED(!strcmp(softNcclGetLastError(rank->comm), "rank 1 aborted the communicator"));
    return 0;
}

/* A rank aborts what it waits in itself: its device stays usable. */
static int body_abort_own(struct rank *rank)
{
    void *buffer;
    NEED_SOFT(softMalloc(&buffer, 4096));
    if (rank->rank == 0) {
        NEED_NCCL(softNcclAllReduce(buffer, buffer, 1024, softNcclFloat32, softNcclSum, rank->comm, rank->stream));
        NEED_NCCL(softNcclCommAbort(rank->comm));
        rank->comm = NULL;
        NEED_SOFT(softStreamSynchronize(rank->stream));
        NEED_SOFT(softMemsetAsync(buffer, 0, 4096, rank->stream));
        NEED_SOFT(softStreamSynchronize(rank->stream));
    }
    return 0;
}

static int expect_bytes(struct rank *rank, const void *buffer, unsigned char value)
{
    unsigned char byte[64];
    if (download(rank, byte, buffer, sizeof(byte)))
        return 1;
    for (size_t i = 0; i < sizeof(byte); i++)
        NEED(byte[i] == value);
    return 0;
}

/* What was enqueued behind a collective before it was aborted is not executed, in its stream and behind its events; what
 * is enqueued afterwards is, however the host has waited. */
static int body_abort_followed(struct rank *rank)
{
    char *buffer;
    softStream_t behind;
    softEvent_t event;
    NEED_SOFT(softMalloc((void **)&buffer, 4096));
    NEED_SOFT(softMemsetAsync(buffer, 1, 4096, rank->stream));
    if (rank->rank != 0)
        return softStreamSynchronize(rank->stream) != softSuccess;
    NEED_SOFT(softStreamCreateWithFlags(&behind, softStreamNonBlocking));
    NEED_SOFT(softEventCreateWithFlags(&event, softEventDisableTiming));
    NEED_NCCL(softNcclAllReduce(buffer, buffer, 256, softNcclFloat32, softNcclSum, rank->comm, rank->stream));
    NEED_SOFT(softMemsetAsync(buffer, 2, 64, rank->stream));
    NEED_SOFT(softEventRecord(event, rank->stream));
    NEED_SOFT(softStreamWaitEvent(behind, event, 0));
    NEED_SOFT(softMemsetAsync(buffer + 64, 3, 64, behind));
    NEED_NCCL(softNcclCommAbort(rank->comm));
    rank->comm = NULL;
    NEED_SOFT(softStreamSynchronize(behind));
    NEED_SOFT(softEventSynchronize(event));
    NEED(!expect_bytes(rank, buffer, 1) && !expect_bytes(rank, buffer + 64, 1));
    NEED_SOFT(softStreamWaitEvent(behind, event, 0));
    NEED_SOFT(softMemsetAsync(buffer + 64, 3, 64, behind));
    NEED_SOFT(softMemsetAsync(buffer, 2, 64, rank->stream));
    NEED_SOFT(softStreamSynchronize(behind));
    NEED(!expect_bytes(rank, buffer, 2) && !expect_bytes(rank, buffer + 64, 3));
    NEED_SOFT(softEventDestroy(event));
    NEED_SOFT(softStreamDestroy(behind));
    return 0;
}

static void test_abort(void **state)
{
    struct outcome out[STAGE_MAX_RANKS];
    (void)state;
    for (int mode = STAGE_THREADS; mode <= STAGE_PROCESSES; mode++) {
        stage_expect_success(&(struct stage){.mode = mode, .ranks = 4, .limit_s = 40, .body = body_abort}, out);
        stage_expect_success(&(struct stage){.mode = mode, .ranks = 2, .limit_s = 40, .body = body_abort_own}, out);
        stage_expect_success(&(struct stage){.mode = mode, .ranks = 2, .limit_s = 40, .body = body_abort_followed}, out);
    }
}

/* Rank 2 leaves one all-reduce out. */
static int body_skip(struct rank *rank)
{
    softNcclResult_t error = softNcclSuccess;
    void *buffer;
    NEED_SOFT(softMalloc(&buffer, 4096));
    for (int i = 0; i < 42; i++)
        NEED_NCCL(softNcclAllReduce(buffer, buffer, 1000, softNcclFloat32, softNcclSum, rank->comm, rank->stream));
    NEED_SOFT(softStreamSynchronize(rank->stream));
    if (rank->rank == 2) { /* alive, and elsewhere */
        mark_await(&rank->marks[1], (uint32_t)rank->ranks - 1);
        return 0;
    }
    NEED_NCCL(softNcclAllReduce(buffer, buffer, 1000, softNcclFloat32, softNcclSum, rank->comm, rank->stream));
    NEED(softStreamSynchronize(rank->stream) != softSuccess);
    NEED_NCCL(softNcclCommGetAsyncError(rank->comm, &error));
    NEED(error == softNcclRemoteError);
    NEED(!strcmp(softNcclGetLastError(rank->comm), "time limit of 3.0 s: rank 2 is at collective 41, others at 42"));
    NEED(strstr(softErrorDetail(), "rank 2 is at collective 41, others at 42") != NULL);
    mark_add(&rank->marks[1], 1);
    return 0;
}

static int body_never(struct rank *rank)
{
    void *buffer;
    NEED_SOFT(softMalloc(&buffer, 4096));
    if (rank->rank == 0) {
        mark_await(&rank->marks[1], (uint32_t)rank->ranks - 1);
        return 0;
    }
    NEED_NCCL(softNcclAllReduce(buffer, buffer, 1000, softNcclFloat32, softNcclSum, rank->comm, rank->stream));
    NEED(softStreamSynchronize(rank->stream) != softSuccess);
    NEED(
        !strcmp(softNcclGetLastError(rank->comm), "time limit of 1.0 s: rank 0 has called no collective, others at 0"));
    mark_add(&rank->marks[1], 1);
    return 0;
}

static void test_time_limit(void **state)
{
    struct outcome out[STAGE_MAX_RANKS];
    (void)state;
    stage_expect_success(&(struct stage){.mode = STAGE_PROCESSES, .ranks = 4, .limit_s = 3, .body = body_skip}, out);
    stage_expect_success(&(struct stage){.mode = STAGE_THREADS, .ranks = 3, .limit_s = 3, .body = body_skip}, out);
    stage_expect_success(&(struct stage){.mode = STAGE_PROCESSES, .ranks = 2, .limit_s = 1, .body = body_never}, out);
}

/* ---- ranks killed ------------------------------------------------------------------------------------------------ */

/* All-reduces without end; the survivors must come out by themselves, and long before the limit. */
static int body_endless(struct rank *rank)
{
    void *buffer;
    NEED_SOFT(softMalloc(&buffer, 1 << 20));
    for (;;) {
        for (int i = 0; i < 10; i++) {
            softNcclResult_t result =
                softNcclAllReduce(buffer, buffer, 1 << 16, softNcclFloat32, softNcclSum, rank->comm, rank->stream);
            NEED(result == softNcclSuccess || result == softNcclRemoteError || result == softNcclUnhandledCudaError);
        }
        if (softStreamSynchronize(rank->stream) != softSuccess)
            break;
        mark_add(&rank->marks[0], 1);
    }
    NEED(strstr(softNcclGetLastError(rank->comm), "rank 1 (process ") != NULL);
    NEED(strstr(softNcclGetLastError(rank->comm), " has gone, at collective ") != NULL);
    struct node_id id;
    memcpy(&id, rank->id.internal, sizeof id);
    snprintf(rank->out->text, sizeof rank->out->text, "@%s", id.name);
    return 0;
}

static uint64_t kill_round;
static int named_memory; /* mappings of files in /dev/shm that the ranks held: none, so none can be left */

static int count_named_memory(int process)
{
    char path[64], line[512];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", process);
    FILE *maps = fopen(path, "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps))
        count += strstr(line, "/dev/shm/") != NULL;
    fclose(maps);
    return count;
}

static void kill_one(const struct stage *stage, const int *processes, uint32_t *marks)
{
    mark_await(&marks[0], 6);
    for (int rank = 0; rank < stage->ranks; rank++)
        named_memory += count_named_memory(processes[rank]);
    usleep((useconds_t)(random_u32(31, RANDOM_FAULT, kill_round) % 5000));
    kill(processes[1], SIGKILL);
}

static int count_entries(const char *folder)
{
    int count = 0;
    DIR *open = opendir(folder);
    for (struct dirent *entry = open ? readdir(open) : NULL; entry; entry = readdir(open))
        count++;
    if (open)
        closedir(open);
    return count;
}

/* Is this abstract socket still there? */
static bool socket_left(const char *name)
{
    char line[512];
    bool left = false;
    FILE *table = fopen("/proc/net/unix", "r");
    while (table && fgets(line, sizeof line, table))
        left = left || strstr(line, name);
    if (table)
        fclose(table);
    return left;
}

static void test_killed(void **state)
{
    struct outcome out[STAGE_MAX_RANKS];
    const int descriptors_before = count_entries("/proc/self/fd");
    (void)state;
    for (kill_round = 0; kill_round < 20; kill_round++) {
        stage_play(
            &(struct stage){
                .mode = STAGE_PROCESSES, .ranks = 3, .limit_s = 3600, .body = body_endless, .meanwhile = kill_one},
            out);
        assert_int_equal(out[1].status, SIGKILL);
        for (int rank = 0; rank < 3; rank += 2)
            if (out[rank].code != 0 || out[rank].status != 0)
                fail_msg("round %d, rank %d: code %d, status %#x: %s", (int)kill_round, rank, out[rank].code,
                         (unsigned)out[rank].status, out[rank].text);
        assert_true(strlen(out[0].text) > 1);
        assert_false(socket_left(out[0].text));
    }
    assert_int_equal(named_memory, 0);
    assert_int_equal(count_entries("/proc/self/fd"), descriptors_before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_time_limit),
        cmocka_unit_test(test_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
