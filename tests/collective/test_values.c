/* SPDX-License-Identifier: MIT
 *
 * Every collective, type and operation at odd counts against the plain reference, out of place and in place, between
 * threads and between processes; the bytes that were counted against the formulas; guard bytes round all buffers.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "reference.h"
#include "softgpu/collective_fold.h"
#include "stage.h"

static const size_t odd_counts[] = {0, 1, 7, 31, 32, 33, 1025};
#define SEED 20240229u

enum kind { ALL_REDUCE, BROADCAST, REDUCE, ALL_GATHER, REDUCE_SCATTER, KINDS };
static const char *const kind_names[KINDS] = {"all-reduce", "broadcast", "reduce", "all-gather", "reduce-scatter"};

struct trial {
    enum kind kind;
    softNcclDataType_t type;
    softNcclRedOp_t op;
    size_t count;
    int root;
    bool in_place;
};

/* Elements of a rank's input and output. */
static size_t input_count(const struct trial *trial, int ranks)
{
    return trial->kind == REDUCE_SCATTER ? trial->count * (size_t)ranks : trial->count;
}

static size_t output_count(const struct trial *trial, int ranks)
{
    return trial->kind == ALL_GATHER ? trial->count * (size_t)ranks : trial->count;
}

static void expected_element(void *to, const struct trial *trial, int rank, int ranks, size_t index)
{
    unsigned char input[STAGE_MAX_RANKS][8];
    const void *inputs[STAGE_MAX_RANKS];
    const size_t at = trial->kind == REDUCE_SCATTER ? (size_t)rank * trial->count + index : index;
    if (trial->kind == BROADCAST) {
        reference_input(to, trial->type, trial->root, index, SEED);
    } else if (trial->kind == ALL_GATHER) {
        reference_input(to, trial->type, (int)(index / trial->count), index % trial->count, SEED);
    } else {
        for (int r = 0; r < ranks; r++) {
            reference_input(input[r], trial->type, r, at, SEED);
            inputs[r] = input[r];
        }
        reference_fold(to, inputs, ranks, trial->type, trial->op);
    }
}

static int call(struct rank *rank, const struct trial *trial, const void *send, void *receive)
{
    softNcclComm_t comm = rank->comm;
    softStream_t stream = rank->stream;
    switch (trial->kind) {
    case ALL_REDUCE:
        NEED_NCCL(softNcclAllReduce(send, receive, trial->count, trial->type, trial->op, comm, stream));
        break;
    case BROADCAST:
        NEED_NCCL(softNcclBroadcast(send, receive, trial->count, trial->type, trial->root, comm, stream));
        break;
    case REDUCE:
        NEED_NCCL(softNcclReduce(send, receive, trial->count, trial->type, trial->op, trial->root, comm, stream));
        break;
    case ALL_GATHER:
        NEED_NCCL(softNcclAllGather(send, receive, trial->count, trial->type, comm, stream));
        break;
    default:
        NEED_NCCL(softNcclReduceScatter(send, receive, trial->count, trial->type, trial->op, comm, stream));
    }
    return 0;
}

static int compare(struct rank *rank, const struct trial *trial, const unsigned char *found)
{
    const size_t bytes = reference_bytes(trial->type), outputs = output_count(trial, rank->ranks);
    unsigned char expected[8];
    if (trial->kind == REDUCE && rank->rank != trial->root)
        return 0;
    for (size_t i = 0; i < outputs; i++) {
        expected_element(expected, trial, rank->rank, rank->ranks, i);
        if (!memcmp(found + i * bytes, expected, bytes))
            continue;
        uint64_t f = 0, e = 0;
        memcpy(&f, found + i * bytes, bytes);
        memcpy(&e, expected, bytes);
        snprintf(rank->out->text, sizeof rank->out->text,
                 "%s of %zu %s, op %d, root %d, in place %d: element %zu is %#llx, expected %#llx",
                 kind_names[trial->kind], trial->count, reference_name(trial->type), (int)trial->op, trial->root,
                 trial->in_place, i, (unsigned long long)f, (unsigned long long)e);
        return 1;
    }
    return 0;
}

