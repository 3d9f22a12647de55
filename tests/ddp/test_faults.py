# SPDX-License-Identifier: MIT
"""ddp-train under faults: test_faults.py DDP_TRAIN_SOFT DP_TRAIN_SOFT.

What becomes of a run whose ranks, launcher or collectives fail: its exit code, its last words, what is left of it.
"""
import os
import random
import signal

import endings
from processes import by_hand, check, expect, fault, free_port, links, run_tests
from trainer import DDP, DP, LIMIT, LONG, SMALL, T, WIDE, ddp, folder, hand, last_line_of, long_run, summary, wait_line


def short(env=None):
    return ddp(*SMALL, *LIMIT, "--gpus", 4, "--global-batch", 32, "--steps", 5, env=env)


def forty(env=None):
    """With 3 of warm-up before them."""
    return ddp(*SMALL, *LIMIT, "--gpus", 4, "--steps", 40, "--warmup", 3, env=env)


def test_sigkill_of_each_rank():
    endings.sigkill_of_each_rank(long_run)


def test_sigkill_in_each_phase():
    endings.sigkill_in_each_phase(short, ((1, "start"), (0, "rendezvous"), (2, "open"), (0, "finish"), (3, "evaluation"),
                                          (0, "close"), (1, "end")))


def test_sigkill_while_saving():
    """Rank 0 in the middle of a run that saves: what was saved before stays whole."""
    with folder() as path:
        file = os.path.join(path, "checkpoint")
        expect(ddp(*SMALL, "--gpus", 2, "--steps", 5, "--save", file), 0)
        with open(file, "rb") as saved:
            before = saved.read()
        expect(ddp(*SMALL, "--gpus", 2, "--steps", 9, "--save", file, env=fault("kill-at-evaluation:0:step0")), 137)
        with open(file, "rb") as saved:
            check(saved.read() == before, "the checkpoint has changed")
        check(os.listdir(path) == ["checkpoint"], f"left: {os.listdir(path)}")


def test_signals_and_codes():
    endings.signals_and_codes(forty, "in step 17 of 43")


def test_leaving_too_early_with_0():
    expect(forty(fault("exit0:2:step16")), 1, "rank 2 (pid ", "left after step 16 of 43", limit=1)


def test_sigkill_of_the_launcher():
    endings.sigkill_of_the_launcher(long_run, short)


def test_nothing_lies_in_dev_shm():
    """No process has anything there, open or mapped: so nothing can be left there, whatever kills them."""
    run = long_run()
    run.wait_step(3, 10)
    pids = [run.pid, *run.ranks()]
    seen = sum((links(pid) for pid in pids), [])
    for pid in pids:
        with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
            seen += maps.read().splitlines()
    os.kill(run.pid, signal.SIGTERM)
    expect(run, 143)
    check(any("memfd:" in place for place in seen), "the devices' memory is not seen")
    check(not [place for place in seen if "/dev/shm" in place], "something lies in /dev/shm")


def test_interruption():
    endings.interruption(long_run)


def test_a_stopped_rank():
    run = long_run()
    run.wait_step(1, 10)
    pid = run.ranks()[1]
    os.kill(pid, signal.SIGSTOP)
    expect(run, 6, f"rank 1 (pid {pid})", "stopped", limit=T + 1)


def test_a_rank_that_spins():
    run = forty(fault("spin:2:step16"))
    expect(run, 6, "furthest behind is rank 2", "in step 17 of 43", limit=T + 1)
    check("rank 2 is at collective" in run.err, f"the collective is not named; stderr:\n{run.err}")


def test_a_device_that_never_finishes():
    """The others wait for it in a collective and name it; it says itself what it is at, if it comes to that."""
    run = forty(fault("stall-device:2:step16"))
    expect(run, 6, "rank 2 (pid ", "in step 17 of 43, phase finish", limit=T + 1)
    check("rank 2 is at collective" in run.err, f"the collective is not named; stderr:\n{run.err}")


def test_collectives_that_do_not_match():
    """One bucket left out, or shorter: both values, on all ranks, before any data is used (trials.md 21)."""
    for name in ("skip-collective", "other-count"):
        run = ddp(*WIDE, *LIMIT, "--gpus", 4, "--steps", 40, env=fault(f"{name}:2:step5"))
        expect(run, 1, limit=T + 1)
        check("rank 2 called all-reduce of" in run.err and "rank 0 all-reduce of" in run.err, f"stderr:\n{run.err}")


