/* SPDX-License-Identifier: MIT
 *
 * Starting the ranks. Three nets against orphans: the kernel kills a rank whose launcher dies (PR_SET_PDEATHSIG, and a
 * check that it had not died before), a pipe that closes with the launcher, and the ranks' own process group.
 */
#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "environment.h"
#include "progress.h"
#include "rendezvous.h"
#include "supervise.h"
#include "sys/clock.h"
#include "sys/exit_codes.h"
#include "sys/fault.h"
#include "sys/log.h"

/* Descriptors of the hungriest process, rank 0: a connection, a device's memory and a place to spare for each rank. */
#define DESCRIPTORS_PER_RANK 4
#define DESCRIPTORS_BESIDE 32

struct start {
    const struct launch *launch;
    int port;
    int listen_fd, progress_fd;
    int lifeline[2]; /* the ranks hold the end to read from, we alone the other */
    char token[2 * TOKEN_BYTES + 1];
    pid_t launcher_pid;
    sigset_t old_mask;
    struct supervision supervision;
};

int launcher_hold_lifeline(int fd)
{
    /* When the other end closes the kernel sends SIGIO, which ends the process: no thread has to wait for it. */
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 && signal(SIGIO, SIG_DFL) != SIG_ERR &&
        fcntl(fd, F_SETOWN, getpid()) == 0 && fcntl(fd, F_SETFL, O_ASYNC | O_NONBLOCK) == 0) {
        char byte;
        if (read(fd, &byte, 1) < 0 && errno == EAGAIN)
            return EXIT_OK;
        log_error("the launcher is gone");
        return EXIT_RESOURCE;
    }
    log_error("the pipe from the launcher (descriptor %d): %s", fd, strerror(errno));
    return EXIT_RESOURCE;
}

static int check_descriptors(int ranks)
{
    struct rlimit limit;
    rlim_t needed = DESCRIPTORS_BESIDE + (rlim_t)ranks * DESCRIPTORS_PER_RANK;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed)
        return EXIT_OK;
    limit.rlim_cur = limit.rlim_max < needed ? limit.rlim_max : needed;
    if (limit.rlim_cur == needed && setrlimit(RLIMIT_NOFILE, &limit) == 0)
        return EXIT_OK;
    log_error("%d ranks need %llu open files in a process, the limit is %llu (ulimit -n)", ranks,
              (unsigned long long)needed, (unsigned long long)limit.rlim_cur);
    return EXIT_RESOURCE;
}

static int make_token(char text[2 * TOKEN_BYTES + 1])
{
    uint8_t token[TOKEN_BYTES];
    if (getentropy(token, sizeof(token)) != 0) {
        log_error("getentropy: %s", strerror(errno));
        return EXIT_RESOURCE;
    }
    for (int i = 0; i < TOKEN_BYTES; i++)
        snprintf(text + (size_t)2 * (size_t)i, 3, "%02x", token[i]);
    return EXIT_OK;
}

