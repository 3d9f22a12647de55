# SPDX-License-Identifier: MIT
"""How a run of 4 ranks ends that is killed or interrupted: asked of the launcher alone (toy_train) and of ddp-train.

start(): starts a run that goes on for long; short(env): one of 5 steps; forty(env): one of 40.
"""
import os
import signal

from processes import check, expect, fault


def sigkill_of_each_rank(start):
    for rank in range(4):
        run = start()
        run.wait_step(rank, 10)
        pid = run.ranks()[rank]
        os.kill(pid, signal.SIGKILL)
        expect(run, 137, f"rank {rank} (pid {pid})", "SIGKILL", "in step", limit=0.5)


def sigkill_in_each_phase(short, places):
    """places: (rank, phase)."""
    for rank, phase in places:
        run = short(fault(f"kill-at-{phase}:{rank}:step0"))
        expect(run, 137, f"rank {rank} (pid ", "SIGKILL", f"phase {phase}", limit=1)


def signals_and_codes(forty, step):
    """step: how the launcher tells of the step behind 16 others."""
    for name, code, text in (("segv", 139, "SIGSEGV"), ("abort", 134, "SIGABRT"), ("fpe", 136, "SIGFPE"),
                             ("bus", 135, "SIGBUS"), ("exit3", 3, "exit code 3")):
        expect(forty(fault(f"{name}:2:step16")), code, "rank 2 (pid ", text, step, limit=1)


def sigkill_of_the_launcher(start, short):
    run = start()
    run.wait_step(0, 10)
    os.kill(run.pid, signal.SIGKILL)
    check(run.finish(1) == -9, "the launcher is not dead")   # finish: nobody holds its stderr any more
    check(not run.left(), f"ranks are left: {run.left()}")
    expect(short(), 0)


def interruption(start):
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
        run = start()
        run.wait_step(0, 10)
        os.kill(run.pid, number)
        expect(run, code, f"interrupted by signal {int(number)}", limit=1)
