# SPDX-License-Identifier: MIT
"""The replay's work grows linearly with the operations: test_growth.py PROGRAMS REPLAY

Instructions are counted (valgrind), not seconds: the count is the same on a loaded machine. From 1 to 2 times as many
operations the work grows by some amount, from 2 to 4 times by twice that if it is linear, by 4 times if it is quadratic;
starting and the untimed part of the record cancel out. Records are sorted, and the next event comes from a heap, so that a
logarithm is added: with the heap's levels from 64 to 256 ranks it makes 2.1 of 2."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

PROGRAMS, REPLAY = sys.argv[1:3]
FOLDER = tempfile.TemporaryDirectory()
MOST = 2.4


def record(program, name, *options):
    path = os.path.join(FOLDER.name, name)
    subprocess.run([os.path.join(PROGRAMS, program), "--device", "soft", "--shape-only", "--warmup", "1", "--width", "64",
                    "--batch-per-gpu", "4", *options, "--record", path], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return path


def instructions(arguments):
    counted = subprocess.run(["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", REPLAY,
                              *arguments], capture_output=True, text=True)
    if "unrecognised instruction" in counted.stderr:
        print("valgrind does not know this processor's instructions: left out")
        sys.exit(77)
    if "debuginfo reader" in counted.stderr:
        print("valgrind can't read this compiler's debugging information: left out")
        sys.exit(77)
    assert counted.returncode == 0, counted.stderr
    return int(re.search(r"I +refs: +([\d,]+)", counted.stderr).group(1).replace(",", ""))


def check(title, commands):
    counts = [instructions(command) for command in commands]
    growth = (counts[2] - counts[1]) / (counts[1] - counts[0])
    print(f"{title}: {counts[0] / 1e6:.1f}, {counts[1] / 1e6:.1f}, {counts[2] / 1e6:.1f} million instructions; "
          f"the second growth is {growth:.2f} times the first")
    assert 1.5 < growth < MOST, f"expected about 2, less than {MOST}"


def main():
    if not shutil.which("valgrind"):
        sys.exit(77)
    files = [record("dp-train", f"dp{steps}", "--gpus", "4", "--steps", str(steps)) for steps in (20, 40, 80)]
    check("DP on 4 devices, 20, 40, 80 steps", [[file, "--machine", "a100x8"] for file in files])
    for steps in (20, 40, 80):
        record("ddp-train", f"ddp{steps}", "--gpus", "4", "--steps", str(steps))
    check("DDP on 4 ranks, 20, 40, 80 steps",
          [[*(os.path.join(FOLDER.name, f"ddp{steps}.{rank}") for rank in range(4)), "--machine", "a100x8"]
           for steps in (20, 40, 80)])
    rank = os.path.join(FOLDER.name, "ddp20.0")
    check("DDP, 64, 128, 256 ranks", [[rank, "--machine", "h100x8x8", "--gpus", str(ranks)] for ranks in (64, 128, 256)])


main()