static int block_signals(struct start *start)
{
    static const int watched[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP};
    sigset_t signals;
    sigemptyset(&signals);
    for (size_t i = 0; i < sizeof(watched) / sizeof(watched[0]); i++) {
        struct sigaction action;
        /* What is ignored (nohup, a shell's background job) stays ignored; but SIGCHLD must come. */
        if (watched[i] == SIGCHLD)
            signal(SIGCHLD, SIG_DFL);
        if (sigaction(watched[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(&signals, watched[i]);
    }
    sigprocmask(SIG_BLOCK, &signals, &start->old_mask);
    start->supervision.signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (start->supervision.signal_fd >= 0)
        return EXIT_OK;
    log_error("signalfd: %s", strerror(errno));
    return EXIT_RESOURCE;
}

/* ---- in the child, between fork and exec ------------------------------------------------------------------------- */

static void set_number(const char *name, int number)
{
    char text[16];
    snprintf(text, sizeof(text), "%d", number);
    setenv(name, text, 1);
}

static void pass_descriptor(const char *name, int fd)
{
    fcntl(fd, F_SETFD, 0);
    set_number(name, fd);
}

static void set_environment(const struct start *start, int rank)
{
    set_number("RANK", rank);
    set_number("LOCAL_RANK", rank);
    set_number("WORLD_SIZE", start->launch->ranks);
    set_number("LOCAL_WORLD_SIZE", start->launch->ranks);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    set_number("MASTER_PORT", start->port);
    unsetenv("TORCHELASTIC_USE_AGENT_STORE");
    setenv(ENV_TOKEN, start->token, 1);
    pass_descriptor(ENV_PROGRESS_FD, start->progress_fd);
    pass_descriptor(ENV_LIFELINE_FD, start->lifeline[0]);
    if (rank == 0)
        pass_descriptor(ENV_LISTEN_FD, start->listen_fd);
}

/* Nobody reads the terminal; only rank 0 writes to stdout. */
static bool set_standard_files(int rank)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    return null >= 0 && dup2(null, STDIN_FILENO) >= 0 && (rank == 0 || dup2(null, STDOUT_FILENO) >= 0);
}

/* Becomes the rank; on failure tells errno through the pipe. */
static _Noreturn void become_rank(const struct start *start, int rank, int failure_fd)
{
    setpgid(0, start->supervision.group);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != start->launcher_pid)
        _exit(EXIT_RESOURCE);
    sigprocmask(SIG_SETMASK, &start->old_mask, NULL);
    if (set_standard_files(rank)) {
        set_environment(start, rank);
        execv(fault_planted("noexec", rank, 0) ? "/nonexistent" : "/proc/self/exe", start->launch->argv);
    }
    int error = errno;
    ssize_t ignored = write(failure_fd, &error, sizeof(error));
    (void)ignored;
    _exit(EXIT_RESOURCE);
}

/* ---- in the launcher --------------------------------------------------------------------------------------------- */

/* Waits for exec to close the pipe. Returns errno of a start that failed, 0 else. */
static int read_failure(int fd)
{
    int error = 0;
    ssize_t received;
    do
        received = read(fd, &error, sizeof(error));
    while (received < 0 && errno == EINTR);
    return received == (ssize_t)sizeof(error) ? error : 0;
}

static int start_rank(struct start *start, int rank)
{
    struct supervision *run = &start->supervision;
    struct rank_process *process = &run->processes[rank];
    int failure[2];
    if (pipe2(failure, O_CLOEXEC) != 0) {
        log_error("rank %d: pipe: %s", rank, strerror(errno));
        return EXIT_RESOURCE;
    }
    pid_t pid = fork();
    if (pid == 0)
        become_rank(start, rank, failure[1]);
    int error = pid < 0 ? errno : 0;
    close(failure[1]);
    if (pid > 0) {
        if (run->group == 0)
            run->group = pid;
        setpgid(pid, run->group);
        *process = (struct rank_process){.pid = pid, .pidfd = (int)syscall(SYS_pidfd_open, pid, 0)};
        if (process->pidfd < 0) {
            error = errno;
            kill(pid, SIGKILL);
        } else {
            run->ranks++;
            error = read_failure(failure[0]);
        }
    }
    close(failure[0]);
    if (error)
        log_error("rank %d can't be started: %s: %s", rank, pid < 0 ? "fork" : "exec", strerror(error));
    return error ? EXIT_RESOURCE : EXIT_OK;
}

static int prepare(struct start *start)
{
    int ranks = start->launch->ranks, status;
    if ((status = environment_launcher_port(&start->port)) || (status = check_descriptors(ranks)) ||
        (status = make_token(start->token)) || (status = block_signals(start)) ||
        (status = progress_create(ranks, &start->progress_fd)) ||
        (status = rendezvous_listen("127.0.0.1", start->port, &start->listen_fd, &start->port)))
        return status;
    start->supervision.processes = calloc((size_t)ranks, sizeof(struct rank_process));
    if (start->supervision.processes && pipe2(start->lifeline, O_CLOEXEC) == 0)
        return EXIT_OK;
    log_error("no memory or descriptors for %d ranks: %s", ranks, strerror(errno));
    return EXIT_RESOURCE;
}

int launcher_run(const struct launch *launch)
{
    struct start start = {
        .launch = launch,
        .listen_fd = -1,
        .progress_fd = -1,
        .lifeline = {-1, -1},
        .launcher_pid = getpid(),
        .supervision = {
            .signal_fd = -1, .started_s = clock_seconds(), .timeout_s = launch->timeout_s, .steps = launch->steps}};
    int status = prepare(&start);
    for (int rank = 0; rank < launch->ranks && !status; rank++)
        status = start_rank(&start, rank);
    /* Rank 0 has its own copy: the port is free as soon as it leaves. */
    if (start.listen_fd >= 0)
        close(start.listen_fd);
    if (start.supervision.processes)
        status = status ? supervise_abandon(&start.supervision, status) : supervise(&start.supervision);
    /* The process ends here: the system closes the pipe, the page and the signalfd. */
    free(start.supervision.processes);
    return status;
}
