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
import signal
import statistics
import subprocess
import sys
import tempfile
import threading

SIZES = {"1 KiB": 1 << 10, "4 MiB": 4 << 20, "25 MiB": 25 << 20}
LIMIT_S = 300

# Global batch of each model, and how many times as fast as PyTorch we want to be: on one core, on 2 ranks of one core.
MODELS = {"mlp": (128, 1.0, 2.5), "resnet20": (128, 1.1, 1.3), "gpt-nano": (16, 1.1, 1.3), "gpt-micro": (8, 1.1, 1.3)}
GOAL_BF16 = 1.2


class Missing(Exception):
    """A program is not there or does not run: left out, with the reason."""


def run(argv, env=None):
    """What the program wrote, after it has ended well."""
    return run_measured(argv, env)[0]


def run_measured(argv, env=None):
    """What it wrote, and the largest resident set (MiB) among it and the processes that it started."""
    name = os.path.basename(argv[0])
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        try:
            child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, start_new_session=True,
                                     env=dict(os.environ, **(env or {})))
        except OSError as error:
            raise Missing("%s: %s" % (name, error)) from error
        alarm = threading.Timer(LIMIT_S, os.killpg, (child.pid, signal.SIGKILL))
        alarm.start()
        _, status, usage = os.wait4(child.pid, 0)
        alarm.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        errors.seek(0)
        if child.returncode:
            last = (errors.read().strip().splitlines() or ["no message"])[-1]
            raise Missing("%s: exit code %d: %s" % (name, child.returncode, last))
        return out.read(), usage.ru_maxrss / 1024


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

    def train(self, model, precision, ranks, *options):
        """Ours: one device without a wrapper for ranks = 0, else DDP."""
        path = os.path.join(self.scratch, "train.jsonl")
        program = ["ddp-train", "--gpus", str(ranks)] if ranks else ["dp-train", "--strategy", "single"]
        _, mib = run_measured([self.ours(program[0]), *program[1:], "--device", "soft", "--model", model, "--data",
                               "synthetic", "--global-batch", str(MODELS[model][0]), "--steps", str(self.o.steps),
                               "--warmup", "5", "--precision", precision, "--cores-per-device", "1", "--json", path,
                               *options])
        with open(path, encoding="utf-8") as f:
            summary = json_lines(f.read())[-1]
        if summary.get("status") != "ok":
            raise Missing("%s: %s" % (program[0], summary.get("reason")))
        name = "ours %s %s %d" % (model, precision, ranks)
        return {name + " ms": summary["step_ms"], name + " MiB": mib}

    def torch(self, python, model, precision, ranks):
        """PyTorch: one process for ranks = 0, else DDP over gloo, buckets as views."""
        out = run([python, os.path.join(self.o.peers, "train_torch.py"), "--model", model, "--ranks", str(max(ranks, 1)),
                   "--threads", "1", "--global-batch", str(MODELS[model][0]), "--steps", str(self.o.steps),
                   "--precision", precision], {"OMP_NUM_THREADS": "1"})
        line = json_lines(out)[-1]
        name = "%s %s %s %d" % (line["peer"], model, precision, ranks)
        return {name + " ms": line["step_ms"], name + " MiB": line["peak_rss_mb"]}

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

    def gloo(self):
        script = os.path.join(self.o.peers, "allreduce_gloo.py")
        out = run([self.o.python[0], script, "--ranks", "2", "--bytes", *map(str, SIZES.values())])
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
    ("ours mlp fp32 0 ms", "floor ms", "mlp, one core: our step / its products and SGD alone", -1.10),
    ("ours mlp fp32 1 ms", "ours mlp fp32 0 ms", "mlp: DDP with N = 1 / single", -1.03),
]
LIMITS = [("ours 1 KiB", "all-reduce of 1 KiB, 2 processes, us", 3.0), ("launch us", "a kernel launch, us", 2.0)]


def jobs(options, programs):
    """[(name, function)]: what a round runs, in this order."""
    todo = []
    if "collectives" in options.parts:
        todo += [("our all-reduce", programs.our_all_reduce), ("gloo", programs.gloo), ("MPI", programs.mpi)]
    for model in [m for m in MODELS if m in options.parts]:
        for precision in options.precisions.split(","):
            todo += training_jobs(options, programs, model, precision)
    return todo