/* Buffers of exactly the needed size, so that the guards stand right behind them. */
static int try_one(struct rank *rank, const struct trial *trial)
{
    const size_t bytes = reference_bytes(trial->type);
    const size_t in = input_count(trial, rank->ranks) * bytes, out = output_count(trial, rank->ranks) * bytes;
    const size_t piece = (size_t)rank->rank * trial->count * bytes;
    unsigned char *host = malloc(in + out + 1);
    char *send, *receive;
    NEED(host != NULL);
    for (size_t i = 0; i < in / bytes; i++)
        reference_input(host + i * bytes, trial->type, rank->rank, i, SEED);
    int code = device_buffer(rank, (void **)&receive, trial->in_place && in > out ? in : out);
    send = trial->in_place ? receive + (trial->kind == ALL_GATHER ? piece : 0) : NULL;
    if (!code && !trial->in_place)
        code = device_buffer(rank, (void **)&send, in);
    char *result = trial->in_place && trial->kind == REDUCE_SCATTER ? receive + piece : receive;
    if (!code)
        code = upload(rank, send, host, in);
    if (!code)
        code = call(rank, trial, send, result);
    if (!code)
        code = download(rank, host, result, out);
    if (!code)
        code = compare(rank, trial, host);
    free(host);
    NEED_SOFT(softDeviceSynchronize());
    NEED_SOFT(softFree(receive));
    if (!trial->in_place)
        NEED_SOFT(softFree(send));
    return code;
}

static bool has_op(enum kind kind)
{
    return kind == ALL_REDUCE || kind == REDUCE || kind == REDUCE_SCATTER;
}

static int body_all_types(struct rank *rank)
{
    for (int kind = 0; kind < KINDS; kind++)
        for (int type = 0; type < REFERENCE_TYPES; type++)
            for (int op = 0; op < (has_op(kind) ? REFERENCE_OPS : 1); op++)
                for (size_t c = 0; c < sizeof odd_counts / sizeof *odd_counts; c++) {
                    const int variant = kind + type + op + (int)c;
                    const struct trial trial = {.kind = kind,
                                                .type = type,
                                                .op = op,
                                                .count = odd_counts[c],
                                                .root = variant % rank->ranks,
                                                .in_place = variant / 2 % 2};
                    int code = try_one(rank, &trial);
                    if (code)
                        return code;
                }
    return 0;
}

/* Large: several blocks of the fold, slices that don't divide. */
static int body_large(struct rank *rank)
{
    static const size_t counts[] = {1024, 1025, 2500, 20001};
    for (int kind = 0; kind < KINDS; kind++)
        for (int in_place = 0; in_place < 2; in_place++)
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
                const softNcclDataType_t type = c % 2 ? softNcclFloat32 : softNcclBfloat16;
                const struct trial trial = {
                    .kind = kind, .type = type, .count = counts[c], .root = rank->ranks - 1, .in_place = in_place};
                int code = try_one(rank, &trial);
                if (code)
                    return code;
            }
    return 0;
}

/* Slices so large that their stores pass round the caches. */
static int body_streamed(struct rank *rank)
{
    const struct trial trial = {.kind = ALL_REDUCE, .type = softNcclFloat32, .count = 300001};
    return try_one(rank, &trial);
}

static void play_values(rank_body *body, enum stage_mode mode, int ranks)
{
    struct outcome out[STAGE_MAX_RANKS];
    stage_expect_success(&(struct stage){.mode = mode, .ranks = ranks, .body = body}, out);
}

