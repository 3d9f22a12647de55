/* SPDX-License-Identifier: MIT
 *
 * The event loop of the launcher. epoll gives ready descriptors in the order in which they became ready: when two ranks
 * die before we are awake, the first one is still seen first (poll would show the lower number first).
 */
#include "supervise.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "progress.h"
#include "sys/clock.h"
#include "sys/exit_codes.h"
#include "sys/log.h"
#include "wire.h"

#define NEVER 1e18
#define SIGNAL_EVENT UINT32_MAX

enum ending { RUNNING, LEAVING, TERMINATING, KILLING };

/* Why the run ends. */
struct cause {
    int exit_code;     /* 0: nothing has gone wrong */
    bool by_exit_code; /* a rank left by itself: perhaps only because another one died */
    int rank;          /* that one */
    char text[512];    /* of the last line */
};

struct watch {
    struct supervision *run;
    int epoll_fd;
    int alive;
    enum ending ending;
    double escalate_s; /* when the farewell becomes TERM, TERM becomes KILL, and KILL becomes giving up */
    struct cause cause;
};

/* "rank 2 (pid 4711)" and where it is: "in step 17 of 40, phase finish". */
static void describe_rank(const struct watch *watch, int rank, char *who, size_t who_size, char *where,
                          size_t where_size)
{
    uint64_t step;
    enum progress_phase phase = progress_read(rank, &step);
    snprintf(who, who_size, "rank %d (pid %d)", rank, (int)watch->run->processes[rank].pid);
    if (step && watch->run->steps)
        snprintf(where, where_size, "in step %llu of %llu, phase %s", (unsigned long long)step,
                 (unsigned long long)watch->run->steps, progress_phase_name(phase));
    else
        snprintf(where, where_size, "in phase %s", progress_phase_name(phase));
}

static void signal_all(const struct watch *watch, int signal_number)
{
    for (int rank = 0; rank < watch->run->ranks; rank++)
        if (watch->run->processes[rank].pidfd >= 0)
            (void)syscall(SYS_pidfd_send_signal, watch->run->processes[rank].pidfd, signal_number, NULL, 0);
}

/* TERM (or the user's own signal) first; CONT lets a stopped rank get it. */
static void terminate(struct watch *watch, int signal_number)
{
    if (watch->ending >= TERMINATING)
        return;
    watch->ending = TERMINATING;
    watch->escalate_s = clock_seconds() + TERM_TO_KILL_S;
    signal_all(watch, signal_number);
    signal_all(watch, SIGCONT);
}

/* A rank has left with a code: what it has seen the others mostly see too, and leave with their own words; a stopped
 * or spinning one does not. */
static void say_farewell(struct watch *watch)
{
    if (watch->ending != RUNNING)
        return;
    watch->ending = LEAVING;
    watch->escalate_s = clock_seconds() + LEAVING_S;
}

static void kill_all(struct watch *watch)
{
    watch->ending = KILLING;
    watch->escalate_s = clock_seconds() + TERM_TO_KILL_S;
    signal_all(watch, SIGKILL);
}

/* The first cause counts. But a rank that left by itself may have done so because another one died: when that one's
 * death arrives a moment later (connections close before the process has ended), by a signal that is not ours or of
 * the rank that was named, it is the cause; so is a rank that names itself: the others waited for its device. */
static void blame(struct watch *watch, const struct cause *cause)
{
    const struct cause *before = &watch->cause;
    bool first = before->exit_code == 0;
    bool named = progress_blamed(before->rank) == cause->rank || progress_blamed(cause->rank) == cause->rank;
    if (first || (before->by_exit_code && (!cause->by_exit_code || named)))
        watch->cause = *cause;
}

static bool is_our_signal(const struct watch *watch, int signal_number)
{
    return (watch->ending >= TERMINATING && signal_number == SIGTERM) ||
           (watch->ending == KILLING && signal_number == SIGKILL);
}

/* Steps and phases that a rank has behind it; a stopped rank counts as furthest behind. */
static uint64_t place_of(const struct watch *watch, int rank)
{
    uint64_t step;
    enum progress_phase phase = progress_read(rank, &step);
    return watch->run->processes[rank].stopped ? 0 : step * PROGRESS_PHASES + (uint64_t)phase + 1;
}

/* A rank left because of a time limit: for whom did it wait? Those that waited with it have left too by now, so it is a
 * rank that is still there; if none is, one that was behind. Adds its name to the cause. */
