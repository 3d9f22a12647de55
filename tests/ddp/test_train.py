# SPDX-License-Identifier: MIT
"""ddp-train as a user starts it, on soft GPUs: test_train.py DDP_TRAIN_SOFT DP_TRAIN_SOFT DDP_TRAIN.

What it computes (against dp-train), what it counts, and what becomes of it when ranks, devices or launchers fail.
"""
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

from processes import Run, by_hand, check, expect, free_port, links, run_tests

DDP, DP, FRONT = sys.argv[1:4]
T = 3
SMALL = ["--data", "digits", "--width", 64, "--depth", 2, "--lr", 0.05, "--timeout", T]
WIDE = ["--data", "digits", "--width", 512, "--depth", 3, "--lr", 0.05, "--timeout", T]   # three buckets
EPOCHS = 15   # within which the digits reach 95 %, as with single and dp (tests/run)


def ddp(*arguments, env=None, **options):
    return Run([DDP, *arguments], env, **options)


def fault(text):
    return {"DPBENCH_FAULT": text}


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory() as path:
        yield path


def train(program, *arguments, env=None):
    """Runs to the end; returns the JSON lines by type."""
    with folder() as path:
        file = os.path.join(path, "run.json")
        run = Run([program, *arguments, "--json", file], env)
        expect(run, 0, limit=100)
        lines = {}
        with open(file, encoding="utf-8") as text:
            for line in map(json.loads, text):
                lines.setdefault(line["type"], []).append(line)
        return lines


def summary(*arguments, **options):
    return train(*arguments, **options)["summary"][0]


def checkpoint(*arguments):
    """The bytes of the checkpoint that the run leaves."""
    with folder() as path:
        file = os.path.join(path, "checkpoint")
        expect(ddp(*arguments, "--save", file), 0, limit=60)
        with open(file, "rb") as saved:
            return saved.read()


# ---- what it computes ------------------------------------------------------------------------------------------------


def test_digits_reach_95_percent():
    for ranks in (1, 2, 4):
        got = summary(DDP, "--data", "digits", "--width", 128, "--depth", 2, "--lr", 0.05, "--epochs", EPOCHS,
                      "--gpus", ranks, "--global-batch", 32)
        check(got["test_samples"] == 360, f"{got['test_samples']} samples tested")
        check(got["test_accuracy"] >= 0.95, f"N = {ranks}: accuracy {got['test_accuracy']}")


def test_dp_and_ddp_agree():
    """Bit for bit for N a power of two and equal shares; else the losses within 1e-5."""
    for ranks, batch, bits in ((1, 32, True), (2, 32, True), (4, 32, True), (8, 32, True), (3, 32, False),
                               (4, 10, False)):
        common = [*SMALL, "--gpus", ranks, "--global-batch", batch, "--steps", 20, "--checksum"]
        ours, theirs = train(DDP, *common), train(DP, *common)
        if bits:
            check(ours["summary"][0]["checksum"] == theirs["summary"][0]["checksum"], f"N = {ranks}: checksums differ")
        for mine, other in zip(ours["step"], theirs["step"]):
            check(abs(mine["loss"] - other["loss"]) <= 1e-5 * other["loss"],
                  f"N = {ranks}, batch {batch}: {mine} and {other}")


def test_bytes_are_those_of_the_formula():
    """2 (N - 1) P a step, and nothing else between devices."""
    for ranks in (1, 2, 4):
        lines = train(DDP, *WIDE, "--gpus", ranks, "--global-batch", 32, "--steps", 5)
        expected = 2 * (ranks - 1) * 4 * lines["header"][0]["params"]
        found = {line["phase"]: (line["counted"], line["formula"]) for line in lines.get("formula", [])}
        if ranks > 1:
            check(found == {"allreduce_exposed": (expected, expected)}, f"N = {ranks}: {found}, expected {expected}")
        moved = sum(line["bytes"] for line in lines.get("traffic", [])
                    if line["from"] >= 0 and line["to"] >= 0 and line["from"] != line["to"])
        check(moved == expected, f"N = {ranks}: {moved} bytes moved, expected {expected}")


def test_five_runs_are_bit_equal():
    """And with another order of events: no overlap, one rank slow."""
    common = [*WIDE, "--gpus", 4, "--global-batch", 32, "--steps", 30]
    first = checkpoint(*common)
    for _ in range(4):
        check(checkpoint(*common) == first, "two runs differ")
    check(checkpoint(*common, "--no-overlap") == first, "the overlap changes bits")


def test_resuming_is_bit_equal():
    common = [*SMALL, "--gpus", 2, "--global-batch", 32, "--momentum", 0.9, "--warmup", 0]
    with folder() as path:
        half, whole, resumed = (os.path.join(path, name) for name in ("half", "whole", "resumed"))
        expect(ddp(*common, "--steps", 6, "--save", half), 0)
        expect(ddp(*common, "--steps", 12, "--save", whole), 0)
        run = ddp(*common, "--steps", 6, "--resume", half, "--save", resumed)
        if run.finish() == 3 and "cJSON" in run.err:   # a build that can't read checkpoints says so
            return
        expect(run, 0)
        with open(whole, "rb") as a, open(resumed, "rb") as b:
            check(a.read() == b.read(), "the resumed run ends elsewhere")