static void test_types_one_rank(void **state)
{
    (void)state;
    play_values(body_all_types, STAGE_THREADS, 1);
}
static void test_types_two_processes(void **state)
{
    (void)state;
    play_values(body_all_types, STAGE_PROCESSES, 2);
}
static void test_types_three_threads(void **state)
{
    (void)state;
    play_values(body_all_types, STAGE_THREADS, 3);
}
static void test_types_four_threads(void **state)
{
    (void)state;
    play_values(body_all_types, STAGE_THREADS, 4);
}
static void test_types_four_processes(void **state)
{
    (void)state;
    play_values(body_all_types, STAGE_PROCESSES, 4);
}
static void test_large_two_threads(void **state)
{
    (void)state;
    play_values(body_large, STAGE_THREADS, 2);
}
static void test_streamed_two_processes(void **state)
{
    (void)state;
    play_values(body_streamed, STAGE_PROCESSES, 2);
}
static void test_large_four_processes(void **state)
{
    (void)state;
    play_values(body_large, STAGE_PROCESSES, 4);
}

/* ---- numbers that are none --------------------------------------------------------------------------------------- */

/* Two half or brain floats folded; their bits. */
static unsigned fold_small(unsigned a, unsigned b, softNcclDataType_t type, softNcclRedOp_t op)
{
    const uint16_t left = (uint16_t)a, right = (uint16_t)b;
    const void *in[] = {&left, &right};
    uint16_t result;
    void *out = &result;
    fold(&out, 1, in, 2, 1, type, op);
    return result;
}

static float fold_float(float a, float b, softNcclRedOp_t op)
{
    const void *in[] = {&a, &b};
    float result;
    void *out = &result;
    fold(&out, 1, in, 2, 1, softNcclFloat32, op);
    return result;
}

