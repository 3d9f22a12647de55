/* SPDX-License-Identifier: MIT
 *
 * The rendezvous: strangers on the socket, wrong tokens, ranks that are missing, there twice or in another world, ranks
 * that leave or die; every rank is told, with both values, and nothing is left behind.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "softgpu/node_wire.h"
#include "stage.h"

/* Nobody goes before all `joiners` have been told: the process that made the id serves it. */
static int join_and_tell(struct rank *rank, int joiners, int ranks, int as, softNcclResult_t expected)
{
    softNcclResult_t result = softNcclCommInitRank(&rank->comm, ranks, rank->id, as);
    snprintf(rank->out->text, sizeof rank->out->text, "%s", softNcclGetLastError(NULL));
    mark_add(&rank->marks[7], 1);
    mark_await(&rank->marks[7], (uint32_t)joiners);
    if (result == expected)
        return 0;
    fprintf(stderr, "rank %d: result %d, expected %d: %s\n", rank->rank, (int)result, (int)expected, rank->out->text);
    return 2;
}

static void play_alone(enum stage_mode mode, int ranks, double limit_s, rank_body *body, struct outcome *out)
{
    stage_expect_success(&(struct stage){.mode = mode, .ranks = ranks, .limit_s = limit_s, .alone = true, .body = body},
                         out);
}

/* All ranks were told the same, and it holds each of these words. */
static void expect_told(const struct outcome *out, int ranks, const char *first, const char *second)
{
    for (int rank = 0; rank < ranks; rank++) {
        if (!strstr(out[rank].text, first) || !strstr(out[rank].text, second))
            fail_msg("rank %d was told: %s; expected: %s; %s", rank, out[rank].text, first, second);
        assert_string_equal(out[rank].text, out[0].text);
    }
}

/* ---- ranks that don't fit ---------------------------------------------------------------------------------------- */

static int body_missing(struct rank *rank)
{
    return rank->rank == 3 ? 0 : join_and_tell(rank, 3, 4, rank->rank, softNcclRemoteError);
}

static int body_same_rank(struct rank *rank)
{
    return join_and_tell(rank, 4, 4, rank->rank == 2 ? 1 : rank->rank, softNcclInvalidUsage);
}

static int body_beyond(struct rank *rank)
{
    return join_and_tell(rank, 3, 3, rank->rank == 1 ? 7 : rank->rank, softNcclInvalidUsage);
}

static int body_negative(struct rank *rank)
{
    return join_and_tell(rank, 3, 3, rank->rank == 1 ? -1 : rank->rank, softNcclInvalidUsage);
}

static int body_other_world(struct rank *rank)
{
    return join_and_tell(rank, 3, rank->rank == 1 ? 5 : 3, rank->rank, softNcclInvalidUsage);
}

static int body_same_device(struct rank *rank)
{
    NEED_SOFT(softSetDevice(rank->rank == 2 ? 1 : rank->rank));
    return join_and_tell(rank, 3, 3, rank->rank, softNcclInvalidUsage);
}

static void test_ranks_that_do_not_fit(void **state)
{
    struct outcome out[STAGE_MAX_RANKS];
    (void)state;
    for (int mode = STAGE_THREADS; mode <= STAGE_PROCESSES; mode++) {
        play_alone(mode, 4, 1, body_missing, out);
        expect_told(out, 3, "3 of 4 ranks joined within 2.0 s", "missing ranks: 3");
        play_alone(mode, 4, 20, body_same_rank, out);
        expect_told(out, 4, "processes ", "both say that they are rank 1");
        play_alone(mode, 3, 20, body_beyond, out);
        expect_told(out, 3, "rank 7", "in a world of 3 ranks: ranks are 0 to 2");
        play_alone(mode, 3, 20, body_negative, out);
        expect_told(out, 3, "rank -1", "in a world of 3 ranks: ranks are 0 to 2");
        play_alone(mode, 3, 20, body_other_world, out);
        expect_told(out, 3, " 5", " 3");
        play_alone(mode, 3, 20, body_same_device, out);
        expect_told(out, 3, "both use device 1", " 2 ");
    }
}

/* ---- ids --------------------------------------------------------------------------------------------------------- */

static int body_wrong_token(struct rank *rank)
{
    struct node_id id;
    memcpy(&id, rank->id.internal, sizeof id);
    if (rank->rank == 2) {
        id.token[15] ^= 1;
        memcpy(rank->id.internal, &id, sizeof id);
        NEED(softNcclCommInitRank(&rank->comm, 2, rank->id, 1) == softNcclInvalidArgument);
        NEED(strstr(softNcclGetLastError(NULL), "token") != NULL);
        mark_set(&rank->marks[0], 1);
        return 0;
    }
    mark_await(&rank->marks[0], 1); /* the impostor came first */
    NEED_NCCL(softNcclCommInitRank(&rank->comm, 2, rank->id, rank->rank));
    return 0;
}