def test_more_ranks_than_cores():
    got = summary(DDP, *SMALL, "--gpus", 8, "--global-batch", 32, "--steps", 50)
    check(got["status"] == "ok", f"status {got['status']}")


def test_more_ranks_than_samples():
    got = summary(DDP, *SMALL, "--gpus", 4, "--global-batch", 3, "--steps", 10)
    check(got["status"] == "ok" and got["global_batch"] == 3, f"{got}")


# ---- devices ---------------------------------------------------------------------------------------------------------


def test_visible_devices():
    none = "CUDA_VISIBLE_DEVICES"   # the message names it
    for visible, ranks, code, text in (("3,2", 2, 0, "rank 0 has device 0: soft GPU 3"), ("7", 1, 0, ""),
                                       ("2,3", 2, 0, "rank 1 has device 1: soft GPU 3"), ("1", 4, 3, "but 1 is there"),
                                       ("", 2, 3, none), ("-1", 2, 3, none), ("0,0", 2, 3, none), ("64", 1, 3, none)):
        run = ddp(*SMALL, "--gpus", ranks, "--steps", 2, env={"CUDA_VISIBLE_DEVICES": visible})
        expect(run, code, limit=5)
        check(text in run.err, f"CUDA_VISIBLE_DEVICES={visible}: stderr lacks \"{text}\":\n{run.err}")


def test_too_little_device_memory():
    run = ddp(*WIDE, "--gpus", 4, "--device-memory", 2)
    expect(run, 3, limit=5)
    check("memory" in run.err, f"stderr:\n{run.err}")


# ---- ranks by hand ---------------------------------------------------------------------------------------------------


def test_a_missing_device_is_no_lack_of_memory():
    """The reader of the JSON lines is told which of the two it was."""
    for options, env, status in ((("--device-memory", 2), {}, "out_of_memory"), ((), {"SOFTGPU_DEVICES": "2", "LOCAL_RANK": "3"}, "failed")):
        with folder() as path:
            file = os.path.join(path, "run.json")
            run = by_hand([DDP, *WIDE, "--steps", 1, "--json", file, *options], [0], 1, free_port(), env)[0]
            expect(run, 3)
            with open(file, encoding="utf-8") as text:
                got = json.loads(text.readlines()[-1])
            check((got["type"], got["status"]) == ("summary", status), f"{got}")


def hand(*arguments):
    return [DDP, *SMALL, "--global-batch", 32, *arguments]


