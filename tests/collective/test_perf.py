#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""collective-perf: every operation in both modes, its lines of --json, bad options, a rank that is killed.

    test_perf.py PROGRAM
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = sys.argv.pop()
LIMIT_S = 60


def run(*options):
    return subprocess.run([PROGRAM, *options], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=LIMIT_S)


class Measuring(unittest.TestCase):
    FACTOR = {"all_reduce": 2 * 2 / 3, "broadcast": 1, "reduce": 1, "all_gather": 2 / 3, "reduce_scatter": 2 / 3}

    def check(self, operation, mode, *more):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "lines")
            done = run(operation, "--ranks", "3", "--mode", mode, "-b", "12", "-e", "48K", "-f", "16", "-n", "3",
                       "-w", "1", "--json", path, *more)
            self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
            with open(path, encoding="utf-8") as file:
                lines = [json.loads(line) for line in file]
        self.assertIn("# Out of bounds values : 0 OK", done.stdout)
        self.assertEqual([line["in_place"] for line in lines], [0, 1] * 4)
        for line in lines:
            self.assertEqual((line["op"], line["mode"], line["ranks"], line["wrong"]), (operation, mode, 3, 0))
            self.assertGreater(line["us"], 0)
            self.assertAlmostEqual(line["algbw_gb_s"], line["bytes"] / line["us"] / 1e3)
            self.assertAlmostEqual(line["busbw_gb_s"], line["algbw_gb_s"] * self.FACTOR[operation])
        return lines

    def test_every_operation(self):
        for operation in self.FACTOR:
            for mode in "threads", "processes":
                with self.subTest(operation=operation, mode=mode):
                    lines = self.check(operation, mode, "-r", "1" if operation in ("broadcast", "reduce") else "0")
                    self.assertEqual([line["bytes"] for line in lines[::2]], [12, 192, 3072, 49152])

    def test_buffers_that_go_through_a_pool(self):
        for operation in self.FACTOR:
            with self.subTest(operation=operation):
                self.assertEqual({line["pool"] for line in self.check(operation, "threads")}, {0})
                for pool, size in ("64K", 65536), ("1K", 1024):
                    self.assertEqual({line["pool"] for line in self.check(operation, "threads", "--pool", pool)}, {size})

    def test_every_type_and_reduction(self):
        for kind in "int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16":
            for reduction in "sum", "prod", "max", "min":
                with self.subTest(kind=kind, reduction=reduction):
                    done = run("reduce_scatter", "--ranks", "3", "--mode", "threads", "-b", "2K", "-e", "2K", "-n", "1",
                               "-w", "0", "-d", kind, "-o", reduction)
                    self.assertEqual(done.returncode, 0, done.stderr + done.stdout)

    def test_one_rank_has_no_bus(self):
        done = run("all_reduce", "--ranks", "1", "-b", "1K", "-e", "1K", "-n", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("n/a", done.stdout)


class Refusing(unittest.TestCase):
    def test_bad_options(self):
        for options, message in (
            (["all_redcue"], "did you mean all_reduce?"),
            ([], "which operation?"),
            (["all_reduce", "broadcast"], "one operation a run"),
            (["all_reduce", "--ranks", "0"], "1 to 64"),
            (["all_reduce", "--ranks", "4x"], "4x"),
            (["all_reduce", "-b", "4T"], "4T"),
            (["all_reduce", "--pool", "-1"], "--pool -1"),
            (["all_reduce", "-b", "18446744073709551616"], "-b"),
            (["all_reduce", "-e", "99999999999G"], "-e"),
            (["all_reduce", "-b", "2K", "-e", "1K"], "larger"),
            (["all_reduce", "-f", "1"], "-f"),
            (["all_reduce", "-c", "2"], "-c"),
            (["all_reduce", "-d", "floot"], "floot"),
            (["broadcast", "-r", "2"], "root"),
            (["all_reduce", "--mode", "fibers"], "fibers"),
            (["all_reduce", "--rounbs", "2"], "did you mean --rounds?"),
            (["all_reduce", "--device", "tpu"], "tpu"),
            (["all_reduce", "--bogus"], "unknown option --bogus"),
            (["all_reduce", "--itres", "3"], "unknown option --itres: did you mean --iters?"),
            (["all_reduce", "--iters"], "--iters: expected a value"),
            (["all_reduce", "-n"], "-n: expected a value"),
        ):
            with self.subTest(options=options):
                done = run(*options)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(message, done.stderr)

    def test_a_device_of_another_kind(self):
        done = run("all_reduce", "--device", "cuda" if "soft" in PROGRAM else "soft")
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (3, 1), done.stderr)
        self.assertIn("use --device", done.stderr)

    def test_json_that_can_not_be_written(self):
        self.assertEqual(run("all_reduce", "--json", "/nowhere/lines").returncode, 3)


class Dying(unittest.TestCase):
    @staticmethod
    def start(ranks):
        """A run without end and its ranks' process ids."""
        program = subprocess.Popen([PROGRAM, "all_reduce", "--ranks", str(ranks), "-b", "64K", "-e", "64K", "-c", "0",
                                    "-n", "1000000"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        children, deadline = [], time.monotonic() + LIMIT_S
        while len(children) < ranks and time.monotonic() < deadline:
            with open("/proc/%d/task/%d/children" % (program.pid, program.pid), encoding="ascii") as file:
                children = [int(child) for child in file.read().split()]
        return program, children

    @staticmethod
    def runs(process):
        try:
            with open("/proc/%d/stat" % process, encoding="ascii") as stat:
                return stat.read().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    def test_a_killed_rank_ends_the_run(self):
        program, ranks = self.start(3)
        with program:
            os.kill(ranks[1], signal.SIGKILL)
            errors = program.communicate(timeout=LIMIT_S)[1]
        self.assertEqual(program.returncode, 137, errors)
        self.assertIn("rank 1 (process %d) died of signal 9" % ranks[1], errors)
        self.assertFalse(any(self.runs(rank) for rank in ranks))

    def test_ranks_die_with_their_parent(self):
        program, ranks = self.start(2)
        with program:
            program.kill()
        deadline = time.monotonic() + LIMIT_S
        while any(self.runs(rank) for rank in ranks) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertFalse(any(self.runs(rank) for rank in ranks))


if __name__ == "__main__":
    unittest.main()
