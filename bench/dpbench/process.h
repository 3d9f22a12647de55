/* SPDX-License-Identifier: MIT
 *
 * Runs one program to its end, or to a deadline, or to an interrupt of ours; leaves none of its processes behind.
 */
#ifndef DPBENCH_PROCESS_H
#define DPBENCH_PROCESS_H

#include <stdbool.h>
#include <stddef.h>

struct process_result {
    int exit_code;   /* the program's; 128 + N if it died of signal N; -1 if it could not be started */
    bool timed_out;  /* the deadline passed and it was ended */
    int interrupted; /* the signal (SIGINT, SIGTERM, SIGHUP) that ended it through us, or 0 */
    double seconds;
    char last_line[400]; /* of what it wrote to stderr: by convention it names the cause */
};

/* Blocks INT, TERM and HUP for good and reads them through a descriptor from now on. Call once, before process_run. */
int process_open(void);

/* A signal that has arrived while no process ran, or 0. */
int process_pending_signal(void);

/* argv[0] is a path, or a name that PATH finds. The program gets a process group of its own, stdin from /dev/null,
 * stdout and stderr into the file `log`. Past `deadline` seconds, or when a signal comes: TERM to the group, KILL after
 * 2 s. The whole group gets KILL once its leader has ended. 0, or EXIT_RESOURCE if it could not be started (reported;
 * result->exit_code = -1). */
int process_run(const char *const argv[], const char *log, double deadline, struct process_result *result);

/* "exit code 3: no device": how the program ended, and what was said of it (`said`; empty: its last line). From 128 on
 * the signal is named, "exit code 139 (SIGSEGV)", for who dies of one says nothing. */
void process_describe_end(const struct process_result *result, const char *said, char *text, size_t size);

#endif
