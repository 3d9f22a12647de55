#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Does a machine that calibrate described predict itself? own_check.py BUILD_FOLDER MACHINE_FILE [TRAINER_OPTION]...

MACHINE_FILE is written by calibrate if it is not there: two soft GPUs with one core each. Then one device, DP on two and DDP on
two are trained in turn, ROUNDS times. The median step of one device is what the machine is calibrated with (--compute);
the steps of DP and DDP are predicted from that and from calibrate's own figures. Compared are steps in steps of one
device: the prediction with the median over the rounds of (step / step of one device in the same round), so that what slows a
whole round does not count. Exit code 0: both within 10 %; 1: not; 3: the machine was not calm (before or after the
rounds, or the rounds differ), or has no two cores.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = 7
GOAL = 0.10   # of the step
CALM = 0.05   # the median distance of the rounds' ratios from their median, relative
OTHERS = 0.10 # the cores' time that others take while nothing of this runs
CASES = {"single": ["dp-train", "--strategy", "single", "--global-batch", "64"], "dp": ["dp-train", "--gpus", "2", "--global-batch", "128"],
         "ddp": ["ddp-train", "--gpus", "2", "--global-batch", "128"]}


class Room:
    def __init__(self, build, machine, options):
        self.build, self.machine, self.options = build, os.path.abspath(machine), options
        self.folder = tempfile.TemporaryDirectory()

    def run(self, program, *options):
        subprocess.run([os.path.join(self.build, program), *options], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def calibrate(self):
        self.run("bench/calibrate/calibrate", "--device", "soft", "--devices", "2", "--cores-per-device", "1", "--out", self.machine)

    def train(self, case, *more):
        """The median step in ms."""
        program, *options = CASES[case]
        out = os.path.join(self.folder.name, "out.json")
        self.run(program, *options, "--device", "soft", "--cores-per-device", "1", "--steps", "20", *self.options, "--json", out, *more)
        with open(out) as lines:
            return [json.loads(line) for line in lines][-1].get("step_ms")

    def record(self, case):
        self.train(case, "--shape-only", "--record", os.path.join(self.folder.name, case))

    def replay(self, case, compute):
        path, out = os.path.join(self.folder.name, case), os.path.join(self.folder.name, "replay.json")
        files = [path] if os.path.exists(path) else [path + ".0", path + ".1"]
        self.run("bench/replay/replay", *files, "--machine", self.machine, "--compute", repr(compute), "--json", out)
        with open(out) as lines:
            return json.loads(lines.readline())["step_ms"]


def compare(single, case, predicted):
    """(measured, spread, error): the median ratio of `case` to `single`, round by round; the median distance from it, relative; how
    far `predicted`, which goes with the median of `single`, is off."""
    ratios = [step / alone for step, alone in zip(case, single)]
    measured = statistics.median(ratios)
    spread = statistics.median(abs(ratio - measured) for ratio in ratios) / measured
    return measured, spread, predicted / statistics.median(single) / measured - 1


def cores_taken(before, after):
    """The share of the cores' time that was not idle between two first lines of /proc/stat."""
    spent = [b - a for a, b in zip(*([int(field) for field in line.split()[1:9]] for line in (before, after)))]
    return 1 - (spent[3] + spent[4]) / max(sum(spent), 1)  # idle, waiting for a disk


def others():
    """The share that others take: measured for two seconds in which nothing of this runs."""
    lines = []
    for _ in range(2):
        with open("/proc/stat") as file:
            lines.append(file.readline())
        if len(lines) == 1:
            time.sleep(2)
    return cores_taken(*lines)


def verdict(results, busy):
    """(exit code, sentence) of {case: (measured, spread, error)} on a computer whose cores others take by so much."""
    if busy > OTHERS:
        return 3, f"NO VERDICT: the machine is not calm (others take {busy:.0%} of the cores)"
    restless = [case for case, (_, spread, _) in results.items() if spread > CALM]
    if restless:
        return 3, f"NO VERDICT: the machine is not calm ({', '.join(restless)}: rounds differ by more than {CALM:.0%})"
    missed = [case for case, (_, _, error) in results.items() if abs(error) > GOAL]
    if missed:
        return 1, f"MISSED: {', '.join(missed)} not within {GOAL:.0%}"
    return 0, f"WITHIN {GOAL:.0%}: {', '.join(results)}"


def main():
    if len(sys.argv) < 3:
        sys.exit("usage: own_check.py BUILD_FOLDER MACHINE_FILE [TRAINER_OPTION]...")
    if len(os.sched_getaffinity(0)) < 2:
        print("NO VERDICT: two devices need two cores")
        sys.exit(3)
    room = Room(sys.argv[1], sys.argv[2], sys.argv[3:])
    if not os.path.exists(room.machine):
        room.calibrate()
    for case in CASES:
        room.record(case)
    busy, steps = others(), {case: [] for case in CASES}
    for _ in range(ROUNDS):
        for case in CASES:
            steps[case].append(room.train(case))
    alone, uncalibrated, compute = statistics.median(steps["single"]), room.replay("single", 1.0), 1.0
    for _ in range(8):
        compute *= room.replay("single", compute) / alone
    print(f"single, 1 device: measured {alone:.3f} ms, from the machine file alone {uncalibrated:.3f} ms: --compute {compute:.3g}")
    results = {}
    for case in ("dp", "ddp"):
        predicted = room.replay(case, compute)
        results[case] = measured, spread, error = compare(steps["single"], steps[case], predicted)
        print(f"{case}, 2 devices: predicted {predicted / alone:.3f} of that, measured {measured:.3f} (rounds differ by {spread:.1%}): {error:+.1%}")
    code, sentence = verdict(results, max(busy, others()))
    print(f"load {os.getloadavg()[0]:.1f}, {len(os.sched_getaffinity(0))} cores, {ROUNDS} rounds. {sentence}")
    sys.exit(code)


if __name__ == "__main__":
    main()
