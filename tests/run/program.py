# SPDX-License-Identifier: MIT
"""Starting dp-train: what its tests as a user starts it share.

    test_X.py DP_TRAIN_SOFT DP_TRAIN [PREFIX | ^PREFIX]     the tests of this prefix; all others

Each test is given a folder of its own.
"""
import json
import os
import subprocess
import sys
import tempfile
import traceback

TRAINER, FRONT = sys.argv[1:3]
LIMIT = 50.0    # seconds for one run: far more than any takes, so that a hang is a failure and not a wait
SMALL = ["--inputs", "20", "--width", "32", "--depth", "2", "--classes", "7"]
DIGITS = ["--data", "digits", "--width", "128", "--depth", "2", "--lr", "0.05"]


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def run(arguments, expected=0, program=None, env=None):
    """Runs the trainer; returns (stdout, stderr). A code other than `expected` is a failure that shows both."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("DPBENCH_", "SOFTGPU_", "CUDA_"))}
    environment.update(env or {})
    command = [program or TRAINER] + [str(a) for a in arguments]
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT)
    check(done.returncode == expected, f"{' '.join(command)}: exit {done.returncode}, expected {expected}\n{done.stdout}{done.stderr}")
    return done.stdout, done.stderr


def begin(arguments, before=()):
    """Starts the trainer (behind the words of `before`) and waits for its first step; use it as one uses Popen."""
    training = subprocess.Popen([*before, TRAINER, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    check(any("step " in line for line in training.stdout), "no step")
    return training


def complaints(err):
    """The lines of stderr that are no remark on the build (without oneDNN each trainer says that it is slower)."""
    return [line for line in err.splitlines() if "built without oneDNN" not in line]


def refuse_constant(name):
    raise AssertionError(f"{name} is no JSON")


def train(folder, arguments, expected=0, name="run", env=None):
    """Runs with --json; returns the lines as {type: [objects in order]}, and stderr."""
    path = os.path.join(folder, name + ".json")
    _, err = run(list(arguments) + ["--json", path], expected, env=env)
    lines = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            check(line.endswith("\n"), "the last line has no end")
            value = json.loads(line, parse_constant=refuse_constant)
            lines.setdefault(value["type"], []).append(value)
    return lines, err


def losses(lines):
    return [step["loss"] for step in lines["step"]]


def last_line_of(path):
    with open(path, encoding="utf-8") as file:
        return json.loads(file.readlines()[-1])


def run_tests(module):
    """The tests among the names of a module: `globals()`; exits with 1 if one fails."""
    prefix = sys.argv[3] if len(sys.argv) > 3 else "test_"
    tests = [(name, f) for name, f in module.items()
             if name.startswith("test_") and name.startswith(prefix.lstrip("^")) != prefix.startswith("^")]
    failed = 0
    for name, function in tests:
        with tempfile.TemporaryDirectory() as folder:
            try:
                function(folder)
                print(f"ok      {name}", flush=True)
            except Exception:
                failed += 1
                print(f"FAILED  {name}\n{traceback.format_exc()}", flush=True)
    print(f"{len(tests) - failed} of {len(tests)} passed")
    sys.exit(1 if failed or not tests else 0)
