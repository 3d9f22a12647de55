/* SPDX-License-Identifier: MIT
 *
 * One child process under supervision (process.h): poll on its pidfd and on a signalfd, never a spin, never a bare
 * sleep.
 */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/clock.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

#define TERM_TO_KILL_S 2.0
#define EXEC_FAILED 127

static int signal_fd = -1;
static sigset_t watched;

int process_open(void)
{
    sigemptyset(&watched);
    sigaddset(&watched, SIGINT);
    sigaddset(&watched, SIGTERM);
    sigaddset(&watched, SIGHUP);
    sigprocmask(SIG_BLOCK, &watched, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal_fd = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signal_fd < 0) {
        log_error("signalfd: %s", strerror(errno));
        return EXIT_RESOURCE;
    }
    return EXIT_OK;
}

int process_pending_signal(void)
{
    struct signalfd_siginfo info;
    return signal_fd >= 0 && read(signal_fd, &info, sizeof info) == (ssize_t)sizeof info ? (int)info.ssi_signo : 0;
}

/* In the child: never returns. */
static void become(const char *const argv[], int log_fd, pid_t parent)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXEC_FAILED);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &watched, NULL);
    int null_fd = open("/dev/null", O_RDONLY);
    if (null_fd < 0 || dup2(null_fd, 0) < 0 || dup2(log_fd, 1) < 0 || dup2(log_fd, 2) < 0)
        _exit(EXEC_FAILED);
    execvp(argv[0], (char *const *)(uintptr_t)argv); /* it does not change them */
    dprintf(2, "%s: cannot be started: %s\n", argv[0], strerror(errno));
    _exit(EXEC_FAILED);
}

/* The last line with text in it, without its end. */
static void read_last_line(int fd, char *line, size_t size)
{
    char tail[4096];
    off_t length = lseek(fd, 0, SEEK_END);
    off_t from = length > (off_t)sizeof tail - 1 ? length - (off_t)sizeof tail + 1 : 0;
    ssize_t n = pread(fd, tail, sizeof tail - 1, from);
    line[0] = '\0';
    if (n <= 0)
        return;
    while (n > 0 && (tail[n - 1] == '\n' || tail[n - 1] == ' '))
        n--;
    tail[n] = '\0';
    const char *start = strrchr(tail, '\n');
    start = start ? start + 1 : tail;
    size_t length_kept = strnlen(start, size - 1);
    memcpy(line, start, length_kept);
    line[length_kept] = '\0';
}

/* Waits until the leader has ended, sending TERM and then KILL when time or a signal says so. */
static void supervise(pid_t pid, int pid_fd, double deadline, struct process_result *result)
{
    struct pollfd events[2] = {{.fd = pid_fd, .events = POLLIN}, {.fd = signal_fd, .events = POLLIN}};
    bool ending = false;
    for (;;) {
        double left = deadline - clock_seconds();
        int n = poll(events, 2, left > 0 ? (int)(left * 1000) + 1 : 0);
        if (n < 0 && errno != EINTR)
            return;
        if (n > 0 && events[0].revents)
            return;
        int signal_number = process_pending_signal();
        if (signal_number && ending)
            deadline = 0; /* asked twice: at once */
        if (signal_number && !result->interrupted)
            result->interrupted = signal_number;
        bool late = clock_seconds() >= deadline;
        if (ending && late) {
            kill(-pid, SIGKILL);
            deadline = clock_seconds() + TERM_TO_KILL_S;
        } else if (!ending && (late || signal_number)) {
            result->timed_out = !signal_number;
            ending = true;
            kill(-pid, SIGTERM);
            kill(-pid, SIGCONT);
            deadline = clock_seconds() + TERM_TO_KILL_S;
        }
    }
}

static int start(const char *const argv[], int log_fd, pid_t *pid, int *pid_fd)
{
    pid_t parent = getpid();
    *pid = fork();
    if (*pid == 0)
        become(argv, log_fd, parent);
    if (*pid < 0) {
        log_error("%s: fork: %s", argv[0], strerror(errno));
        return EXIT_RESOURCE;
    }
    setpgid(*pid, *pid);
    *pid_fd = (int)syscall(SYS_pidfd_open, *pid, 0);
    if (*pid_fd < 0) {
        log_error("%s: pidfd_open: %s", argv[0], strerror(errno));
        kill(*pid, SIGKILL);
        waitpid(*pid, NULL, 0);
        return EXIT_RESOURCE;
    }
    return EXIT_OK;
}

int process_run(const char *const argv[], const char *log, double deadline, struct process_result *result)
{
    *result = (struct process_result){.exit_code = -1};
    int log_fd = open(log, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (log_fd < 0) {
        log_error("%s: %s", log, strerror(errno));
        return EXIT_RESOURCE;
    }
    double begin = clock_seconds();
    pid_t pid;
    int pid_fd;
    int rc = start(argv, log_fd, &pid, &pid_fd);
    if (!rc) {
        supervise(pid, pid_fd, begin + deadline, result);
        siginfo_t info = {0};
        waitid(P_PID, (id_t)pid, &info,
               WEXITED | WNOWAIT); /* still a zombie: its group's number cannot be taken over */
        kill(-pid, SIGKILL);
        waitpid(pid, NULL, 0);
        result->exit_code = info.si_code == CLD_EXITED ? info.si_status : EXIT_SIGNAL + info.si_status;
        result->seconds = clock_seconds() - begin;
        read_last_line(log_fd, result->last_line, sizeof result->last_line);
        close(pid_fd);
    }
    close(log_fd);
    return rc;
}

void process_describe_end(const struct process_result *result, const char *said, char *text, size_t size)
{
    int code = result->exit_code;
    const char *signal_name = code > EXIT_SIGNAL ? sigabbrev_np(code - EXIT_SIGNAL) : NULL;
    const char *words = *said ? said : result->last_line;
    snprintf(text, size, "exit code %d%s%s%s%s%s", code, signal_name ? " (SIG" : "", signal_name ? signal_name : "",
             signal_name ? ")" : "", *words ? ": " : ", without a word", words);
}
