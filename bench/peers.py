#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Ours beside PyTorch, gloo and MPI, in interleaved rounds; called by bench/peers.sh.

Every program is run once a round, one after the other, so that what disturbs the machine disturbs all. A ratio is taken
round by round and its median printed with the smallest and the largest. Each of our devices and each peer's rank has
one core.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

SIZES = {"1 KiB": 1 << 10, "4 MiB": 4 << 20, "25 MiB": 25 << 20}
LIMIT_S = 300


class Missing(Exception):
    """A program is not there or does not run: left out, with the reason."""


def run(argv, env=None):
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=LIMIT_S, env=dict(os.environ, **(env or {})))
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing("%s: %s" % (os.path.basename(argv[0]), error)) from error
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["exit code %d" % done.returncode])[-1]
        raise Missing("%s: %s" % (os.path.basename(argv[0]), last))
    return done.stdout


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


class Programs:
    """One method a program: returns {name of the figure: value}, or raises Missing."""

    def __init__(self, options, scratch):
        self.o, self.scratch = options, scratch

    def ours(self, *parts):
        path = os.path.join(self.o.build, *parts)
        if not os.path.exists(path):
            raise Missing("%s was not built" % parts[-1])
        return path

    def train(self, program, *options):
        path = os.path.join(self.scratch, "train.jsonl")
        run([self.ours(program), "--device", "soft", "--model", "mlp", "--data", "synthetic", "--global-batch", "128",
             "--steps", str(self.o.steps), "--warmup", "5", "--cores-per-device", "1", "--json", path, *options])
        with open(path, encoding="utf-8") as f:
            summary = json_lines(f.read())[-1]
        if summary.get("status") != "ok":
            raise Missing("%s: %s" % (program, summary.get("reason")))
        return summary["step_ms"]

    def our_single(self):
        return {"single ms": self.train("dp-train", "--strategy", "single")}

    def our_ddp1(self):
        return {"ddp 1 ms": self.train("ddp-train", "--gpus", "1")}

    def our_ddp2(self):
        return {"ddp 2 ms": self.train("ddp-train", "--gpus", "2")}

    def our_all_reduce(self):
        figures = {}
        for name, size in SIZES.items():
            path = os.path.join(self.scratch, "all_reduce.jsonl")
            run([self.ours("bench", "collective_perf", "collective-perf"), "all_reduce", "--ranks", "2", "--mode",
                 "processes", "--device", "soft", "-b", str(size), "-e", str(size), "-n", "20" if size > 1e6 else "200",
                 "--rounds", "5", "--json", path])  # the best of 5 means over so many calls, as the peers take it
            with open(path, encoding="utf-8") as f:
                line = json_lines(f.read())[-1]
            if line["wrong"]:
                raise Missing("collective-perf: %d wrong elements" % line["wrong"])
            figures["ours " + name] = line["us"]
        return figures

    def our_floor(self):
        """The products and the update of the mlp's step alone, and what a launch costs the host."""
        path = os.path.join(self.scratch, "floor.json")
        run([self.ours("bench", "gbench", "floor-soft"), "--batch", "128", "--steps", str(self.o.steps), "--json",
             path])
        with open(path, encoding="utf-8") as f:
            line = json_lines(f.read())[-1]
        return {"floor ms": line["step_ms"], "launch us": line["launch_us"]}

    def torch(self, ranks):
        script = os.path.join(self.o.peers, "train_torch.py")
        out = run([self.o.python, script, "--model", "mlp", "--ranks", str(ranks), "--threads", "1", "--global-batch",
                   "128", "--steps", str(self.o.steps)], {"OMP_NUM_THREADS": "1"})
        return json_lines(out)[-1]["step_ms"]

    def torch_single(self):
        return {"torch single ms": self.torch(1)}

    def torch_ddp2(self):
        return {"torch ddp 2 ms": self.torch(2)}

    def gloo(self):
        script = os.path.join(self.o.peers, "allreduce_gloo.py")
        out = run([self.o.python, script, "--ranks", "2", "--bytes", *map(str, SIZES.values())])
        us = {line["bytes"]: line["us"] for line in json_lines(out)}
        return {"gloo " + name: us[size] for name, size in SIZES.items()}

    def mpi(self):
        binary = os.path.join(self.scratch, "allreduce_mpi")
        if not os.path.exists(binary):
            if not shutil.which("mpicc") or not shutil.which("mpirun"):
                raise Missing("no MPI (mpicc, mpirun)")
            run(["mpicc", "-O2", os.path.join(self.o.peers, "allreduce_mpi.c"), "-o", binary])
        allow = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.geteuid() == 0 else {}
        us = {line["bytes"]: line["us"] for line in json_lines(run(["mpirun", "-n", "2", binary], allow))}
        return {"mpi " + name: us[size] for name, size in SIZES.items()}


