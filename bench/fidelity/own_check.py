#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Does a machine that calibrate described predict itself? own_check.py BUILD_FOLDER MACHINE_FILE [TRAINER_OPTION]...

Measures one device's step on soft GPUs with one core each, takes from it how fast the device computes (--compute), predicts the
steps of DP and DDP on two, and measures those. Rounds are interleaved and medians taken, but what else runs on the
computer is in all of it: the answer means something on a calm machine with two free cores."""
import json
import os
import statistics
import subprocess
import sys
import tempfile

BUILD, MACHINE, OPTIONS = sys.argv[1], os.path.abspath(sys.argv[2]), sys.argv[3:]
ROUNDS = 5
FOLDER = tempfile.TemporaryDirectory()
CASES = {"single": ["dp-train", "--strategy", "single", "--global-batch", "64"], "dp": ["dp-train", "--gpus", "2", "--global-batch", "128"],
         "ddp": ["ddp-train", "--gpus", "2", "--global-batch", "128"]}


def train(case, *more):
    program, *options = CASES[case]
    out = os.path.join(FOLDER.name, "out.json")
    subprocess.run([os.path.join(BUILD, program), *options, "--device", "soft", "--cores-per-device", "1", "--steps", "20", *OPTIONS,
                    "--json", out, *more], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(out) as lines:
        return [json.loads(line) for line in lines][-1].get("step_ms")


def replay(case, compute):
    path, out = os.path.join(FOLDER.name, case), os.path.join(FOLDER.name, "replay.json")
    files = [path] if os.path.exists(path) else [path + ".0", path + ".1"]
    subprocess.run([os.path.join(BUILD, "bench/replay/replay"), *files, "--machine", MACHINE, "--compute", repr(compute), "--json",
                    out], check=True, stdout=subprocess.DEVNULL)
    with open(out) as lines:
        return json.loads(lines.readline())["step_ms"]


def main():
    measured = {case: [] for case in CASES}
    for case in CASES:
        train(case, "--shape-only", "--record", os.path.join(FOLDER.name, case))
    for _ in range(ROUNDS):
        for case in CASES:
            measured[case].append(train(case))
    measured = {case: statistics.median(values) for case, values in measured.items()}
    uncalibrated, compute = replay("single", 1.0), 1.0
    for _ in range(8):
        compute *= replay("single", compute) / measured["single"]
    print(f"single, 1 device: measured {measured['single']:.3f} ms, from the machine file alone {uncalibrated:.3f} ms")
    for case in ("dp", "ddp"):
        predicted = replay(case, compute)
        print(f"{case}, 2 devices: predicted {predicted:.3f} ms, measured {measured[case]:.3f} ms, "
              f"{100 * (predicted / measured[case] - 1):+.1f} %")


main()
