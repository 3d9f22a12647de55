# SPDX-License-Identifier: MIT
"""The launcher under faults: test_supervision.py TOY_TRAIN. T is 3 s."""
import os
import random
import resource
import signal
import sys
import time

import endings
from processes import Run, check, expect, fault, links, run_tests

TOY = sys.argv[1]
T = 3


def launch(ranks=4, steps=100000, env=None, **options):
    return Run([TOY, ranks, steps, T, 5, "lr=1"], env, **options)


def short(env=None):
    return launch(4, 5, env)


def forty(env=None):
    return launch(4, 40, env)


def test_a_good_run():
    for ranks in (1, 2, 8):
        run = launch(ranks, 20)
        expect(run, 0)
        check(run.out == "trained\n", f"stdout: {run.out!r}")
        check(run.err == "", f"stderr: {run.err!r}")


def test_sigkill_of_each_rank():
    endings.sigkill_of_each_rank(launch)


def test_sigkill_in_each_phase():
    endings.sigkill_in_each_phase(short, ((0, "start"), (3, "start"), (0, "rendezvous"), (2, "rendezvous"), (1, "finish"),
                                          (2, "end"), (0, "end")))


def test_signals_and_codes():
    endings.signals_and_codes(forty, "in step 17 of 40")


def test_leaving_too_early_with_0():
    expect(forty(fault("exit0:2:step17")), 1, "rank 2 (pid ", "left after step 17 of 40", limit=1)


def test_of_two_deaths_the_first_is_the_cause():
    """Both before the launcher is awake: it must not go by rank number."""
    for first, second in ((2, 1), (1, 3), (3, 0)):
        run = launch()
        run.wait_step(first, 3)
        ranks = run.ranks()
        os.kill(run.pid, signal.SIGSTOP)
        os.kill(ranks[first], signal.SIGKILL)
        while state(ranks[first]) != "Z":
            time.sleep(0.001)
        if state(ranks[second]) != "Z":
            os.kill(ranks[second], signal.SIGSEGV)
        while state(ranks[second]) != "Z":
            time.sleep(0.001)
        os.kill(run.pid, signal.SIGCONT)
        expect(run, 137, f"rank {first} (pid {ranks[first]})", limit=1)


def state(pid):
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0]


def test_sigkill_of_the_launcher():
    endings.sigkill_of_the_launcher(launch, short)


def test_interruption():
    endings.interruption(launch)


def test_a_second_interruption_kills():
    """The deaf rank would hold the launcher up for the 2 s between TERM and KILL."""
    run = launch(4, 100000, fault("deaf:1:step2"))
    run.wait_step(1, 3)
    others = [pid for rank, pid in enumerate(run.ranks()) if rank != 1]
    os.kill(run.pid, signal.SIGTERM)
    run.wait(lambda: all(state(pid) == "Z" for pid in others), "the death of the others")
    started = time.monotonic()
    os.kill(run.pid, signal.SIGINT)
    expect(run, 143, "interrupted", limit=1)
    check(time.monotonic() - started < 1.9, "it waited for the ranks to heed TERM")


def test_a_rank_that_ignores_term():
    run = launch(4, 100000, fault("deaf:1:step2"))
    run.wait_step(1, 3)
    started = time.monotonic()
    os.kill(run.ranks()[3], signal.SIGKILL)
    expect(run, 137, "rank 3 (pid ", limit=3)
    check(time.monotonic() - started > 1.9, "KILL came before its time")


def test_ignored_hangup_stays_ignored():
    """nohup: the launcher and its ranks go on."""
    run = launch(2, 300, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    run.wait_step(0, 5)
    os.kill(run.pid, signal.SIGHUP)
    expect(run, 0)


def test_exec_fails():
    expect(short(fault("noexec:2:step0")), 3, "rank 2 can't be started: exec", limit=1)


def test_fork_fails():
    """As a user who may have no more processes than the launcher and two ranks."""
    def poor():
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        resource.setrlimit(resource.RLIMIT_NPROC, (tasks_of(os.getuid()) + 2, tasks_of(os.getuid()) + 2))
    program = os.open(TOY, os.O_RDONLY)
    run = Run([f"/proc/self/fd/{program}", 4, 5, T, 5, "lr=1"], preexec_fn=poor, pass_fds=[program])
    os.close(program)
    expect(run, 3, "can't be started: fork", limit=1)


def tasks_of(uid):
    count = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{pid}").st_uid == uid:
                count += len(os.listdir(f"/proc/{pid}/task"))
        except OSError:
            pass
    return count


def test_too_few_descriptors():
    def poor():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    expect(launch(32, 5, preexec_fn=poor), 3, "32 ranks need", "the limit is 64", limit=1)


def test_stdout_closed():
    shell = f"{TOY} 4 20 {T} 5 lr=1 | true"
    run = Run(["sh", "-c", shell])
    expect(run, 0)


def test_a_stopped_rank_is_named_and_ends_the_run():
    run = launch()
    run.wait_step(2, 5)
    started = time.monotonic()
    os.kill(run.ranks()[2], signal.SIGSTOP)
    expect(run, 6, "rank 2 (pid ", "stopped", limit=T + 1)
    check(time.monotonic() - started < T + 1.9, "the stopped rank did not get TERM, but KILL 2 s later")
    check("rank 2 (pid " in run.err.splitlines()[0] and "was stopped" in run.err.splitlines()[0],
          f"not named at once; stderr:\n{run.err}")


def test_a_rank_that_is_stopped_for_a_while():
    run = launch(4, 300)
    run.wait_step(2, 5)
    pid = run.ranks()[2]
    for _ in range(5):
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.05)
        os.kill(pid, signal.SIGCONT)
    expect(run, 0)


def test_a_rank_that_spins():
    run = forty(fault("spin:2:step16"))
    expect(run, 6, "furthest behind is rank 2", "in step 17 of 40, phase step", limit=T + 1)


def test_a_slow_rank_is_no_fault():
    expect(launch(4, 10, fault("slow:2:step0")), 0)


def test_descriptors_do_not_leak():
    """A rank has stdin, stdout, stderr, the lifeline and its connection; nobody but rank 0 has the listening socket."""
    run = launch()
    for rank in range(4):
        run.wait_step(rank, 5)
    held = [sorted(os.listdir(f"/proc/{pid}/fd"), key=int) for pid in run.ranks()]
    os.kill(run.pid, signal.SIGTERM)
    run.finish()
    check([len(fds) for fds in held] == [8, 5, 5, 5], f"descriptors of the ranks: {held}")


def test_60_launches_with_a_random_fault():
    dice = random.Random(1)
    kinds = {"kill": 137, "abort": 134, "segv": 139, "exit3": 3, "exit0": 1}
    mine = len(links(os.getpid()))
    for _ in range(60):
        kind, rank, step = dice.choice(sorted(kinds)), dice.randrange(4), dice.randrange(10)
        expect(launch(4, 10, fault(f"{kind}:{rank}:step{step}")), kinds[kind], f"rank {rank} (pid ", limit=1)
    check(len(links(os.getpid())) <= mine + 2, "descriptors of this test grow")


run_tests([function for name, function in list(globals().items()) if name.startswith("test_")])