static int body_no_id(struct rank *rank)
{
    softNcclUniqueId id;
    memset(&id, 0x5a, sizeof id);
    NEED(softNcclCommInitRank(&rank->comm, 1, id, 0) == softNcclInvalidArgument);
    NEED_NCCL(softNcclCommInitRank(&rank->comm, 1, rank->id, 0));
    NEED_NCCL(softNcclCommDestroy(rank->comm));
    NEED(softNcclCommInitRank(&rank->comm, 1, rank->id, 0) == softNcclInvalidArgument); /* used up */
    NEED(strstr(softNcclGetLastError(NULL), "ranks have joined already") != NULL);
    return 0;
}

static void test_ids(void **state)
{
    struct outcome out[STAGE_MAX_RANKS];
    (void)state;
    play_alone(STAGE_PROCESSES, 3, 5, body_wrong_token, out);
    play_alone(STAGE_PROCESSES, 1, 5, body_no_id, out);
}

/* ---- strangers --------------------------------------------------------------------------------------------------- */

static int connect_stranger(const struct node_id *id)
{
    struct sockaddr_un address;
    socklen_t length = node_address(&address, id->name);
    int connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connect(connection, (struct sockaddr *)&address, length)) {
        close(connection);
        return -1;
    }
    return connection;
}

/* Everything that a stranger may do before the ranks come: bytes, half a message, a whole one with a wrong token and
 * with an open file, too long a message, a foreign descriptor; and silence on more connections than the server keeps.
 */
static int annoy(struct rank *rank, const struct node_id *id)
{
    static char noise[100000];
    struct node_hello hello = {.member = {.rank = 1, .ranks = 1 << 30, .device = -1, .memory_bytes = UINT64_MAX}};
    const size_t sizes[] = {1, sizeof hello - 1, sizeof hello, sizeof hello + 1, sizeof noise};
    int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    memset(noise, 0xa5, sizeof noise);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int connection = connect_stranger(id);
        NEED(connection >= 0);
        NEED(node_send(connection, noise, sizes[i], &file, i % 2) == 0);
        char answer;
        NEED(recv(connection, &answer, 1, 0) <= 0); /* dropped, without a word */
        close(connection);
    }
    memcpy(hello.token, id->token, sizeof hello.token);
    int cut = connect_stranger(id);
    NEED(node_send(cut, &hello, sizeof hello - 1, &file, 1) == 0); /* the right token, one byte short */
    NEED(recv(cut, noise, 1, 0) <= 0);
    close(cut);
    hello.token[15] ^= 0x80;
    int connection = connect_stranger(id);
    NEED(node_send(connection, &hello, sizeof hello, &file, 1) == 0);
    char answer;
    NEED(recv(connection, &answer, 1, 0) <= 0);
    close(connection);
    close(file);
    return 0;
}

static int body_strangers(struct rank *rank)
{
    struct node_id id;
    memcpy(&id, rank->id.internal, sizeof id);
    if (rank->rank == 2) {
        int silent[100];
        int code = annoy(rank, &id);
        for (int i = 0; i < 100; i++)
            silent[i] = connect_stranger(&id);
        mark_set(&rank->marks[0], 1);
        mark_await(&rank->marks[1], 2);
        for (int i = 0; i < 100; i++)
            close(silent[i]);
        return code;
    }
    mark_await(&rank->marks[0], 1);
    NEED_NCCL(softNcclCommInitRank(&rank->comm, 2, rank->id, rank->rank));
    mark_add(&rank->marks[1], 1);
    return 0;
}

/* A silent stranger is dropped at its deadline, while nobody has joined yet. */
static int body_silence(struct rank *rank)
{
    struct node_id id;
    char answer;
    memcpy(&id, rank->id.internal, sizeof id);
    int connection = connect_stranger(&id);
    NEED(connection >= 0);
    double start = seconds_now();
    NEED(recv(connection, &answer, 1, 0) == 0);
    NEED(seconds_now() - start >= NODE_HANDSHAKE_LIMIT_S - 0.1);
    close(connection);
    NEED_NCCL(softNcclCommInitRank(&rank->comm, 1, rank->id, 0));
    return 0;
}

static void test_strangers(void **state)
{
    struct outcome out[STAGE_MAX_RANKS];
    (void)state;
    play_alone(STAGE_PROCESSES, 3, 10, body_strangers, out);
    play_alone(STAGE_PROCESSES, 1, 10, body_silence, out);
}

/* ---- leaving ----------------------------------------------------------------------------------------------------- */

