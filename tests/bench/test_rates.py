# SPDX-License-Identifier: MIT
"""A rate of products above all that the device can do is refused, and nothing is written: test_rates.py FLOOR CALIBRATE. The fault
"launch-time" is planted: the launches' time taken as the run's."""
import os
import subprocess
import sys
import tempfile

FLOOR, CALIBRATE = sys.argv[1:3]
CAUSE = "the time of the launch was taken as that of the run"


def run(*command, fault=None):
    environment = {name: value for name, value in os.environ.items() if name != "DPBENCH_FAULT"}
    if fault:
        environment["DPBENCH_FAULT"] = fault
    return subprocess.run(command, capture_output=True, text=True, timeout=280, check=False, env=environment)


def check(condition, *values):
    if not condition:
        print("test_rates: failed:", *values, file=sys.stderr)
        sys.exit(1)


def check_refused(what, out, *command):
    refused = run(*command, fault="launch-time:0:step0")
    check(refused.returncode == 1, what, refused.returncode, refused.stderr)
    check(what in refused.stderr and CAUSE in refused.stderr and "GFLOP/s" in refused.stderr, refused.stderr)
    check(not refused.stdout and not os.path.exists(out), refused.stdout, os.listdir(os.path.dirname(out)))


with tempfile.TemporaryDirectory() as folder:
    out = os.path.join(folder, "out")
    # 512 samples a step: 11 GFLOP in 14 launches
    check_refused("products of a step", out, FLOOR, "--batch", "512", "--steps", "3", "--json", out)
    check_refused("product of ", out, CALIBRATE, "--out", out, "--devices", "1", "--cores-per-device", "1")
    good = run(FLOOR, "--batch", "32", "--steps", "3", "--json", out)
    check(good.returncode == 0 and os.path.exists(out), good)
told = run(FLOOR, "--help")
check(told.returncode == 0 and "--steps K" in told.stdout and not told.stderr, told)
for wrong, words in ((["--steps", "0x10"], "--steps 0x10: expected a whole number from 1 to 10000"),
                     (["--batch", "1.5"], "--batch 1.5: expected a whole number from 1 to"), (["--step", "1"], "--step: unknown")):
    refused = run(FLOOR, *wrong)
    check(refused.returncode == 2 and words in refused.stderr, wrong, refused)