# What is divided by what, and the ratio to reach (a number: at least; a negative one: at most its absolute value).
RATIOS = [
    ("gloo %s", "ours %s", "all-reduce, 2 processes, %s: gloo / ours", {"4 MiB": 10, "25 MiB": 10}),
    ("mpi %s", "ours %s", "all-reduce, 2 processes, %s: MPI / ours", {"4 MiB": 2, "25 MiB": 2}),
    ("torch single ms", "single ms", "mlp, one core: PyTorch / ours", 1),
    ("torch ddp 2 ms", "ddp 2 ms", "mlp, 2 ranks of one core: PyTorch DDP / ours", 2.5),
    ("single ms", "floor ms", "mlp, one core: our step / its products and SGD alone", -1.10),
    ("ddp 1 ms", "single ms", "mlp: DDP with N = 1 / single", -1.03),
]
LIMITS = [("ours 1 KiB", "all-reduce of 1 KiB, 2 processes, us", 3.0), ("launch us", "a kernel launch, us", 2.0)]


def measure(options, scratch):
    """{figure: [value of each round]} and {what was left out: why}."""
    programs = Programs(options, scratch)
    order = ["our_all_reduce", "gloo", "mpi", "our_single", "torch_single", "our_floor", "our_ddp1", "our_ddp2",
             "torch_ddp2"]
    values, left_out = {}, {}
    for number in range(options.rounds):
        for name in order:
            if name in left_out:
                continue
            print("round %d of %d: %s" % (number + 1, options.rounds, name.replace("_", " ")), file=sys.stderr)
            try:
                for figure, value in getattr(programs, name)().items():
                    values.setdefault(figure, []).append(value)
            except (Missing, KeyError, IndexError, ValueError) as reason:
                left_out[name] = str(reason)
                print("  left out: %s" % reason, file=sys.stderr)
    return values, left_out


def expand():
    for over, under, title, goal in RATIOS:
        for size in SIZES if "%s" in over else [None]:
            fill = lambda text: text % size if size else text
            yield fill(over), fill(under), fill(title), goal.get(size) if isinstance(goal, dict) else goal


def verdict(value, goal):
    if goal is None:
        return ""
    reached = value >= goal if goal > 0 else value <= -goal
    return "%s %.2f: %s" % ("at least" if goal > 0 else "at most", abs(goal), "reached" if reached else "NOT reached")


def report(values):
    rows = []
    for over, under, title, goal in expand():
        n = min(len(values.get(over, [])), len(values.get(under, [])))
        if n:
            ratios = [a / b for a, b in zip(values[over][:n], values[under][:n])]
            rows.append({"what": title, "ratio": statistics.median(ratios), "low": min(ratios), "high": max(ratios),
                         "goal": goal, "rounds": n})
    for figure, title, most in LIMITS:
        if values.get(figure):
            rows.append({"what": title, "value": statistics.median(values[figure]), "low": min(values[figure]),
                         "high": max(values[figure]), "goal": -most, "rounds": len(values[figure])})
    for row in rows:
        value = row.get("ratio", row.get("value"))
        print("%-58s %8.2f  (%.2f to %.2f)  %s" % (row["what"], value, row["low"], row["high"],
                                                   verdict(value, row["goal"])))
    return rows


PEER_FILES = ("train_torch.py", "allreduce_gloo.py", "allreduce_mpi.c")


def check_peers(folder):
    """The peers' programs are not in this repository: said once, before anything is built or run."""
    lacking = [name for name in PEER_FILES if not os.path.exists(os.path.join(folder, name))]
    if lacking:
        where = "%s lacks %s" % (folder, ", ".join(lacking)) if os.path.isdir(folder) else "no folder %s" % folder
        print("bench/peers.sh: the peers' programs are not part of this repository: name their folder with --peers DIR (%s)" % where,
              file=sys.stderr)
        sys.exit(3)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(prog="bench/peers.sh", description=__doc__.splitlines()[0])
    parser.add_argument("--peers", metavar="DIR", default=os.path.join(here, "peers"),
                        help="folder of %s (default bench/peers)" % ", ".join(PEER_FILES))
    parser.add_argument("--python", default="/usr/bin/python3", help="a python with torch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40, help="timed steps of each training")
    parser.add_argument("--out", default=None, help="default results/peers.json")
    parser.add_argument("--build", default=os.path.join(here, "..", "build-release"), help="build folder")
    parser.add_argument("--no-install", action="store_true", help="install nothing (read by bench/peers.sh)")
    parser.add_argument("--root", default=os.path.join(here, ".."), help=argparse.SUPPRESS)
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    check_peers(options.peers)
    if options.check:
        return 0
    with tempfile.TemporaryDirectory(prefix="dpbench-peers-") as scratch:
        values, left_out = measure(options, scratch)
    rows = report(values)
    for name, reason in left_out.items():
        print("left out: %-20s %s" % (name.replace("_", " "), reason))
    out = options.out or os.path.join(options.root, "results", "peers.json")
    os.makedirs(os.path.dirname(os.path.abspath(out)), exist_ok=True)
    with open(out + ".part", "w", encoding="utf-8") as f:
        json.dump({"rows": rows, "rounds": values, "left_out": left_out}, f, indent=1)
    os.replace(out + ".part", out)
    print(out)
    return 0 if rows else 3


if __name__ == "__main__":
    sys.exit(main())