def test_the_last_line_tells_of_any_end():
    """--json of a run that is killed, interrupted or never comes together: by rank 0, by the launcher if it can't."""
    cases = [(["--steps", 9], fault(f"kill{phase}:{rank}:step{step}"), 137, f"rank {rank} (pid ")
             for phase, rank, step in (("", 0, 5), ("", 1, 5), ("-at-start", 0, 0), ("-at-close", 0, 0), ("-at-end", 1, 0))]
    cases += [(["--steps", 9], fault("exit3:1:step5"), 3, "rank 1 (p"),
              (["--steps", 9], fault("noexec:1:step0"), 3, "rank 1 can't be started"),
              (["--steps", 9, "--device-memory", 1, "--width", 2048], {}, 3, "memory"),
              (["--steps", 9, "--global-batch", 100000], {}, 2, "100000")]
    for arguments, env, code, text in cases:
        with folder() as path:
            file = os.path.join(path, "run.json")
            run = ddp(*SMALL, *LIMIT, "--gpus", 2, *arguments, "--json", file, env=env)
            check(run.finish() == code, f"exit code {run.process.returncode}, expected {code}; stderr:\n{run.err}")
            last = last_line_of(file)
            check(last["type"] == "summary" and last["status"] != "ok" and text in last["reason"], f"{env}: {last}")
            check((last["strategy"], last["model"], last["gpus"]) == ("ddp", "mlp", 2), f"{last}")
            check(os.listdir(path) == ["run.json"], f"left: {os.listdir(path)}")
    with folder() as path:
        file = os.path.join(path, "run.json")
        run = ddp(*SMALL, "--gpus", 2, "--steps", LONG, "--json", file)
        run.wait_step(0, 5)
        os.kill(run.pid, signal.SIGTERM)
        expect(run, 143)
        check("interrupted by signal 15" in last_line_of(file)["reason"], f"{last_line_of(file)}")
        runs = by_hand(hand("--rendezvous-timeout", 0.5, "--json", file), (0,), 2, free_port())
        expect(runs[0], 5, limit=1.5)
        check("missing ranks: 1" in last_line_of(file)["reason"], f"{last_line_of(file)}")


def test_each_allocation_fails():
    """Of device and pinned memory, the first, the second ... until a run needs no more: 3, a reason, nothing left."""
    for rank in 0, 1:
        for number in range(200):
            with folder() as path:
                file, saved = os.path.join(path, "run.json"), os.path.join(path, "checkpoint")
                run = ddp("--data", "digits", "--width", 8, "--depth", 1, "--timeout", T, "--gpus", 2, "--steps", 2,
                          "--checksum", "--accumulate", 2, "--save", saved, "--json", file,
                          env=fault(f"alloc:{rank}:step{number}"))
                code = run.finish()
                check(not run.left(), f"processes are left: {run.left()}")
                last = last_line_of(file)
                if code == 0:
                    check(last["status"] == "ok", f"{last}")
                    break
                check(code == 3 and "planted" in run.err, f"allocation {number}: exit code {code}; stderr:\n{run.err}")
                check(f"rank {rank} (pid " in run.last_line() and "; exit code 3" in run.last_line(), f"stderr:\n{run.err}")
                check(last["status"] != "ok" and ("planted" in last["reason"] or f"rank {rank} " in last["reason"]), f"{last}")
                check(os.listdir(path) == ["run.json"], f"left: {os.listdir(path)}")
        check(10 < number < 199, f"rank {rank}: {number} allocations")


def test_a_slow_rank_is_no_fault():
    expect(ddp(*SMALL, "--gpus", 4, "--steps", 10, env=fault("slow:2:step0")), 0)


def test_sigkill_in_an_all_reduce_20_times():
    """trials.md 31: nothing is left, and run 21 is right."""
    dice = random.Random(31)
    for _ in range(20):
        run = long_run(2)
        run.wait_step(1, 5 + dice.randrange(20))
        os.kill(run.ranks()[dice.randrange(2)], signal.SIGKILL)
        expect(run, 137, limit=0.5)
    common = [*SMALL, "--gpus", 2, "--global-batch", 32, "--steps", 5, "--checksum"]
    check(summary(DDP, *common)["checksum"] == summary(DP, *common)["checksum"], "run 21 is wrong")


def test_survivors_without_a_launcher():
    """In a collective. A dead rank is noticed at once, by its end or by its closed connection; a stopped one by the time limit."""
    for number, code, limit, texts in ((signal.SIGKILL, 1, 1, ("rank 2 (process {}) has gone", "rank 2 has left")),
                                       (signal.SIGSTOP, 6, T + 1, ("rank 2 ",))):
        timeout = T if number == signal.SIGSTOP else 3600
        runs = by_hand(hand("--steps", LONG, "--timeout", timeout), range(4), 4, free_port())
        wait_line(runs[0], b"warm-up 3/3")
        os.kill(runs[2].pid, number)
        for rank in (0, 1, 3):
            got = runs[rank].finish(limit)
            check(got == code, f"exit code {got}; stderr:\n{runs[rank].err}")
            check(any(text.format(runs[2].pid) in runs[rank].err for text in texts), f"stderr:\n{runs[rank].err}")
        os.kill(runs[2].pid, signal.SIGKILL)
        runs[2].finish()


run_tests([function for name, function in list(globals().items()) if name.startswith("test_")])
