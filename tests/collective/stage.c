/* SPDX-License-Identifier: MIT
 *
 * Plays bodies as threads or processes and collects their outcomes.
 */
#include "stage.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define STAGE_LIMIT_S 100
#define DEVICE_MEMORY (96u << 20)
#define MARKS 8

/* Shared by the test and all ranks. */
struct board {
    struct outcome out[STAGE_MAX_RANKS];
    uint32_t marks[MARKS];
    uint32_t id_ready;
    softNcclUniqueId id;
};

struct player {
    const struct stage *stage;
    struct board *board;
    struct rank rank;
};

double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void mark_set(uint32_t *mark, uint32_t value)
{
    __atomic_store_n(mark, value, __ATOMIC_RELEASE);
}

void mark_add(uint32_t *mark, uint32_t n)
{
    __atomic_add_fetch(mark, n, __ATOMIC_RELEASE);
}

void mark_await(const uint32_t *mark, uint32_t at_least)
{
    const double deadline = seconds_now() + STAGE_LIMIT_S;
    while (__atomic_load_n(mark, __ATOMIC_ACQUIRE) < at_least && seconds_now() < deadline)
        usleep(200);
}

int stage_failed(struct rank *rank, const char *file, int line, const char *what)
{
    snprintf(rank->out->text, sizeof rank->out->text, "%s:%d: %s; nccl: %.200s; soft: %.200s", file, line, what,
             softNcclGetLastError(rank->comm), softErrorDetail());
    return 1;
}

int device_buffer(struct rank *rank, void **buffer, size_t bytes)
{
    NEED_SOFT(softMalloc(buffer, bytes ? bytes : 1));
    return 0;
}

/* Through one pinned buffer a rank, kept until all have played: cudaFreeHost waits for all devices, and would wait for
 * ever for a collective that this very rank is yet to call. */
static int pinned_room(struct rank *rank, size_t bytes)
{
    NEED(bytes <= STAGE_PINNED_BYTES);
    if (!rank->pinned)
        NEED_SOFT(softMallocHost(&rank->pinned, STAGE_PINNED_BYTES));
    return 0;
}

int upload(struct rank *rank, void *to, const void *from, size_t bytes)
{
    int code = pinned_room(rank, bytes);
    if (code)
        return code;
    memcpy(rank->pinned, from, bytes);
    NEED_SOFT(softMemcpyAsync(to, rank->pinned, bytes, softMemcpyHostToDevice, rank->stream));
    NEED_SOFT(softStreamSynchronize(rank->stream));
    return 0;
}

int download(struct rank *rank, void *to, const void *from, size_t bytes)
{
    int code = pinned_room(rank, bytes);
    if (code)
        return code;
    NEED_SOFT(softMemcpyAsync(rank->pinned, from, bytes, softMemcpyDeviceToHost, rank->stream));
    NEED_SOFT(softStreamSynchronize(rank->stream));
    memcpy(to, rank->pinned, bytes);
    return 0;
}

static int join(struct rank *rank, struct player *player)
{
    if (rank->rank == 0) {
        NEED_NCCL(softNcclGetUniqueId(&player->board->id));
        mark_set(&player->board->id_ready, 1);
    }
    mark_await(&player->board->id_ready, 1);
    rank->id = player->board->id;
    if (!player->stage->alone)
        NEED_NCCL(softNcclCommInitRank(&rank->comm, rank->ranks, rank->id, rank->rank));
    return 0;
}

static int act(struct rank *rank, struct player *player)
{
    NEED_SOFT(softSetDevice(rank->rank));
    NEED_SOFT(softStreamCreateWithFlags(&rank->stream, softStreamNonBlocking));
    int code = join(rank, player);
    if (code)
        return code;
    double start = seconds_now();
    code = player->stage->body(rank);
    rank->out->seconds = seconds_now() - start;
    if (rank->comm)
        softNcclCommDestroy(rank->comm);
    softStreamDestroy(rank->stream);
    return code;
}

