/* SPDX-License-Identifier: MIT
 *
 * Order: sums in rank order whoever arrives first, calls of a communicator over several streams, groups, many ranks on
 * few cores.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "stage.h"
#include "sys/checksum.h"
#include "sys/random.h"

#define SUM_COUNT 5000

/* ---- the same bits, whoever arrives first ------------------------------------------------------------------------ */

struct delays {
    uint64_t seed;
    size_t count;
};

/* Sums that depend on the order of the terms: values from 2^-20 to 2^20. */
static int body_delayed_sum(struct rank *rank)
{
    const struct delays *delays = rank->argument;
    const uint64_t stream = random_stream(RANDOM_DATA, (uint32_t)rank->rank);
    static float host_of[STAGE_MAX_RANKS][SUM_COUNT];
    float *host = host_of[rank->rank];
    void *buffer;
    for (size_t i = 0; i < delays->count; i++) {
        const float scale = (float)(1u << random_u32(1, stream, 2 * i) % 21);
        host[i] = (random_uniform(1, stream, 2 * i + 1) - 0.5f) * (i % 2 ? scale : 1 / scale);
    }
    NEED_SOFT(softMalloc(&buffer, delays->count * 4));
    int code = upload(rank, buffer, host, delays->count * 4);
    usleep((useconds_t)(random_u32(delays->seed, RANDOM_FAULT, (uint64_t)rank->rank) % 3000));
    if (code)
        return code;
    NEED_NCCL(softNcclAllReduce(buffer, buffer, delays->count, softNcclFloat32, softNcclSum, rank->comm, rank->stream));
    code = download(rank, host, buffer, delays->count * 4);
    rank->out->value[0] = checksum(CHECKSUM_SEED, host, delays->count * 4);
    return code;
}

static uint64_t check_same_bits(enum stage_mode mode, int ranks, size_t count)
{
    struct outcome out[STAGE_MAX_RANKS];
    uint64_t first = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        const struct delays delays = {.seed = seed, .count = count};
        stage_expect_success(
            &(struct stage){.mode = mode, .ranks = ranks, .body = body_delayed_sum, .argument = &delays}, out);
        first = seed == 0 ? out[0].value[0] : first;
        for (int rank = 0; rank < ranks; rank++)
            assert_true(out[rank].value[0] == first);
    }
    return first;
}

static void test_same_bits(void **state)
{
    (void)state;
    const uint64_t threads = check_same_bits(STAGE_THREADS, 4, SUM_COUNT);
    const uint64_t processes = check_same_bits(STAGE_PROCESSES, 4, SUM_COUNT);
    assert_true(threads == processes);
    check_same_bits(STAGE_PROCESSES, 2, 1000);
}

/* ---- streams and groups ------------------------------------------------------------------------------------------ */

/* Two streams of one rank, one communicator: calls keep their order, though the streams have none between them. */
static int body_two_streams(struct rank *rank)
{
    softStream_t other;
    unsigned char *buffer, host[2];
    NEED_SOFT(softStreamCreateWithFlags(&other, softStreamNonBlocking));
    NEED_SOFT(softMalloc((void **)&buffer, 2));
    for (int i = 0; i < 200; i++) {
        softStream_t first = (i + rank->rank) % 2 ? other : rank->stream,
                     second = first == other ? rank->stream : other;
        NEED_SOFT(softMemsetAsync(buffer, 1, 1, first));
        NEED_SOFT(softMemsetAsync(buffer + 1, 2, 1, second));
        NEED_NCCL(softNcclAllReduce(buffer, buffer, 1, softNcclUint8, softNcclSum, rank->comm, first));
        NEED_NCCL(softNcclAllReduce(buffer + 1, buffer + 1, 1, softNcclUint8, softNcclProd, rank->comm, second));
        NEED_SOFT(softStreamSynchronize(first));
        NEED_SOFT(softStreamSynchronize(second));
    }
    int code = download(rank, host, buffer, 2);
    NEED(host[0] == rank->ranks && host[1] == 1 << rank->ranks);
    NEED_SOFT(softStreamDestroy(other));
    return code;
}

static void test_two_streams(void **state)
{
    struct outcome out[STAGE_MAX_RANKS];
    (void)state;
    stage_expect_success(&(struct stage){.mode = STAGE_THREADS, .ranks = 3, .body = body_two_streams}, out);
    stage_expect_success(&(struct stage){.mode = STAGE_PROCESSES, .ranks = 2, .body = body_two_streams}, out);
}

