/* SPDX-License-Identifier: MIT
 *
 * Ranks as threads or as processes. They meet on a board in memory that parent and ranks share; a process is forked
 * before any device is opened, and dies with its parent. The first rank that fails, or dies, ends the run: nobody waits
 * for it.
 */
#include "perf.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/backend.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

struct board {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int arrived, meetings;
    bool failed;
    ncclUniqueId id;
    uint64_t wrong;               /* of the run */
    double us[2][PERF_MAX_RANKS]; /* by parity of the sum, so that a fast rank does not overwrite it */
    uint64_t wrongs[2][PERF_MAX_RANKS];
    int sums[PERF_MAX_RANKS];
    struct rank_facts facts[PERF_MAX_RANKS];
};

static struct board *board_new(void)
{
    struct board *board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t shared_lock;
    pthread_condattr_t shared_condition;
    if (board == MAP_FAILED)
        return NULL;
    pthread_mutexattr_init(&shared_lock);
    pthread_mutexattr_setpshared(&shared_lock, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&board->lock, &shared_lock);
    pthread_condattr_init(&shared_condition);
    pthread_condattr_setpshared(&shared_condition, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&board->changed, &shared_condition);
    return board;
}

int board_meet(struct board *board, int ranks)
{
    pthread_mutex_lock(&board->lock);
    const int meeting = board->meetings;
    if (++board->arrived == ranks) {
        board->arrived = 0;
        board->meetings++;
        pthread_cond_broadcast(&board->changed);
    }
    while (board->meetings == meeting && !board->failed)
        pthread_cond_wait(&board->changed, &board->lock);
    const bool failed = board->failed;
    pthread_mutex_unlock(&board->lock);
    return failed ? EXIT_CHECK_FAILED : EXIT_OK;
}

void board_fail(struct board *board)
{
    pthread_mutex_lock(&board->lock);
    board->failed = true;
    pthread_cond_broadcast(&board->changed);
    pthread_mutex_unlock(&board->lock);
}

ncclUniqueId *board_id(struct board *board)
{
    return &board->id;
}

const struct rank_facts *board_facts(const struct board *board)
{
    return board->facts;
}

void board_describe(struct board *board, int rank, int device, const char *name, const char *cores)
{
    struct rank_facts *facts = &board->facts[rank];
    facts->process = getpid();
    facts->device = device;
    snprintf(facts->name, sizeof facts->name, "%s", name);
    snprintf(facts->cores, sizeof facts->cores, "%s", cores);
}

void board_add_wrong(struct board *board, uint64_t wrong)
{
    board->wrong += wrong;
}

int board_sum(struct board *board, const struct perf_rank *rank, double us, uint64_t wrong, struct measurement *sum)
{
    const int parity = board->sums[rank->rank]++ & 1, ranks = rank->options->ranks;
    board->us[parity][rank->rank] = us;
    board->wrongs[parity][rank->rank] = wrong;
    TRY(board_meet(board, ranks));
    *sum = (struct measurement){0};
    for (int r = 0; r < ranks; r++) {
        sum->us += board->us[parity][r];
        sum->wrong += board->wrongs[parity][r];
    }
    return EXIT_OK;
}

/* ---- threads ----------------------------------------------------------------------------------------------------- */

struct actor {
    struct perf_rank rank;
    int status;
};

static void *act(void *argument)
{
    struct actor *actor = argument;
    actor->status = perf_run_rank(&actor->rank);
    return NULL;
}

static int run_threads(const struct perf_options *options, struct board *board)
{
    struct actor actors[PERF_MAX_RANKS] = {0};
    pthread_t threads[PERF_MAX_RANKS];
    int started = 0, status = EXIT_OK;
    for (; started < options->ranks; started++) {
        actors[started].rank =
            (struct perf_rank){.rank = started, .options = options, .board = board, .device = started};
        if (pthread_create(&threads[started], NULL, act, &actors[started]))
            break;
    }
    if (started < options->ranks) {
        log_error("can't start the thread of rank %d", started);
        board_fail(board);
        status = EXIT_RESOURCE;
    }
    for (int rank = 0; rank < started; rank++) {
        pthread_join(threads[rank], NULL);
        status = status ? status : actors[rank].status;
    }
    return status;
}

/* ---- processes --------------------------------------------------------------------------------------------------- */

/* Returns the child's process id, or -1; does not return in the child. */
static pid_t start_process(const struct perf_options *options, struct board *board, int rank)
{
    const pid_t parent = getpid(), child = fork();
    if (child)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_CHECK_FAILED);
    log_set_rank(rank);
    struct perf_rank self = {.rank = rank, .options = options, .board = board, .device = rank};
    int status = perf_run_rank(&self);
    fflush(stdout);
    _exit(status);
}

static void kill_others(const pid_t *children, int count)
{
    for (int i = 0; i < count; i++)
        if (children[i] > 0)
            kill(children[i], SIGKILL);
}

static int status_of(int wait_status, int rank, pid_t process)
{
    if (WIFSIGNALED(wait_status)) {
        log_error("rank %d (process %d) died of signal %d (%s)", rank, (int)process, WTERMSIG(wait_status),
                  strsignal(WTERMSIG(wait_status)));
        return EXIT_SIGNAL + WTERMSIG(wait_status);
    }
    return WEXITSTATUS(wait_status);
}

/* Collects all children; the first that fails ends the others. */
static int collect(pid_t *children, int count)
{
    int status = EXIT_OK;
    for (int left = count; left > 0; left--) {
        int wait_status;
        pid_t process;
        do
            process = waitpid(-1, &wait_status, 0);
        while (process < 0 && errno == EINTR);
        for (int rank = 0; rank < count; rank++) {
            if (children[rank] != process)
                continue;
            children[rank] = 0;
            if (!status) {
                status = status_of(wait_status, rank, process);
                if (status)
                    kill_others(children, count);
            }
        }
    }
    return status;
}

static int run_processes(const struct perf_options *options, struct board *board)
{
    pid_t children[PERF_MAX_RANKS];
    fflush(NULL);
    for (int rank = 0; rank < options->ranks; rank++) {
        children[rank] = start_process(options, board, rank);
        if (children[rank] > 0)
            continue;
        log_error("can't start the process of rank %d: %s", rank, strerror(errno));
        kill_others(children, rank);
        collect(children, rank);
        return EXIT_RESOURCE;
    }
    return collect(children, options->ranks);
}

int perf_run_ranks(const struct perf_options *options, uint64_t *wrong)
{
    struct board *board = board_new();
    if (!board) {
        log_error("no shared memory for %d ranks: %s", options->ranks, strerror(errno));
        return EXIT_RESOURCE;
    }
    int status = options->mode == PERF_THREADS ? run_threads(options, board) : run_processes(options, board);
    *wrong = board->wrong;
    munmap(board, sizeof *board);
    return status;
}
