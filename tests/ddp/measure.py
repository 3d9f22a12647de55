# SPDX-License-Identifier: MIT
"""How long a run takes to notice, to name and to end: measure.py DDP_TRAIN_SOFT; 4 ranks, T = 3 s, each case 5 times."""
import os
import signal
import time

from processes import by_hand, free_port
from trainer import LONG, T, hand, long_run, wait_line

TIMES = 5


def wait_text(descriptor, wanted):
    seen = b""
    while wanted not in seen:
        piece = os.read(descriptor, 4096)
        if not piece:
            raise SystemExit(f"no {wanted!r} in {seen!r}")
        seen += piece


def end_of(run, started):
    """Until the command has ended and nobody holds its output: none of its ranks is left."""
    run.finish()
    return time.monotonic() - started


def kill_rank(round_):
    run = long_run()
    run.wait_step(round_ % 4, 10)
    started = time.monotonic()
    os.kill(run.ranks()[round_ % 4], signal.SIGKILL)
    return end_of(run, started)


def kill_launcher(_):
    run = long_run()
    run.wait_step(0, 10)
    started = time.monotonic()
    os.kill(run.pid, signal.SIGKILL)
    return end_of(run, started)


def interrupt(_):
    run = long_run()
    run.wait_step(0, 10)
    started = time.monotonic()
    os.kill(run.pid, signal.SIGTERM)
    return end_of(run, started)


def stop_named(round_, until_end=False):
    run = long_run()
    run.wait_step(round_ % 4, 10)
    started = time.monotonic()
    os.kill(run.ranks()[round_ % 4], signal.SIGSTOP)
    wait_text(run.process.stderr.fileno(), b"was stopped")
    named = time.monotonic() - started
    if not until_end:
        os.kill(run.pid, signal.SIGKILL)
    ended = end_of(run, started)
    return ended if until_end else named


def stop_ended(round_):
    return stop_named(round_, until_end=True)


def missing_rank(_):
    """The last of three ranks of four, after its start and the limit of 0.5 s."""
    started = time.monotonic()
    runs = by_hand(hand("--rendezvous-timeout", 0.5), (0, 1, 2), 4, free_port())
    for run in runs.values():
        run.finish()
    return time.monotonic() - started


def survivors(_):
    runs = by_hand(hand("--steps", LONG), range(4), 4, free_port())
    wait_line(runs[0], b"warm-up 3/3")
    started = time.monotonic()
    os.kill(runs[2].pid, signal.SIGKILL)
    return max(end_of(run, started) for run in runs.values())


CASES = (("SIGKILL of a rank until all are gone", kill_rank, "0.5"),
         ("SIGKILL of the launcher until all are gone", kill_launcher, "1"),
         ("SIGTERM of the launcher until all are gone", interrupt, "1"),
         ("SIGSTOP of a rank until it is named", stop_named, "1"),
         ("SIGSTOP of a rank until all are gone", stop_ended, f"T + 1 = {T + 1}"),
         ("a missing rank, limit 0.5 s, until all have given up", missing_rank, "0.5 + 1"),
         ("SIGKILL of a rank without a launcher until all are gone", survivors, "1"))

print(f"| what | seconds, {TIMES} times | allowed |\n|---|---|---|")
for name, function, allowed in CASES:
    print(f"| {name} | {', '.join(f'{s:.3f}' for s in sorted(map(function, range(TIMES))))} | {allowed} |", flush=True)