/* Calls of many sizes one behind the other, each on numbers of its own; nobody waits in between. */
#define QUEUED 120
static int body_stream_of_calls(struct rank *rank)
{
    static const size_t sizes[] = {1, 300, 4096, 16, 5000, 2};
    int32_t *buffer[QUEUED], host[5000];
    int code = 0;
    for (int i = 0; i < QUEUED && !code; i++) {
        const size_t count = sizes[i % 6];
        for (size_t k = 0; k < count; k++)
            host[k] = (int32_t)(k + 1) * (i + 1) * (rank->rank + 1);
        code = device_buffer(rank, (void **)&buffer[i], count * sizeof *host);
        if (!code)
            code = upload(rank, buffer[i], host, count * sizeof *host);
    }
    for (int i = 0; i < QUEUED && !code; i++)
        NEED_NCCL(softNcclAllReduce(buffer[i], buffer[i], sizes[i % 6], softNcclInt32, softNcclSum, rank->comm,
                                    rank->stream));
    for (int i = 0; i < QUEUED && !code; i++) {
        const size_t count = sizes[i % 6];
        code = download(rank, host, buffer[i], count * sizeof *host);
        for (size_t k = 0; k < count && !code; k++)
            NEED(host[k] == (int32_t)(k + 1) * (i + 1) * rank->ranks * (rank->ranks + 1) / 2);
    }
    return code;
}

static void test_stream_of_calls(void **state)
{
    struct outcome out[STAGE_MAX_RANKS];
    (void)state;
    for (int ranks = 2; ranks <= 3; ranks++) {
        stage_expect_success(&(struct stage){.mode = STAGE_PROCESSES, .ranks = ranks, .body = body_stream_of_calls},
                             out);
        stage_expect_success(&(struct stage){.mode = STAGE_THREADS, .ranks = ranks, .body = body_stream_of_calls}, out);
    }
}

#define DEVICES 3

struct trio {
    softNcclComm_t comm[DEVICES];
    softStream_t stream[DEVICES];
    float *buffer[DEVICES];
};

static int open_trio(struct rank *rank, struct trio *trio)
{
    NEED_NCCL(softNcclCommInitAll(trio->comm, DEVICES, NULL));
    for (int device = 0; device < DEVICES; device++) {
        NEED_SOFT(softSetDevice(device));
        NEED_SOFT(softStreamCreateWithFlags(&trio->stream[device], softStreamNonBlocking));
        NEED_SOFT(softMalloc((void **)&trio->buffer[device], 4096));
        NEED_SOFT(softMemsetAsync(trio->buffer[device], 0, 4096, trio->stream[device]));
    }
    return 0;
}

static int close_trio(struct rank *rank, struct trio *trio)
{
    for (int device = 0; device < DEVICES; device++) {
        NEED_SOFT(softStreamSynchronize(trio->stream[device]));
        NEED_NCCL(softNcclCommDestroy(trio->comm[device]));
        NEED_SOFT(softStreamDestroy(trio->stream[device]));
    }
    return 0;
}

static softNcclResult_t sum_on(struct trio *trio, int device)
{
    return softNcclAllReduce(trio->buffer[device], trio->buffer[device], 1024, softNcclFloat32, softNcclSum,
                             trio->comm[device], trio->stream[device]);
}

/* One thread, three devices. In a group nothing is enqueued before its outermost end; more calls than a stream's ring
 * holds, device by device, still go through. */
static int body_groups(struct rank *rank)
{
    struct trio trio;
    int code = open_trio(rank, &trio);
    if (code)
        return code;
    NEED_SOFT(softStreamSynchronize(trio.stream[0]));
    NEED_NCCL(softNcclGroupStart());
    NEED_NCCL(softNcclGroupStart());
    for (int device = 0; device < DEVICES; device++)
        NEED_NCCL(sum_on(&trio, device));
    NEED_NCCL(softNcclGroupEnd());
    usleep(2000);
    NEED_SOFT(softStreamQuery(trio.stream[0]));
    for (int device = 0; device < DEVICES; device++)
        for (int i = 0; i < 1500; i++)
            NEED_NCCL(sum_on(&trio, device));
    NEED_NCCL(softNcclGroupEnd());
    NEED(softNcclGroupEnd() == softNcclInvalidUsage);
    return close_trio(rank, &trio);
}

/* Outside of a group NCCL would wait in the first call for ever. */
static int body_ungrouped(struct rank *rank)
{
    struct trio trio;
    int code = open_trio(rank, &trio);
    if (code)
        return code;
    NEED_NCCL(sum_on(&trio, 0));
    NEED(sum_on(&trio, 1) == softNcclInvalidUsage);
    NEED(strstr(softNcclGetLastError(NULL), "ranks 0 and 1") != NULL);
    NEED_NCCL(softNcclGroupStart());
    NEED_NCCL(sum_on(&trio, 1));
    NEED_NCCL(sum_on(&trio, 2));
    NEED_NCCL(softNcclGroupEnd());
    return close_trio(rank, &trio);
}

