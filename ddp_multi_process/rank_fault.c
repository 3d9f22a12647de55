/* SPDX-License-Identifier: MIT
 *
 * A table of what can be planted, tried at each point that a rank comes to.
 */
#include "rank_fault.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sys/clock.h"
#include "sys/exit_codes.h"
#include "sys/fault.h"

#define SLOW_S 0.05

static void die_of(int signal_number)
{
    signal(signal_number, SIG_DFL); /* not what a sanitizer or a library made of it */
    raise(signal_number);
}

static void leave_with(int exit_code)
{
    _exit(exit_code);
}

static void spin(int unused)
{
    for (volatile unsigned turns = (unsigned)unused;; turns++)
        continue;
}

static void go_deaf(int signal_number)
{
    signal(signal_number, SIG_IGN);
    for (;;)
        pause();
}

static const struct fault {
    const char *name;
    void (*happen)(int argument);
    int argument;
} faults[] = {
    {"kill", die_of, SIGKILL},
    {"abort", die_of, SIGABRT},
    {"segv", die_of, SIGSEGV},
    {"fpe", die_of, SIGFPE},
    {"bus", die_of, SIGBUS},
    {"stop", die_of, SIGSTOP},
    {"exit0", leave_with, EXIT_OK},
    {"exit3", leave_with, EXIT_RESOURCE},
    {"spin", spin, 0},
    {"deaf", go_deaf, SIGTERM},
};

static void try_all(int rank, enum progress_phase phase, uint64_t step)
{
    char place[64];
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        if (phase == PROGRESS_STEP)
            snprintf(place, sizeof(place), "%s", faults[i].name);
        else
            snprintf(place, sizeof(place), "%s-at-%s", faults[i].name, progress_phase_name(phase));
        if (fault_planted(place, rank, phase == PROGRESS_STEP ? step - 1 : 0))
            faults[i].happen(faults[i].argument);
    }
    if (phase == PROGRESS_STEP && fault_planted("slow", rank, 0))
        clock_sleep(SLOW_S);
}

void rank_fault_point(int rank, enum progress_phase phase, uint64_t step)
{
    if (getenv("DPBENCH_FAULT"))
        try_all(rank, phase, step);
}