static void *play(void *argument)
{
    struct player *player = argument;
    player->rank.out->code = act(&player->rank, player);
    return NULL;
}

static void prepare(struct player *player, const struct stage *stage, struct board *board, int rank)
{
    *player = (struct player){.stage = stage, .board = board};
    player->rank = (struct rank){.rank = rank,
                                 .ranks = stage->ranks,
                                 .mode = stage->mode,
                                 .out = &board->out[rank],
                                 .marks = board->marks,
                                 .argument = stage->argument};
    board->out[rank].code = -1;
}

static void configure(const struct stage *stage)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    softConfigure(&(struct soft_settings){.memory_bytes = DEVICE_MEMORY,
                                          .collective_limit_s = stage->limit_s > 0 ? stage->limit_s : 60});
}

static int play_threads(const struct stage *stage, struct board *board)
{
    struct player players[STAGE_MAX_RANKS];
    pthread_t threads[STAGE_MAX_RANKS];
    for (int rank = 0; rank < stage->ranks; rank++) {
        prepare(&players[rank], stage, board, rank);
        if (pthread_create(&threads[rank], NULL, play, &players[rank]))
            return 1;
    }
    for (int rank = 0; rank < stage->ranks; rank++)
        pthread_join(threads[rank], NULL);
    return 0;
}

static pid_t start_child(const struct stage *stage, struct board *board, int rank)
{
    pid_t child = fork();
    if (child)
        return child;
    struct player player;
    int code = 0;
    configure(stage);
    if (stage->mode == STAGE_THREADS) {
        code = play_threads(stage, board);
    } else {
        prepare(&player, stage, board, rank);
        play(&player);
    }
    _exit(code);
}

static bool all_ended(const pid_t *children, int count, int *status, bool *ended)
{
    int left = 0;
    for (int i = 0; i < count; i++) {
        if (!ended[i])
            ended[i] = waitpid(children[i], &status[i], WNOHANG) == children[i];
        left += !ended[i];
    }
    return left == 0;
}

void stage_play(const struct stage *stage, struct outcome *out)
{
    struct board *board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const int count = stage->mode == STAGE_THREADS ? 1 : stage->ranks;
    pid_t children[STAGE_MAX_RANKS];
    int status[STAGE_MAX_RANKS] = {0};
    bool ended[STAGE_MAX_RANKS] = {false};
    assert_true(board != MAP_FAILED);
    for (int rank = 0; rank < stage->ranks; rank++)
        board->out[rank].code = -1;
    fflush(NULL);
    for (int i = 0; i < count; i++)
        assert_true((children[i] = start_child(stage, board, i)) > 0);
    if (stage->meanwhile)
        stage->meanwhile(stage, children, board->marks);
    const double deadline = seconds_now() + STAGE_LIMIT_S;
    while (!all_ended(children, count, status, ended)) {
        for (int i = 0; i < count && seconds_now() > deadline; i++)
            if (!ended[i])
                kill(children[i], SIGKILL);
        usleep(500);
    }
    memcpy(out, board->out, (size_t)stage->ranks * sizeof *out);
    munmap(board, sizeof *board);
    for (int rank = 0; rank < stage->ranks; rank++)
        out[rank].status = status[stage->mode == STAGE_THREADS ? 0 : rank];
}

void stage_expect_success(const struct stage *stage, struct outcome *out)
{
    int failed = 0;
    stage_play(stage, out);
    for (int rank = 0; rank < stage->ranks; rank++) {
        if (out[rank].code == 0 && out[rank].status == 0)
            continue;
        print_error("%s, rank %d of %d: code %d, status %#x: %s\n",
                    stage->mode == STAGE_THREADS ? "threads" : "processes", rank, stage->ranks, out[rank].code,
                    (unsigned)out[rank].status, out[rank].text);
        failed++;
    }
    assert_int_equal(failed, 0);
}