def training_jobs(options, programs, model, precision):
    todo = []
    for ranks in (0, 2):
        label = "%s %s, %s" % (model, precision, "%d ranks" % ranks if ranks else "one device")
        view = ["--gradient-as-bucket-view"] if ranks else []
        todo.append(("our " + label, lambda r=ranks, v=view: programs.train(model, precision, r, *v)))
        for python in options.python:
            todo.append(("PyTorch (%s) %s" % (python, label),
                         lambda r=ranks, p=python: programs.torch(p, model, precision, r)))
    if model == "mlp" and precision == "fp32":
        todo.insert(1, ("our floor", programs.our_floor))
        todo.insert(2, ("our mlp, DDP with N = 1", lambda: programs.train(model, precision, 1)))
    return todo


def measure(options, scratch):
    """{figure: [value of each round]} and {what was left out: why}."""
    programs = Programs(options, scratch)
    values, left_out = {}, {}
    for number in range(options.rounds):
        for name, function in jobs(options, programs):
            if name in left_out:
                continue
            print("round %d of %d: %s" % (number + 1, options.rounds, name), file=sys.stderr)
            try:
                for figure, value in function().items():
                    values.setdefault(figure, []).append(value)
            except (Missing, KeyError, IndexError, ValueError) as reason:
                left_out[name] = str(reason)
                print("  left out: %s" % reason, file=sys.stderr)
    return values, left_out


def expand(values):
    for over, under, title, goal in RATIOS:
        for size in SIZES if "%s" in over else [None]:
            fill = lambda text: text % size if size else text
            yield fill(over), fill(under), fill(title), goal.get(size) if isinstance(goal, dict) else goal
    for figure in values:
        if figure.startswith("torch ") and figure.endswith(" ms"):
            peer, version, model, precision, ranks, _ = figure.split()
            goal = MODELS[model][2 if ranks == "2" else 1] if precision == "fp32" else GOAL_BF16
            ours = "ours %s %s %s" % (model, precision, ranks)
            where = "2 ranks of one core" if ranks == "2" else "one core"
            title = "%s %s, %s: PyTorch %s / ours" % (model, precision, where, version.split("+")[0])
            yield figure, ours + " ms", title, goal
            yield figure.replace(" ms", " MiB"), ours + " MiB", title + ", memory", 1.0


def verdict(value, goal):
    if goal is None:
        return ""
    reached = value >= goal if goal > 0 else value <= -goal
    return "%s %.2f: %s" % ("at least" if goal > 0 else "at most", abs(goal), "reached" if reached else "NOT reached")


def report(values):
    rows = []
    for over, under, title, goal in expand(values):
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
        print("%-72s %8.2f  (%.2f to %.2f)  %s" % (row["what"], value, row["low"], row["high"],
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
    parser.add_argument("--python", action="append", help="a python with torch (default /usr/bin/python3); may be repeated")
    parser.add_argument("--parts", default="collectives,mlp",
                        help="of collectives, %s (default collectives,mlp)" % ", ".join(MODELS))
    parser.add_argument("--precisions", default="fp32", help="of fp32, bf16 (default fp32)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40, help="timed steps of each training")
    parser.add_argument("--out", default=None, help="default results/peers.json")
    parser.add_argument("--build", default=os.path.join(here, "..", "build-release"), help="build folder")
    parser.add_argument("--no-install", action="store_true", help="install nothing (read by bench/peers.sh)")
    parser.add_argument("--root", default=os.path.join(here, ".."), help=argparse.SUPPRESS)
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.python = options.python or ["/usr/bin/python3"]
    options.parts = options.parts.split(",")
    unknown = [part for part in options.parts if part not in MODELS and part != "collectives"]
    if unknown:
        parser.error("--parts: '%s', expected some of collectives, %s" % (unknown[0], ", ".join(MODELS)))
    check_peers(options.peers)
    if options.check:
        return 0
    with tempfile.TemporaryDirectory(prefix="dpbench-peers-") as scratch:
        values, left_out = measure(options, scratch)
    rows = report(values)
    for name, reason in left_out.items():
        print("left out: %-40s %s" % (name, reason))
    out = options.out or os.path.join(options.root, "results", "peers.json")
    os.makedirs(os.path.dirname(os.path.abspath(out)), exist_ok=True)
    with open(out + ".part", "w", encoding="utf-8") as f:
        json.dump({"rows": rows, "rounds": values, "left_out": left_out}, f, indent=1)
    os.replace(out + ".part", out)
    print(out)
    return 0 if rows else 3


if __name__ == "__main__":
    sys.exit(main())