/* A refused call inside a group: the group does nothing, and the communicators go on. */
static int body_refused(struct rank *rank)
{
    struct trio trio;
    int code = open_trio(rank, &trio);
    if (code)
        return code;
    NEED_NCCL(softNcclGroupStart());
    NEED_NCCL(sum_on(&trio, 0));
    NEED(softNcclAllReduce(trio.buffer[1], trio.buffer[1], 1025, softNcclFloat32, softNcclSum, trio.comm[1],
                           trio.stream[1]) == softNcclInvalidArgument);
    NEED(softNcclAllReduce(trio.buffer[0], trio.buffer[1], 8, softNcclFloat32, softNcclSum, trio.comm[1],
                           trio.stream[1]) == softNcclInvalidArgument);
    NEED(softNcclAllReduce(trio.buffer[1], trio.buffer[1], SIZE_MAX / 2, softNcclFloat32, softNcclSum, trio.comm[1],
                           trio.stream[1]) == softNcclInvalidArgument);
    NEED(softNcclAllReduce(trio.buffer[1], trio.buffer[1], 8, softNcclFloat32, softNcclSum, trio.comm[1],
                           trio.stream[2]) == softNcclInvalidUsage);
    NEED(softNcclAllReduce(trio.buffer[1], trio.buffer[1], 8, (softNcclDataType_t)10, softNcclSum, trio.comm[1],
                           trio.stream[1]) == softNcclInvalidArgument);
    NEED(softNcclBroadcast(trio.buffer[1], trio.buffer[1], 8, softNcclFloat32, DEVICES, trio.comm[1], trio.stream[1]) ==
         softNcclInvalidArgument);
    NEED(softNcclGroupEnd() == softNcclInvalidArgument);
    NEED_NCCL(softNcclGroupStart());
    for (int device = 0; device < DEVICES; device++)
        NEED_NCCL(sum_on(&trio, device));
    NEED_NCCL(softNcclGroupEnd());
    return close_trio(rank, &trio);
}

/* ncclCommInitRank of all devices by one thread, in a group, as NCCL's examples do. */
static int body_init_in_group(struct rank *rank)
{
    softNcclComm_t comm[DEVICES];
    softNcclUniqueId id;
    int value;
    NEED_NCCL(softNcclGetUniqueId(&id));
    NEED_NCCL(softNcclGroupStart());
    for (int device = 0; device < DEVICES; device++) {
        NEED_SOFT(softSetDevice(device));
        NEED_NCCL(softNcclCommInitRank(&comm[device], DEVICES, id, device));
    }
    NEED_NCCL(softNcclGroupEnd());
    for (int device = 0; device < DEVICES; device++) {
        NEED_NCCL(softNcclCommUserRank(comm[device], &value));
        NEED(value == device);
        NEED_NCCL(softNcclCommCount(comm[device], &value));
        NEED(value == DEVICES);
        NEED_NCCL(softNcclCommDestroy(comm[device]));
    }
    return 0;
}

static int body_twice(struct rank *rank)
{
    softNcclComm_t comm[2];
    const int list[] = {1, 1};
    NEED(softNcclCommInitAll(comm, 2, list) == softNcclInvalidUsage);
    NEED(!strcmp(softNcclGetLastError(NULL), "ncclCommInitAll: ranks 0 and 1 both use device 1"));
    return 0;
}

static void test_groups(void **state)
{
    rank_body *const bodies[] = {body_groups, body_ungrouped, body_refused, body_init_in_group, body_twice};
    struct outcome out[STAGE_MAX_RANKS];
    (void)state;
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        stage_expect_success(&(struct stage){.mode = STAGE_PROCESSES, .ranks = 1, .alone = true, .body = bodies[i]},
                             out);
}

/* ---- a crowd ----------------------------------------------------------------------------------------------------- */

static int body_barriers(struct rank *rank)
{
    float *one;
    NEED_SOFT(softMalloc((void **)&one, 4));
    for (int i = 0; i < 1000; i++)
        NEED_NCCL(softNcclAllReduce(one, one, 1, softNcclFloat32, softNcclMax, rank->comm, rank->stream));
    NEED_SOFT(softStreamSynchronize(rank->stream));
    return 0;
}

static void test_crowd(void **state)
{
    struct outcome out[STAGE_MAX_RANKS];
    (void)state;
    stage_expect_success(&(struct stage){.mode = STAGE_PROCESSES, .ranks = 8, .body = body_barriers}, out);
    print_message("8 processes, 1000 all-reduces of one float: %.3f s\n", out[0].seconds);
    stage_expect_success(&(struct stage){.mode = STAGE_THREADS, .ranks = 16, .body = body_barriers}, out);
    print_message("16 threads, 1000 all-reduces of one float: %.3f s\n", out[0].seconds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits), cmocka_unit_test(test_two_streams), cmocka_unit_test(test_stream_of_calls),
        cmocka_unit_test(test_groups),    cmocka_unit_test(test_crowd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
