# SPDX-License-Identifier: MIT
"""Many launches of ddp-train with a random fault each, from a seed; nothing may be left and nothing may grow.

    test_launches.py DDP_TRAIN_SOFT [--launches N] [--seed S]
"""
import os
import random
import sys
import time

from processes import check, expect, fault, links, run_tests
from trainer import LIMIT, SMALL, ddp, folder, last_line_of

PHASES = ("start", "rendezvous", "open", "finish", "evaluation", "close", "end")
ENDS = {"kill": 137, "abort": 134, "segv": 139, "bus": 135, "exit3": 3, "exit0": 1}
OURS = ("softgpu", "ddp", "dp-train", "nccl")   # in /dev/shm and /tmp other programs have files too


def option(name, default):
    return int(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else default


def lying_about():
    return {(place, name) for place in ("/dev/shm", "/tmp") for name in os.listdir(place) if name.startswith(OURS)}


def random_fault(dice, ranks, steps):
    """(fault, rank, exit code): at a step or at a phase; a rank may leave with 0 only where it is too early."""
    rank, kind = dice.randrange(ranks), dice.choice(sorted(ENDS))
    if dice.random() < 0.6:
        return f"{kind}:{rank}:step{dice.randrange(steps)}", rank, ENDS[kind]
    phase = dice.choice(PHASES)
    if phase == "end" and kind == "exit0":
        kind = "kill"
    return f"{kind}-at-{phase}:{rank}:step0", rank, ENDS[kind]


def test_launches():
    count, seed, ranks, steps = option("--launches", 40), option("--seed", 1), 3, 8
    dice = random.Random(seed)
    before, mine = lying_about(), len(links(os.getpid()))
    started, slowest = time.monotonic(), 0.0
    with folder() as path:
        file = os.path.join(path, "run.json")
        for _ in range(count):
            planted, rank, code = random_fault(dice, ranks, steps)
            run = ddp(*SMALL, *LIMIT, "--gpus", ranks, "--steps", steps, "--warmup", 0, "--json", file, env=fault(planted))
            asked = time.monotonic()
            expect(run, code, f"rank {rank} (pid ", limit=2)
            slowest = max(slowest, time.monotonic() - asked)
            check(last_line_of(file)["status"] == "failed", f"{planted}: {last_line_of(file)}")
            os.unlink(file)
            check(not os.listdir(path), f"{planted}: left {os.listdir(path)}")
            check(len(links(os.getpid())) <= mine + 2, f"{planted}: descriptors of this test grow")
        check(lying_about() <= before, f"left: {lying_about() - before}")
        expect(ddp(*SMALL, "--gpus", ranks, "--steps", steps), 0)
    print(f"{count} launches with a random fault each, seed {seed}: {time.monotonic() - started:.1f} s, "
          f"the longest {slowest:.2f} s; descriptors {len(links(os.getpid()))}, before {mine}")


run_tests([test_launches])
