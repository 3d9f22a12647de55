# SPDX-License-Identifier: MIT
"""Starting ddp-train: what its tests share. Their first arguments are DDP_TRAIN_SOFT DP_TRAIN_SOFT DDP_TRAIN."""
import contextlib
import json
import os
import sys
import tempfile
import time

from processes import Run, check, expect

DDP, DP, FRONT = (list(map(os.path.abspath, sys.argv[1:4])) + 3 * [""])[:3]    # whole: a rank may have a folder of its own
T = 3
LONG = 200000   # steps: a minute or more; the memory for their rows is touched where MALLOC_PERTURB_ is set
SMALL = ["--data", "digits", "--width", 64, "--depth", 2, "--lr", 0.05]
WIDE = ["--data", "digits", "--width", 512, "--depth", 3, "--lr", 0.05]   # three buckets
LIMIT = ["--timeout", T]   # only where it is what ends the run: a loaded machine under a sanitizer may need longer


def ddp(*arguments, env=None, **options):
    return Run([DDP, *arguments], env, **options)


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory() as path:
        yield path


def train_aloud(program, *arguments, env=None, code=0):
    """Runs to the end, with this exit code; returns the JSON lines by type, and what stood on the terminal."""
    with folder() as path:
        file = os.path.join(path, "run.json")
        run = Run([program, *arguments, "--json", file], env)
        expect(run, code, limit=100)
        lines = {}
        with open(file, encoding="utf-8") as text:
            for line in map(json.loads, text):
                lines.setdefault(line["type"], []).append(line)
        return lines, run.out


def train(*arguments, **options):
    """As train_aloud; returns the JSON lines alone."""
    return train_aloud(*arguments, **options)[0]


def summary(*arguments, **options):
    return train(*arguments, **options)["summary"][0]


def checkpoint(*arguments):
    """The bytes of the checkpoint that the run leaves."""
    with folder() as path:
        file = os.path.join(path, "checkpoint")
        expect(ddp(*arguments, "--save", file), 0, limit=60)
        with open(file, "rb") as saved:
            return saved.read()


def hand(*arguments):
    return [DDP, *SMALL, *LIMIT, "--global-batch", 32, *arguments]


def long_run(ranks=4, env=None):
    return ddp(*SMALL, *LIMIT, "--gpus", ranks, "--global-batch", 32, "--steps", LONG, env=env)


def last_line_of(file):
    with open(file, encoding="utf-8") as text:
        return json.loads(text.readlines()[-1])


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