/* Rank 1 has sent its hello and waits for the answer when it is killed; rank 3 never joins. */
static int body_killed_while_joining(struct rank *rank)
{
    struct node_id id;
    struct node_hello hello = {.member = {.rank = 1, .ranks = 4, .device = 1, .process = getpid(), .memory_bytes = 1}};
    if (rank->rank == 3)
        return 0;
    if (rank->rank != 1)
        return join_and_tell(rank, 2, 4, rank->rank, softNcclRemoteError);
    memcpy(&id, rank->id.internal, sizeof id);
    memcpy(hello.token, id.token, sizeof hello.token);
    int connection = connect_stranger(&id), memory = open("/dev/null", O_RDWR | O_CLOEXEC);
    NEED(connection >= 0 && node_send(connection, &hello, sizeof hello, &memory, 1) == 0);
    mark_set(&rank->marks[0], 1);
    pause();
    return 0;
}

static void kill_second(const struct stage *stage, const int *processes, uint32_t *marks)
{
    (void)stage;
    mark_await(&marks[0], 1);
    kill(processes[1], SIGKILL);
}

static void test_killed_while_joining(void **state)
{
    struct outcome out[STAGE_MAX_RANKS];
    (void)state;
    stage_play(&(struct stage){.mode = STAGE_PROCESSES,
                               .ranks = 4,
                               .limit_s = 20,
                               .alone = true,
                               .body = body_killed_while_joining,
                               .meanwhile = kill_second},
               out);
    assert_int_equal(out[1].status, SIGKILL);
    for (int rank = 0; rank < 4; rank++)
        if (rank != 1)
            assert_int_equal(out[rank].code, 0);
    assert_non_null(strstr(out[0].text, "rank 1 (process "));
    assert_non_null(strstr(out[0].text, "left before all ranks had joined"));
    assert_string_equal(out[0].text, out[2].text);
}

/* The process that made the id is gone: said at once. */
static int body_maker_dies(struct rank *rank)
{
    if (rank->rank == 0) {
        mark_set(&rank->marks[0], 1);
        mark_await(&rank->marks[1], 1);
        usleep(200000);
        raise(SIGKILL);
    }
    mark_await(&rank->marks[0], 1);
    mark_set(&rank->marks[1], 1);
    return join_and_tell(rank, 1, 2, 1, softNcclInvalidArgument);
}

static void test_maker_dies(void **state)
{
    struct outcome out[STAGE_MAX_RANKS];
    (void)state;
    stage_play(
        &(struct stage){.mode = STAGE_PROCESSES, .ranks = 2, .limit_s = 20, .alone = true, .body = body_maker_dies},
        out);
    assert_int_equal(out[1].code, 0);
    assert_non_null(strstr(out[1].text, "the process that made it has gone"));
}

/* Descriptors, shared mappings and threads are as before, over many communicators of both kinds. A sanitizer's own
 * mappings come and go: only those of memfds are ours. */
static int count_shared_mappings(void)
{
    char line[1024];
    int count = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    while (file && fgets(line, sizeof line, file))
        count += strstr(line, "memfd:") != NULL;
    if (file)
        fclose(file);
    return count;
}

static int count_threads(void)
{
    char line[256];
    int count = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        sscanf(line, "Threads: %d", &count);
    if (file)
        fclose(file);
    return count;
}

/* The servers' threads end on their own; false if some never do. */
static bool threads_ended(int before)
{
    for (int i = 0; i < 2000 && count_threads() > before; i++)
        usleep(10000);
    return count_threads() <= before;
}

static int body_repeat(struct rank *rank)
{
    softNcclUniqueId id;
    softNcclComm_t comm;
    int descriptors[2], mappings[2];
    const int threads = count_threads();
    for (int i = 0; i < 60; i++) {
        NEED_NCCL(softNcclGetUniqueId(&id));
        NEED_NCCL(softNcclCommInitRank(&comm, 1, id, 0));
        NEED_NCCL(softNcclCommDestroy(comm));
        NEED_NCCL(softNcclCommInitAll(&comm, 1, NULL));
        NEED_NCCL(softNcclCommDestroy(comm));
        if (i % 30 != 29)
            continue;
        NEED(threads_ended(threads));
        descriptors[i / 30] = dup(0);
        close(descriptors[i / 30]);
        mappings[i / 30] = count_shared_mappings();
    }
    NEED(mappings[0] > 0); /* the device's memory: what is counted can be seen */
    NEED(descriptors[0] == descriptors[1]);
    NEED(mappings[1] == mappings[0]);
    return 0;
}

static void test_nothing_is_left(void **state)
{
    struct outcome out[STAGE_MAX_RANKS];
    (void)state;
    play_alone(STAGE_PROCESSES, 1, 5, body_repeat, out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_that_do_not_fit),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_killed_while_joining),
        cmocka_unit_test(test_maker_dies),
        cmocka_unit_test(test_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