static void test_not_a_number(void **state)
{
    (void)state;
    assert_true(isnan(fold_float(NAN, 1, softNcclSum)) && isnan(fold_float(1, NAN, softNcclProd)));
    assert_true(fold_float(NAN, 1, softNcclMax) == 1 && fold_float(1, NAN, softNcclMax) == 1);
    assert_true(fold_float(NAN, 1, softNcclMin) == 1 && fold_float(1, NAN, softNcclMin) == 1);
    assert_int_equal(fold_small(0x7bff, 0x4b7f, softNcclFloat16, softNcclSum), 0x7bff); /* 65504 + 15: below the tie */
    assert_int_equal(fold_small(0x7bff, 0x4c00, softNcclFloat16, softNcclSum), 0x7c00); /* 65504 + 16: infinity */
    assert_int_equal(fold_small(0x7c00, 0xfc00, softNcclFloat16, softNcclSum) & 0x7fff, 0x7e00); /* inf - inf */
    assert_int_equal(fold_small(0x0001, 0x0001, softNcclFloat16, softNcclSum), 0x0002);          /* subnormals */
    assert_int_equal(fold_small(0x0001, 0x8001, softNcclFloat16, softNcclSum), 0x0000);
    assert_int_equal(fold_small(0x7f7f, 0x7f7f, softNcclBfloat16, softNcclSum), 0x7f80);
    assert_int_equal(fold_small(0x7f80, 0xff80, softNcclBfloat16, softNcclSum) & 0x7fff, 0x7fc0);
    assert_int_equal(fold_small(0x7fa5, 0x3f80, softNcclBfloat16, softNcclMax), 0x3f80); /* 1 */
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

struct moved {
    uint64_t pair[STAGE_MAX_RANKS][STAGE_MAX_RANKS];
};

static void add_moved(void *context, const char *range, int from, int to, uint64_t bytes)
{
    struct moved *moved = context;
    if (!strcmp(range, "counted") && from >= 0 && to >= 0)
        moved->pair[from][to] += bytes;
}

/* value[kind % 4] would be too few: the five kinds' bytes of this process, packed into the text. */
static int body_bytes(struct rank *rank)
{
    const size_t count = *(const size_t *)rank->argument;
    void *buffer, *other;
    int code = device_buffer(rank, &buffer, count * 4 * (size_t)rank->ranks);
    if (!code)
        code = device_buffer(rank, &other, count * 4 * (size_t)rank->ranks);
    uint64_t bytes[KINDS] = {0};
    for (int kind = 0; kind < KINDS && !code; kind++) {
        const struct trial trial = {.kind = kind, .type = softNcclFloat32, .count = count, .root = 1};
        struct moved moved = {0};
        softTrafficReset();
        softRangePush("counted");
        code = call(rank, &trial, buffer, other);
        softRangePop();
        NEED_SOFT(softStreamSynchronize(rank->stream));
        softTrafficVisit(add_moved, &moved);
        bytes[kind] = 0;
        for (int from = 0; from < rank->ranks; from++)
            for (int to = 0; to < rank->ranks; to++)
                bytes[kind] += moved.pair[from][to];
    }
    memcpy(rank->out->text, bytes, sizeof bytes);
    return code;
}

static void check_bytes(int ranks, size_t count)
{
    struct outcome out[STAGE_MAX_RANKS];
    const uint64_t n = (uint64_t)ranks, s = count * 4;
    const uint64_t formula[KINDS] = {2 * (n - 1) * s, (n - 1) * s, (n - 1) * s, n * (n - 1) * s, n * (n - 1) * s};
    stage_expect_success(
        &(struct stage){.mode = STAGE_PROCESSES, .ranks = ranks, .body = body_bytes, .argument = &count}, out);
    for (int kind = 0; kind < KINDS; kind++) {
        uint64_t sum = 0, bytes[KINDS];
        for (int rank = 0; rank < ranks; rank++) {
            memcpy(bytes, out[rank].text, sizeof bytes);
            sum += bytes[kind];
        }
        if (sum != formula[kind])
            fail_msg("%s of %zu float32 on %d ranks: %llu bytes counted, the formula says %llu", kind_names[kind],
                     count, ranks, (unsigned long long)sum, (unsigned long long)formula[kind]);
    }
}

static void test_bytes(void **state)
{
    (void)state;
    check_bytes(2, 100);
    check_bytes(2, 100000);
    check_bytes(4, 7);
    check_bytes(4, 33333);
    check_bytes(3, 4096);
}

/* Of a ring, each ordered pair of neighbours carries 2 (n-1)/n S; read in place, each of the n (n-1) pairs carries 2
 * S/n. */
static int body_pairs(struct rank *rank)
{
    const size_t count = 4096;
    struct moved moved = {0};
    void *buffer;
    int code = device_buffer(rank, &buffer, count * 4);
    softTrafficReset();
    softRangePush("counted");
    NEED_NCCL(softNcclAllReduce(buffer, buffer, count, softNcclFloat32, softNcclSum, rank->comm, rank->stream));
    softRangePop();
    NEED_SOFT(softStreamSynchronize(rank->stream));
    softTrafficVisit(add_moved, &moved);
    for (int from = 0; from < rank->ranks; from++)
        for (int to = 0; to < rank->ranks; to++) {
            const bool mine = from != to && (from == rank->rank || to == rank->rank);
            NEED(moved.pair[from][to] == (mine ? count * 4 / (size_t)rank->ranks : 0));
        }
    return code;
}

static void test_bytes_of_pairs(void **state)
{
    struct outcome out[STAGE_MAX_RANKS];
    (void)state;
    stage_expect_success(&(struct stage){.mode = STAGE_PROCESSES, .ranks = 4, .body = body_pairs}, out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types_one_rank),
        cmocka_unit_test(test_types_two_processes),
        cmocka_unit_test(test_types_three_threads),
        cmocka_unit_test(test_types_four_threads),
        cmocka_unit_test(test_types_four_processes),
        cmocka_unit_test(test_large_two_threads),
        cmocka_unit_test(test_large_four_processes),
        cmocka_unit_test(test_streamed_two_processes),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_bytes_of_pairs),
        cmocka_unit_test(test_not_a_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
