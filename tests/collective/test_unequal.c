/* SPDX-License-Identifier: MIT
 *
 * Unequal calls: named on all ranks, with both values, before any data is used.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "stage.h"

struct difference {
    const char *sentence; /* on all ranks; the calls before are equal */
    size_t count[2];      /* [0]: of the odd rank, [1]: of the others */
    softNcclDataType_t type[2];
    softNcclRedOp_t op[2];
    int root[2]; /* -1: an all-reduce; else a broadcast */
    int odd_rank;
};

static int call_differently(struct rank *rank, const struct difference *difference, void *buffer)
{
    const int which = rank->rank == difference->odd_rank ? 0 : 1;
    const size_t count = difference->count[which];
    if (difference->root[which] < 0)
        NEED_NCCL(softNcclAllReduce(buffer, buffer, count, difference->type[which], difference->op[which], rank->comm,
                                    rank->stream));
    else
        NEED_NCCL(softNcclBroadcast(buffer, buffer, count, difference->type[which], difference->root[which], rank->comm,
                                    rank->stream));
    return 0;
}

/* Expects the call to fail on this rank within the limit, with the data as it was; the sentence goes to the test. */
static int body_differ(struct rank *rank)
{
    const struct difference *difference = rank->argument;
    const size_t bytes = 409600 * 4;
    void *buffer;
    softNcclResult_t error = softNcclSuccess;
    NEED_SOFT(softMalloc(&buffer, bytes));
    NEED_SOFT(softMemsetAsync(buffer, rank->rank, bytes, rank->stream));
    NEED_NCCL(softNcclAllReduce(buffer, buffer, 8, softNcclUint8, softNcclMax, rank->comm, rank->stream));
    int code = call_differently(rank, difference, buffer);
    if (code)
        return code;
    NEED(softStreamSynchronize(rank->stream) != softSuccess);
    NEED_NCCL(softNcclCommGetAsyncError(rank->comm, &error));
    NEED(error == softNcclInvalidUsage);
    NEED(softNcclAllReduce(buffer, buffer, 8, softNcclUint8, softNcclMax, rank->comm, rank->stream) ==
         softNcclInvalidUsage);
    snprintf(rank->out->text, sizeof rank->out->text, "%s", softNcclGetLastError(rank->comm));
    return 0;
}

static void check_difference(const struct difference *difference, enum stage_mode mode, int ranks)
{
    struct outcome out[STAGE_MAX_RANKS];
    stage_expect_success(&(struct stage){.mode = mode, .ranks = ranks, .body = body_differ, .argument = difference},
                         out);
    for (int rank = 0; rank < ranks; rank++)
        assert_string_equal(out[rank].text, difference->sentence);
}

#define F32 softNcclFloat32
#define SAME(value)                                                                                                    \
    {                                                                                                                  \
        value, value                                                                                                   \
    }

static void test_counts_differ(void **state)
{
    const struct difference large = {
        "rank 1 called all-reduce of 409598 float32 sum, rank 0 all-reduce of 409600 float32 sum, "
        "collective 1",
        {409600, 409598},
        SAME(F32),
        SAME(softNcclSum),
        SAME(-1),
        0};
    const struct difference double_count = {
        "rank 2 called all-reduce of 200 float32 sum, rank 0 all-reduce of 100 float32 "
        "sum, collective 1",
        {200, 100},
        SAME(F32),
        SAME(softNcclSum),
        SAME(-1),
        2};
    const struct difference tiny = {"rank 1 called all-reduce of 2 float32 sum, rank 0 all-reduce of 1 float32 sum, "
                                    "collective 1",
                                    {2, 1},
                                    SAME(F32),
                                    SAME(softNcclSum),
                                    SAME(-1),
                                    1};
    const struct difference none = {"rank 3 called all-reduce of 0 float32 sum, rank 0 all-reduce of 5 float32 sum, "
                                    "collective 1",
                                    {0, 5},
                                    SAME(F32),
                                    SAME(softNcclSum),
                                    SAME(-1),
                                    3};
    const struct difference two_paths = {
        "rank 1 called all-reduce of 100000 float32 sum, rank 0 all-reduce of 10 float32 "
        "sum, collective 1",
        {100000, 10},
        SAME(F32),
        SAME(softNcclSum),
        SAME(-1),
        1};
    (void)state;
    check_difference(&large, STAGE_PROCESSES, 8);
    check_difference(&double_count, STAGE_PROCESSES, 4);
    check_difference(&double_count, STAGE_THREADS, 4);
    check_difference(&tiny, STAGE_PROCESSES, 2);
    check_difference(&none, STAGE_THREADS, 4);
    check_difference(&two_paths, STAGE_PROCESSES, 2);
}

static void test_calls_differ(void **state)
{
    const struct difference op = {"rank 2 called all-reduce of 9 float32 max, rank 0 all-reduce of 9 float32 sum, "
                                  "collective 1",
                                  SAME(9),
                                  SAME(F32),
                                  {softNcclMax, softNcclSum},
                                  SAME(-1),
                                  2};
    const struct difference type = {"rank 1 called all-reduce of 9 float32 sum, rank 0 all-reduce of 9 int32 sum, "
                                    "collective 1",
                                    SAME(9),
                                    {softNcclInt32, F32},
                                    SAME(softNcclSum),
                                    SAME(-1),
                                    0};
    const struct difference root = {
        "rank 3 called broadcast of 9 float32 from root 1, rank 0 broadcast of 9 float32 from "
        "root 2, collective 1",
        SAME(9),
        SAME(F32),
        SAME(softNcclSum),
        {1, 2},
        3};
    const struct difference kind = {
        "rank 1 called broadcast of 9 float32 from root 0, rank 0 all-reduce of 9 float32 sum, "
        "collective 1",
        SAME(9),
        SAME(F32),
        SAME(softNcclSum),
        {0, -1},
        1};
    (void)state;
    check_difference(&op, STAGE_PROCESSES, 4);
    check_difference(&type, STAGE_PROCESSES, 3);
    check_difference(&root, STAGE_THREADS, 4);
    check_difference(&kind, STAGE_PROCESSES, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_differ),
        cmocka_unit_test(test_calls_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
