# SPDX-License-Identifier: MIT
"""Times of a run whose wall clock is set back all the time (trials.md 36): test_clock.py DDP_TRAIN_SOFT DP_TRAIN_SOFT CLOCK_BACK.

CLOCK_BACK is clock_back.c as a library to preload, or missing (a sanitizer's runtime must come first): then the clock is left alone.
"""
import sys
import time

from processes import check, run_tests
from trainer import DDP, DP, SMALL, WIDE, train

CLOCK_BACK = sys.argv[3] if len(sys.argv) > 3 else ""
WAYS = ((DP, ["--strategy", "single"]), (DP, ["--gpus", 2]), (DP, ["--gpus", 2, "--dp-transport", "p2p", "--accumulate", 2]),
        (DDP, ["--gpus", 2]), (DDP, ["--gpus", 2, "--no-overlap"]))
PHASES = ["scatter", "replicate", "forward", "gather", "loss", "backward", "reduce", "allreduce_exposed", "update", "host", "wait"]


def back():
    return {"LD_PRELOAD": CLOCK_BACK} if CLOCK_BACK else None


def test_the_library_sets_the_clock_back():
    """Else the tests below would show nothing."""
    if CLOCK_BACK:
        import subprocess
        asked = [sys.executable, "-c", "import time; print(time.time(), time.time())"]
        first, second = map(float, subprocess.run(asked, env=back(), stdout=subprocess.PIPE, check=True).stdout.split())
        check(second < first < time.time() - 3000, f"{first} {second}")


def test_steps_take_positive_time():
    """Monotonic: each step takes some time, all together at most what the whole program took."""
    for program, arguments in WAYS:
        begun = time.monotonic()
        lines = train(program, *SMALL, *arguments, "--steps", 50, env=back())
        elapsed = (time.monotonic() - begun) * 1e3
        steps, got = [line["ms"] for line in lines["step"]], lines["summary"][0]
        check(all(ms > 0 for ms in steps) and sum(steps) < elapsed, f"{arguments}: {steps} within {elapsed} ms")
        rate = got["global_batch"] * len(steps) / sum(steps) * 1e3
        check(abs(got["samples_per_s"] / rate - 1) < 0.02, f"{arguments}: {got['samples_per_s']} samples a second, steps say {rate}")


def test_phases_add_up():
    """Within 2 % of the step, and 20 us for the reading of clocks; none is negative."""
    for program, arguments in WAYS:
        got = train(program, *WIDE, *arguments, "--steps", 9, env=back())["summary"][0]
        phases = {phase: got[phase + "_ms"] for phase in PHASES if got[phase + "_ms"] is not None}
        check(all(ms >= 0 for ms in phases.values()), f"{arguments}: {phases}")
        total = sum(phases.values())
        check(abs(total - got["step_ms"]) <= 0.02 * got["step_ms"] + 0.02, f"{arguments}: {total} of {got['step_ms']}: {phases}")


run_tests([function for name, function in list(globals().items()) if name.startswith("test_")])