static void name_straggler(struct watch *watch)
{
    struct cause *cause = &watch->cause;
    const struct rank_process *processes = watch->run->processes;
    int straggler = cause->rank;
    if (cause->exit_code != EXIT_TIME_LIMIT || !cause->by_exit_code)
        return;
    for (int rank = 0; rank < watch->run->ranks; rank++) {
        bool here = processes[rank].pidfd >= 0, there = processes[straggler].pidfd >= 0;
        if (here > there || (here == there && place_of(watch, rank) < place_of(watch, straggler)))
            straggler = rank;
    }
    char who[64], where[128];
    size_t length = strlen(cause->text);
    describe_rank(watch, straggler, who, sizeof(who), where, sizeof(where));
    if (straggler != cause->rank)
        snprintf(cause->text + length, sizeof(cause->text) - length, "; furthest behind is %s%s %s", who,
                 processes[straggler].stopped ? ", stopped," : "", where);
}

/* What the end of a rank means for the run; exit code 0: nothing, it was to end, or ended by our will. */
static struct cause judge(const struct watch *watch, int rank, const siginfo_t *info)
{
    struct cause cause = {.rank = rank};
    uint64_t step;
    enum progress_phase phase = progress_read(rank, &step);
    char who[64], where[128];
    describe_rank(watch, rank, who, sizeof(who), where, sizeof(where));
    if (info->si_code != CLD_EXITED) {
        if (is_our_signal(watch, info->si_status))
            return cause;
        const char *name = sigabbrev_np(info->si_status);
        cause.exit_code = EXIT_SIGNAL + info->si_status;
        snprintf(cause.text, sizeof(cause.text), "%s died of signal %d (SIG%s) %s", who, info->si_status,
                 name ? name : "?", where);
    } else if (info->si_status != 0) {
        cause.exit_code = info->si_status;
        cause.by_exit_code = true;
        snprintf(cause.text, sizeof(cause.text), "%s ended with exit code %d %s", who, info->si_status, where);
    } else if (phase != PROGRESS_END) {
        cause.exit_code = EXIT_CHECK_FAILED;
        snprintf(cause.text, sizeof(cause.text), "%s left after step %llu of %llu with exit code 0", who,
                 (unsigned long long)(step ? step - 1 : 0), (unsigned long long)watch->run->steps);
    }
    return cause;
}

static void on_exit_event(struct watch *watch, int rank)
{
    struct rank_process *process = &watch->run->processes[rank];
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)process->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
        return;
    (void)epoll_ctl(watch->epoll_fd, EPOLL_CTL_DEL, process->pidfd, NULL);
    close(process->pidfd);
    process->pidfd = -1;
    process->stopped = false;
    watch->alive--;
    struct cause cause = judge(watch, rank, &info);
    if (!cause.exit_code)
        return;
    blame(watch, &cause);
    if (cause.by_exit_code)
        say_farewell(watch);
    else
        terminate(watch, SIGTERM);
}

/* Stops and continuations; exits come by pidfd. */
static void on_child_signal(struct watch *watch)
{
    for (int rank = 0; rank < watch->run->ranks; rank++) {
        struct rank_process *process = &watch->run->processes[rank];
        siginfo_t info = {0};
        if (process->pidfd < 0 || waitid(P_PID, (id_t)process->pid, &info, WSTOPPED | WCONTINUED | WNOHANG) != 0 ||
            !info.si_pid)
            continue;
        process->stopped = info.si_code == CLD_STOPPED;
        process->stopped_s = clock_seconds();
        char who[64], where[128];
        describe_rank(watch, rank, who, sizeof(who), where, sizeof(where));
        if (process->stopped && watch->ending == RUNNING)
            log_warning("%s was stopped by signal %d %s: the run ends in %g s unless it goes on", who, info.si_status,
                        where, watch->run->timeout_s);
    }
}

/* INT, TERM, HUP of the launcher itself: passed on; a second one kills. */
static void on_interrupt(struct watch *watch, int signal_number)
{
    if (watch->ending >= TERMINATING) {
        kill_all(watch);
        return;
    }
    struct cause cause = {.exit_code = EXIT_SIGNAL + signal_number};
    char who[64], where[128];
    describe_rank(watch, 0, who, sizeof(who), where, sizeof(where));
    snprintf(cause.text, sizeof(cause.text), "interrupted by signal %d (SIG%s); %s was %s", signal_number,
             sigabbrev_np(signal_number), who, where);
    blame(watch, &cause);
    terminate(watch, signal_number);
}

static void on_signal_event(struct watch *watch)
{
    struct signalfd_siginfo info;
    while (read(watch->run->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGCHLD)
            on_child_signal(watch);
        else
            on_interrupt(watch, (int)info.ssi_signo);
    }
}

