#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""dpbench sweep from outside, over trainers that compute nothing: order, rows, proof, failures, resume.

    test_sweep.py DPBENCH PLOTS
"""
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import time

from sweep_case import COLUMNS, DPBENCH, MLP, SweepCase, main


class Sweep(SweepCase):
    # ---- a sweep in which all goes well

    def test_columns_rows_and_order(self):
        done = self.sweep(*MLP)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(self.out, "results.csv"), encoding="utf-8") as f:
            self.assertEqual(f.readline().rstrip("\n").split(","), COLUMNS)
        one_round = [["single", "synthetic", "1"], ["dp", "synthetic", "1"], ["ddp", "synthetic", "1"], ["dp", "synthetic", "2"],
                     ["ddp", "synthetic", "2"], ["ddp", "synthetic", "2", "apart"]]
        self.assertEqual(self.runs(), one_round * 2)
        self.assertEqual(len(self.rows()), 6)
        for row in self.rows():
            self.assertEqual((row["status"], row["rounds"], row["steps"], row["clock"], row["machine"]),
                             ("ok", "2", "6", "measured", ""))
            self.assertEqual(row["equal"], "na" if row["strategy"] == "single" else "bit")
        self.assertEqual(len(self.rows("steps.csv")), 36)
        self.assertEqual(len(self.rows("devices.csv")), 1 + 1 + 1 + 2 + 2 + 2)

    def test_what_is_worked_out(self):
        self.assertEqual(self.sweep(*MLP).returncode, 0)
        single, dp, ddp = self.row("single", 1), self.row("dp", 2), self.row("ddp", 2)
        apart = self.row("ddp", 2, "no_overlap=1")
        number = lambda row, column: float(row[column])
        self.assertAlmostEqual(number(dp, "speedup"), number(dp, "samples_per_s") / number(single, "samples_per_s"), places=6)
        self.assertAlmostEqual(number(dp, "efficiency"), number(dp, "speedup") / 2, places=6)
        self.assertAlmostEqual(number(ddp, "overlap_saved_ms"), number(apart, "step_ms") - number(ddp, "step_ms"), places=5)
        phases = sum(number(dp, c) for c in COLUMNS if c.endswith("_ms") and not c.startswith(("step", "comm", "overlap"))
                     and dp[c])
        self.assertAlmostEqual(phases, number(dp, "step_ms"), places=4)
        pair = [p for p in self.rows("pairs.csv") if (p["left"], p["right"], p["gpus"]) == ("dp", "ddp", "2")][0]
        self.assertAlmostEqual(float(pair["ratio"]), number(dp, "step_ms") / number(ddp, "step_ms"), places=6)
        self.assertEqual((pair["equal"], pair["gradient_difference"], pair["p_value"]), ("bit", "0", ""))
        moved = sum(float(t["bytes"]) for t in self.rows("traffic.csv") if t["strategy"] == "dp" and t["gpus"] == "2")
        self.assertAlmostEqual(moved / 2**20, number(dp, "comm_mib"), places=5)

    def test_more_devices_than_cores(self):
        self.assertEqual(self.sweep("--models", "mlp", "--gpus", "1,4", "--cores", "2", "--rounds", "1", "--steps", "2").returncode, 0)
        four = self.row("dp", 4)
        self.assertEqual((four["oversubscribed"], four["speedup"], four["efficiency"]), ("yes", "", ""))
        self.assertNotEqual(four["step_ms"], "")
        with open(os.path.join(self.out, "figures", "throughput-mlp.tsv"), encoding="utf-8") as f:
            self.assertEqual([line.split("\t")[0] for line in f], ["gpus", "1"])

    def test_what_was_not_measured_is_empty(self):
        self.assertEqual(self.sweep(*MLP).returncode, 0)
        single = self.row("single", 1)
        for column in ("comm_mib", "busiest_link_mib", "mem_median_others_mib", "comm_hidden_ms", "overlap_saved_ms", "checksum_ref"):
            self.assertEqual(single[column], "", column)
        with open(os.path.join(self.out, "results.json"), encoding="utf-8") as f:
            whole = json.load(f)
        first = whole["results"][0]
        self.assertEqual(list(first), COLUMNS)
        self.assertIsNone(first["comm_mib"])
        self.assertIsInstance(first["checksum"], str)
        self.assertEqual(first["step_ms"], float(single["step_ms"]))

    # ---- the proof

    def check_unequal(self, fault, reason):
        done = self.sweep(*MLP, fault=fault)
        self.assertEqual(done.returncode, 1)
        row = self.row("dp", 2)
        self.assertEqual((row["equal"], row["status"]), ("no", "failed"))
        self.assertIn(reason, row["reason"])
        self.assertIn("failed", done.stderr.splitlines()[-1])
        self.assertIn("NO:", done.stdout)
        self.assertEqual(self.row("dp", 1)["equal"], "bit")

    def test_other_bits_fail_the_sweep(self):
        self.check_unequal("dp:2:bits", "same bits are promised")

    def test_other_gradients_fail_the_sweep(self):
        self.check_unequal("dp:2:gradient", "net.0.weight")

    def test_a_nan_in_a_gradient_fails_the_sweep(self):
        self.check_unequal("dp:2:nan", "net.0.bias")

    def test_two_that_are_wrong_alike_fail_the_sweep(self):
        """Bit-equal to each other, and neither what a single device computes."""
        self.check_unequal("dp+ddp:2:gradient", "not equal to mlp-strong-single-1")

    def test_batch_norm_is_compared_with_its_partner_and_not_with_single(self):
        """Each piece has its own statistics: both differ from single alike, and that is right."""
        options = ["--models", "resnet20", "--gpus", "2", "--cores", "2", "--rounds", "1", "--steps", "2"]
        self.assertEqual(self.sweep(*options, fault="dp+ddp:all:gradient").returncode, 0)
        self.assertEqual((self.row("dp", 2)["equal"], self.row("ddp", 2)["equal"]), ("bit", "bit"))
        shutil.rmtree(self.out)
        self.assertEqual(self.sweep(*options, fault="dp:2:gradient").returncode, 1)

    def test_other_bits_in_another_round_fail_the_cell(self):
        self.assertEqual(self.sweep(*MLP, fault="ddp:1:drift").returncode, 1)
        row = self.row("ddp", 1)
        self.assertEqual((row["status"], row["step_ms"]), ("failed", ""))
        self.assertIn("in round 1", row["reason"])

    def test_tolerance_where_no_bits_are_promised(self):
        self.assertEqual(self.sweep("--models", "mlp", "--gpus", "3", "--cores", "4", "--rounds", "1", "--steps", "2").returncode, 0)
        dp, ddp = self.row("dp", 3), self.row("ddp", 3)
        self.assertEqual((dp["equal"], ddp["equal"]), ("tolerance", "tolerance"))
        self.assertEqual((dp["checksum_ref"], ddp["checksum_ref"]), (ddp["checksum"], dp["checksum"]))

    # ---- cells that go wrong

    def check_failed(self, fault, status, reason, *options):
        done = self.sweep(*MLP, *options, fault=fault)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(len(self.rows()), 6)
        strategy, gpus, _ = fault.split(":")
        row = self.row(strategy, gpus)
        self.assertEqual((row["status"], row["step_ms"], row["equal"]), (status, "", "na"))
        self.assertIn(reason, row["reason"])
        self.assertEqual(sum(r["status"] == "ok" for r in self.rows()), 5)
        self.assertEqual(self.runs().count([strategy, "synthetic", gpus]), 1, "a failed cell is not tried again")
        with open(os.path.join(self.out, "report.html"), encoding="utf-8") as f:
            self.assertIn("Cells that failed", f.read())

    def test_a_cell_that_hangs(self):
        self.check_failed("ddp:2:hang", "time_limit", "not finished after 1 s", "--run-timeout", "1")

    def test_a_cell_that_exits(self):
        self.check_failed("dp:2:exit3", "failed", "exit code 1: fixture: no device")

    def test_a_cell_that_is_killed(self):
        self.check_failed("dp:1:killed", "failed", "exit code 139 (SIGSEGV), without a word")

    def test_what_a_trainer_leaves_behind_is_ended(self):
        self.assertEqual(self.sweep(*MLP, fault="dp:1:orphan").returncode, 0)
        with subprocess.Popen(["ps", "-eo", "args"], stdout=subprocess.PIPE, text=True) as ps:
            self.assertNotIn("sleep 3599.25", ps.communicate()[0])

    def test_a_cell_with_a_cut_line(self):
        self.check_failed("ddp:1:cut", "failed", "exit code 1")

    def test_a_cell_that_fails_its_own_check(self):
        self.check_failed("dp:2:ledger", "failed", "counted 1, formula 2")

    def test_a_trainer_that_runs_something_else(self):
        self.check_failed("dp:2:other", "failed", "something else than was planned")

    # ---- resume

    def test_resume_keeps_rows_and_runs_the_rest(self):
        """Killed at seeded moments; each time: finished rows stay byte-identical, no finished run is repeated. A moment is
        counted in runs that have begun (FIXTURE_LOG), so that a busy machine gets as far as an idle one."""
        options = ["--quick", "--device", "soft", "--models", "mlp,digits", "--gpus", "1,2", "--cores", "2", "--rounds", "2", "--steps", "3"]
        total = 2 * 6 + 2 * 5
        moments = random.Random(7)
        kept = b""
        for attempt in range(2 * total):   # every second one finishes a run at least
            resume = ["--resume"] if attempt else []
            process = subprocess.Popen(self.command(*options, *resume), env=self.environment(sleep=0.03), stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if self.await_begun(process, self.begun() + (moments.randint(2, 4) if attempt % 2 else moments.randint(0, 1))):
                time.sleep(moments.uniform(0, 0.06))   # anywhere in the run and what follows it
                process.send_signal(signal.SIGKILL)
            rc = process.wait()
            rc = None if rc == -signal.SIGKILL else rc
            path = os.path.join(self.out, "results.csv")
            if os.path.exists(path):
                with open(path, "rb") as f:
                    now = f.read()
                self.assertTrue(now.startswith(kept), "finished rows changed")
                kept = now
            if rc is not None:
                break
        self.assertEqual(rc, 0)
        self.assertGreater(attempt, 2, "the sweep was never interrupted")
        self.assertEqual(len(self.rows()), 11)
        self.assertLessEqual(len(self.runs()), total + attempt, "finished runs were repeated")
        self.assertEqual([n for n in os.listdir(os.path.join(self.out, "runs")) if n.endswith((".part", ".gradients"))], [])

    def begun(self):
        return len(self.runs()) if os.path.exists(self.log) else 0

    def await_begun(self, process, count):
        """Until so many runs have begun; False: the sweep has come to its end before."""
        while self.begun() < count and process.poll() is None:
            time.sleep(0.002)
        return process.poll() is None

    def test_resume_of_a_finished_sweep_runs_nothing(self):
        self.assertEqual(self.sweep(*MLP).returncode, 0)
        before = {n: self.digest(n) for n in os.listdir(self.out) if n.endswith((".csv", ".json"))}
        runs = len(self.runs())
        self.assertEqual(self.sweep(*MLP, "--resume").returncode, 0)
        self.assertEqual(len(self.runs()), runs)
        self.assertEqual(before, {n: self.digest(n) for n in before})

    def test_resume_removes_what_a_killed_sweep_could_not(self):
        """Killed between a group's rows and the removal of its gradients."""
        self.assertEqual(self.sweep(*MLP).returncode, 0)
        left = os.path.join(self.out, "runs", "mlp-strong-dp-2.gradients")
        with open(left, "wb") as f:
            f.write(b"left")
        self.assertEqual(self.sweep(*MLP, "--resume").returncode, 0)
        self.assertFalse(os.path.exists(left))

    def test_an_interrupted_resume_leaves_no_page_of_before(self):
        """The tables grow, so the page, its pictures and results.json are older than what they are read with."""
        self.assertEqual(self.sweep(*MLP).returncode, 0)
        picture = os.path.join(self.out, "traffic-mlp.svg")
        with open(picture, "w", encoding="utf-8") as f:
            f.write("<svg>of before</svg>")
        rows = self.rows()
        with open(os.path.join(self.out, "results.csv"), "w", newline="", encoding="utf-8") as f:
            f.write(",".join(COLUMNS) + "\n")
        os.unlink(os.path.join(self.out, "runs", "mlp-strong-ddp-2.r1.jsonl"))
        process = subprocess.Popen(self.command(*MLP, "--resume"), env=self.environment(fault="ddp:2:hang"), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.assertTrue(self.await_begun(process, 12 + 1))
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(30), 130)
        for name in ("report.html", "results.json", "traffic-mlp.svg"):
            self.assertFalse(os.path.exists(os.path.join(self.out, name)), name)
        self.assertEqual(self.sweep(*MLP, "--resume").returncode, 0)
        self.assertEqual(len(self.rows()), len(rows))
        self.assertTrue(os.path.exists(os.path.join(self.out, "report.html")))

    def test_a_picture_that_is_not_drawn_is_not_an_older_one(self):
        self.assertEqual(self.sweep(*MLP).returncode, 0)
        with open(os.path.join(self.out, "traffic-mlp.svg"), "w", encoding="utf-8") as f:
            f.write("<svg>of before</svg>")
        subprocess.run([DPBENCH, "report", self.out, self.plots], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        self.assertNotIn("data:image", self.page())
        self.assertIn("traffic-mlp.svg was not drawn", self.page())

    def test_a_page_that_can_not_be_made_again_stays(self):
        self.assertEqual(self.sweep(*MLP).returncode, 0)
        before = {name: self.digest(name) for name in sorted(os.listdir(self.out)) if os.path.isfile(os.path.join(self.out, name))}
        self.assertIn("report.html", before)
        done = subprocess.run([DPBENCH, "report", self.out, os.path.join(self.out, "no-plots")], capture_output=True, check=False)
        self.assertEqual(done.returncode, 4)
        self.assertEqual({name: self.digest(name) for name in before}, before)

    def test_runs_without_a_plan_are_refused(self):
        """Taken over they would pass for this sweep's, whatever options they were made with."""
        self.assertEqual(self.sweep(*MLP).returncode, 0)
        os.unlink(os.path.join(self.out, "plan.txt"))
        for options in (["--resume"], []):
            done = self.sweep(*MLP[:-1], "4", *options)
            self.assertEqual(done.returncode, 2)
            self.assertIn("results of a sweep without its plan.txt", done.stderr)
        self.assertEqual(len(self.runs()), 12)

    def digest(self, name):
        with open(os.path.join(self.out, name), "rb") as f:
            return hashlib.sha256(f.read()).hexdigest()

    def test_resume_with_other_options_is_refused(self):
        self.assertEqual(self.sweep(*MLP).returncode, 0)
        self.assertEqual(self.sweep(*MLP[:-1], "4", "--resume").returncode, 2)
        done = self.sweep(*MLP)
        self.assertEqual(done.returncode, 2)
        self.assertIn("holds a sweep already", done.stderr)

    def test_interrupt_ends_the_trainer_and_keeps_its_place(self):
        process = subprocess.Popen(self.command(*MLP), env=self.environment(fault="ddp:2:hang"), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not (os.path.exists(self.log) and ["ddp", "synthetic", "2"] in self.runs()):
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130, errors)
        self.assertIn("--resume", errors)
        with subprocess.Popen(["ps", "-eo", "args"], stdout=subprocess.PIPE, text=True) as ps:
            self.assertNotIn(self.programs, ps.communicate()[0])
        self.assertEqual(self.sweep(*MLP, "--resume").returncode, 0)
        self.assertEqual(len(self.runs()), 12 + 1)


if __name__ == "__main__":
    main()