def test_torchrun_variables():
    """And torch.distributed.launch's --local_rank; --gpus is not needed, and must not say otherwise."""
    with folder() as path:
        file = os.path.join(path, "run.json")
        runs = by_hand(hand("--steps", 20, "--checksum", "--json", file), range(4), 4, free_port())
        for run in runs.values():
            expect(run, 0)
        with open(file, encoding="utf-8") as text:
            by_torchrun = json.loads(text.readlines()[-1])
    own = summary(*hand("--steps", 20, "--checksum", "--gpus", 4))
    check(by_torchrun["checksum"] == own["checksum"] and by_torchrun["gpus"] == 4, f"{by_torchrun}")
    port = free_port()
    runs = [Run(hand("--steps", 5, f"--local_rank={rank}"),
                {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_PORT": str(port)}) for rank in range(2)]
    for run in runs:
        expect(run, 0)
    expect(Run(hand("--gpus", 3), {"RANK": "0", "WORLD_SIZE": "2"}), 2, "--gpus 3", "2 ranks", limit=1)


def test_other_options_on_one_rank():
    """trials.md 15: seed and learning rate, both values named on every rank."""
    for name, ours, other in (("seed", 1, 2), ("lr", 0.05, 0.1), ("global_batch", 32, 64)):
        port = free_port()
        option = "--" + name.replace("_", "-")
        runs = by_hand(hand(option, ours), (0, 1, 3), 4, port)
        runs.update(by_hand(hand(option, other), (2,), 4, port))
        for run in runs.values():
            check(run.finish(2) == 2, f"exit code {run.process.returncode}; stderr:\n{run.err}")
            check(f"option {name} is {ours} on rank 0 and {other} on rank 2" in run.err, f"stderr:\n{run.err}")


def test_survivors_without_a_launcher():
    """In a collective: each out by T + 1 s, whether the lost rank is dead or stopped."""
    for number in (signal.SIGKILL, signal.SIGSTOP):
        runs = by_hand(hand("--steps", 1000000), range(4), 4, free_port())
        wait_line(runs[0], b"warm-up 3/3")
        os.kill(runs[2].pid, number)
        for rank in (0, 1, 3):
            code = runs[rank].finish(T + 1)
            check(code in (1, 6), f"exit code {code}; stderr:\n{runs[rank].err}")
        os.kill(runs[2].pid, signal.SIGKILL)
        runs[2].finish()


def wait_line(run, wanted, limit=120):
    """Until the run has written this; what it writes is read and dropped from then on (by finish)."""
    seen = b""
    deadline = time.monotonic() + limit
    os.set_blocking(run.process.stdout.fileno(), False)
    while wanted not in seen:
        check(time.monotonic() < deadline and run.process.poll() is None, f"no {wanted!r} in {seen!r}")
        try:
            seen += os.read(run.process.stdout.fileno(), 65536)
        except BlockingIOError:
            time.sleep(0.005)
    os.set_blocking(run.process.stdout.fileno(), True)


# ---- faults ----------------------------------------------------------------------------------------------------------


def long_run(ranks=4, env=None):
    return ddp(*SMALL, "--gpus", ranks, "--global-batch", 32, "--steps", 1000000, env=env)


def test_sigkill_of_each_rank():
    for rank in range(4):
        run = long_run()
        run.wait_step(rank, 10)
        pid = run.ranks()[rank]
        os.kill(pid, signal.SIGKILL)
        expect(run, 137, f"rank {rank} (pid {pid})", "SIGKILL", "in step", limit=0.5)


def test_sigkill_in_each_phase():
    for rank, phase in ((1, "start"), (0, "rendezvous"), (2, "open"), (0, "finish"), (3, "evaluation"), (0, "close"),
                        (1, "end")):
        run = ddp(*SMALL, "--gpus", 4, "--global-batch", 32, "--steps", 5, env=fault(f"kill-at-{phase}:{rank}:step0"))
        expect(run, 137, f"rank {rank} (pid ", "SIGKILL", f"phase {phase}", limit=1)


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
    for name, code, text in (("segv", 139, "SIGSEGV"), ("abort", 134, "SIGABRT"), ("fpe", 136, "SIGFPE"),
                             ("bus", 135, "SIGBUS"), ("exit3", 3, "exit code 3"),
                             ("exit0", 1, "left after step 16 of 43")):
        run = ddp(*SMALL, "--gpus", 4, "--steps", 40, "--warmup", 3, env=fault(f"{name}:2:step16"))
        expect(run, code, "rank 2 (pid ", text, limit=1)


def test_sigkill_of_the_launcher():
    run = long_run()
    run.wait_step(0, 10)
    os.kill(run.pid, signal.SIGKILL)
    check(run.finish(1) == -9, "the launcher is not dead")
    check(not run.left(), f"ranks are left: {run.left()}")
    expect(ddp(*SMALL, "--gpus", 4, "--steps", 3), 0)


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
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
        run = long_run()
        run.wait_step(0, 10)
        os.kill(run.pid, number)
        expect(run, code, "interrupted", limit=1)


def test_a_stopped_rank():
    run = long_run()
    run.wait_step(1, 10)
    pid = run.ranks()[1]
    os.kill(pid, signal.SIGSTOP)
    expect(run, 6, f"rank 1 (pid {pid})", "stopped", limit=T + 1)


def test_a_rank_that_spins():
    run = ddp(*SMALL, "--gpus", 4, "--steps", 40, "--warmup", 3, env=fault("spin:2:step16"))
    expect(run, 6, "furthest behind is rank 2", "in step 17 of 43", limit=T + 1)
    check("rank 2 is at collective" in run.err, f"the collective is not named; stderr:\n{run.err}")


def test_collectives_that_do_not_match():
    """One bucket left out, or shorter: both values, on all ranks, before any data is used (trials.md 21)."""
    for name in ("skip-collective", "other-count"):
        run = ddp(*WIDE, "--gpus", 4, "--steps", 40, env=fault(f"{name}:2:step5"))
        expect(run, 1, limit=T + 1)
        check("rank 2 called all-reduce of" in run.err and "rank 0 all-reduce of" in run.err, f"stderr:\n{run.err}")


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


def test_two_jobs_at_once():
    """trials.md 27: from one directory, both right."""
    common = [*SMALL, "--global-batch", 32, "--steps", 50, "--checksum", "--gpus", 2]
    with folder() as path:
        files = [os.path.join(path, name) for name in ("a", "b")]
        for run in [ddp(*common, "--json", file) for file in files]:
            expect(run, 0)
        sums = set()
        for file in files:
            with open(file, encoding="utf-8") as text:
                sums.add(json.loads(text.readlines()[-1])["checksum"])
    check(len(sums) == 1, f"checksums {sums}")


def test_a_missing_rank():
    runs = by_hand(hand("--rendezvous-timeout", 0.5), (0, 1, 2), 4, free_port())
    for run in runs.values():
        expect(run, 5, "missing ranks: 3", limit=1.5)


def test_stdout_closed():
    with subprocess.Popen([DDP, *map(str, SMALL), "--gpus", "4", "--steps", "200"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read().decode()
        check(process.wait() in (0, 3), f"exit code {process.returncode}; stderr:\n{errors}")
        check("SIGPIPE" not in errors, f"stderr:\n{errors}")


def test_the_front_program():
    expect(Run([FRONT, "--device", "soft", *SMALL, "--gpus", 2, "--steps", 3]), 0)


run_tests([function for name, function in list(globals().items()) if name.startswith("test_")])