/* The next moment at which something is due, whatever happens. */
static double next_deadline(const struct watch *watch)
{
    if (watch->ending != RUNNING)
        return watch->escalate_s;
    double next = NEVER;
    for (int rank = 0; rank < watch->run->ranks; rank++) {
        const struct rank_process *process = &watch->run->processes[rank];
        if (process->stopped && process->stopped_s + watch->run->timeout_s < next)
            next = process->stopped_s + watch->run->timeout_s;
    }
    return next;
}

static void end_stopped_run(struct watch *watch)
{
    for (int rank = 0; rank < watch->run->ranks; rank++) {
        const struct rank_process *process = &watch->run->processes[rank];
        if (!process->stopped || process->stopped_s + watch->run->timeout_s > clock_seconds())
            continue;
        struct cause cause = {.exit_code = EXIT_TIME_LIMIT};
        char who[64], where[128];
        describe_rank(watch, rank, who, sizeof(who), where, sizeof(where));
        snprintf(cause.text, sizeof(cause.text), "%s stayed stopped for %g s %s", who, watch->run->timeout_s, where);
        blame(watch, &cause);
        terminate(watch, SIGTERM);
        return;
    }
}

/* false: even SIGKILL did not help; there is nothing more to wait for. */
static bool on_deadline(struct watch *watch)
{
    if (watch->ending == RUNNING) {
        end_stopped_run(watch);
        return true;
    }
    if (watch->ending == LEAVING) {
        name_straggler(watch);
        terminate(watch, SIGTERM);
        return true;
    }
    if (watch->ending == TERMINATING) {
        kill_all(watch);
        return true;
    }
    for (int rank = 0; rank < watch->run->ranks; rank++)
        if (watch->run->processes[rank].pidfd >= 0)
            log_error("rank %d (pid %d) survived SIGKILL", rank, (int)watch->run->processes[rank].pid);
    watch->cause.exit_code = EXIT_UNKILLABLE;
    return false;
}

static void loop(struct watch *watch)
{
    while (watch->alive > 0) {
        struct epoll_event events[16];
        double deadline = next_deadline(watch);
        int count = epoll_wait(watch->epoll_fd, events, 16, deadline >= NEVER ? -1 : wire_milliseconds(deadline));
        for (int i = 0; i < count; i++) {
            if (events[i].data.u32 == SIGNAL_EVENT)
                on_signal_event(watch);
            else
                on_exit_event(watch, (int)events[i].data.u32);
        }
        if (clock_seconds() >= next_deadline(watch) && !on_deadline(watch))
            return;
    }
}

/* Everything into one epoll. A rank that can't be watched must not run: -1. */
static int watch_all(struct watch *watch)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = SIGNAL_EVENT};
    watch->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (watch->epoll_fd < 0 || epoll_ctl(watch->epoll_fd, EPOLL_CTL_ADD, watch->run->signal_fd, &event) != 0)
        return -1;
    for (int rank = 0; rank < watch->run->ranks; rank++) {
        event.data.u32 = (uint32_t)rank;
        if (epoll_ctl(watch->epoll_fd, EPOLL_CTL_ADD, watch->run->processes[rank].pidfd, &event) != 0)
            return -1;
        watch->alive++;
    }
    return 0;
}

/* What the ranks may have started dies with the group, before the last zombie gives its number back. */
static void reap(struct supervision *run)
{
    if (run->group > 0)
        (void)kill(-run->group, SIGKILL);
    for (int rank = 0; rank < run->ranks; rank++) {
        siginfo_t info;
        if (run->processes[rank].pidfd < 0)
            while (waitid(P_PID, (id_t)run->processes[rank].pid, &info, WEXITED) != 0 && errno == EINTR)
                continue;
    }
}

/* Had they all left within the farewell, nobody has named the straggler yet. */
static int run_watch(struct watch *watch)
{
    if (watch->cause.exit_code)
        terminate(watch, SIGTERM);
    loop(watch);
    if (watch->ending == LEAVING)
        name_straggler(watch);
    reap(watch->run);
    if (watch->cause.text[0])
        log_error("%s, after %.2f s; exit code %d", watch->cause.text, clock_seconds() - watch->run->started_s,
                  watch->cause.exit_code);
    close(watch->epoll_fd);
    return watch->cause.exit_code;
}

int supervise(struct supervision *supervision)
{
    return supervise_abandon(supervision, EXIT_OK);
}

int supervise_abandon(struct supervision *supervision, int exit_code)
{
    struct watch watch = {.run = supervision, .epoll_fd = -1, .cause.exit_code = exit_code};
    if (watch_all(&watch) != 0) {
        log_error("can't watch the ranks: epoll: %s", strerror(errno));
        for (int rank = 0; rank < supervision->ranks; rank++)
            (void)kill(supervision->processes[rank].pid, SIGKILL);
        return EXIT_RESOURCE;
    }
    return run_watch(&watch);
}
