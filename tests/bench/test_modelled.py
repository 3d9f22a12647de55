#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a sweep shows without executing anything: shape-only rows in the memory band, and the modelled band. Over fixtures, and once over
the real trainers and the real replay.

    test_modelled.py DPBENCH PLOTS PROGRAMS
"""
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

DPBENCH, PLOTS, PROGRAMS = sys.argv[1:4]
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
CELLS = {"pcie4x4": 9, "a100x8": 11}


class Modelled(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="dpbench-test-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.out = os.path.join(self.folder, "out")
        self.programs = os.path.join(self.folder, "programs")
        self.plots = os.path.join(self.folder, "plots")  # without scripts: gnuplot is tried in one test only
        self.replay = os.path.join(self.programs, "bench", "replay", "replay")
        os.makedirs(os.path.dirname(self.replay))
        os.mkdir(self.plots)
        shutil.copy(os.path.join(PLOTS, "report.html.in"), self.plots)
        for name in ("dp-train", "ddp-train"):
            os.symlink(os.path.join(HERE, "fixture_trainer.py"), os.path.join(self.programs, name))
        os.symlink(os.path.join(HERE, "fixture_replay.py"), self.replay)

    def sweep(self, *options, programs=None, plots=None, **environment):
        command = [DPBENCH, "sweep", "--programs", programs or self.programs, "--plots", plots or self.plots, "--out", self.out,
                   "--models", "gpt2-124m", "--device", "soft", *options]
        return subprocess.run(command, env=dict(os.environ, **environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=240)

    def rows(self, name="results.csv", **where):
        with open(os.path.join(self.out, name), newline="", encoding="utf-8") as f:
            return [r for r in csv.DictReader(f) if all(r[k] == v for k, v in where.items())]

    def read(self, name):
        with open(os.path.join(self.out, name), encoding="utf-8") as f:
            return f.read()

    # ---- shape only

    def test_shape_only_rows_have_memory_and_bytes_and_no_times(self):
        self.assertEqual(self.sweep().returncode, 0)
        measured = self.rows(clock="measured")
        self.assertEqual([(r["strategy"], r["gpus"]) for r in measured], [("dp", "8"), ("ddp", "8")])
        for row in measured:
            self.assertEqual(row["variant"], "device_memory=81920;shape_only=1")
            self.assertEqual((row["equal"], row["status"], row["oversubscribed"]), ("na", "ok", "no"))
            self.assertIn("nothing was executed", row["reason"])
            for column in row:
                if column.endswith("_ms") or column in ("steps", "samples_per_s", "speedup", "loss_last", "checksum", "util_mean"):
                    self.assertEqual(row[column], "", column)
            self.assertEqual(row["comm_mib"], row["comm_mib_formula"])
            self.assertGreater(float(row["mem_device0_mib"]), 0)
        self.assertEqual((self.rows("steps.csv"), self.rows("pairs.csv")), ([], []))
        figures = os.listdir(os.path.join(self.out, "figures"))
        self.assertEqual(sorted(f for f in figures if f.endswith(".tsv") and not f.startswith("modelled")), ["memory-gpt2-124m.tsv", "traffic-gpt2-124m.tsv"])

    def test_shape_only_whatever_the_sweep_is_told_to_measure(self):
        self.assertEqual(self.sweep("--gpus", "1", "--rounds", "3", "--scaling", "strong,weak", "--strategies", "ddp").returncode, 0)
        self.assertEqual([(r["strategy"], r["gpus"], r["rounds"], r["scaling"]) for r in self.rows(clock="measured")],
                         [("ddp", "8", "1", "strong")])

    def test_the_largest_batch(self):
        done = self.sweep()
        line, = (l for l in done.stdout.splitlines() if l.startswith("Largest batch."))
        self.assertIn("gpt2-124m on 8 devices of 81920 MiB: DP fits 17 samples per device, DDP 51; on the same memory DDP fits 200 % more", line)
        dp, ddp = self.rows("largest.csv")
        self.assertEqual((dp["strategy"], dp["batch_per_gpu"], dp["total_mib"], dp["status"]), ("dp", "17", "119", "ok"))

    def test_no_largest_batch(self):
        done = self.sweep(FIXTURE_FAULT="ddp:8:exit3")
        self.assertIn("Largest batch. Not found for ddp: exit code 1: fixture: no device", done.stdout)
        self.assertIn("Not found for ddp", self.read("report.html"))
        self.assertEqual(self.sweep("--resume").returncode, 1, "the failed cell's row is kept")
        self.assertEqual([r["status"] for r in self.rows("largest.csv")], ["ok", "ok"])

    # ---- the modelled band

    def test_rows_of_both_machines(self):
        done = self.sweep()
        self.assertEqual(done.returncode, 0, done.stderr)
        for machine, count in CELLS.items():
            rows = self.rows(clock="modelled", machine=machine)
            self.assertEqual(len(rows), count)
            self.assertEqual({(r["status"], r["equal"], r["scaling"], r["model"]) for r in rows}, {("ok", "na", "weak", "gpt2-124m")})
            locked = [(r["strategy"], r["gpus"]) for r in rows if "launch_lock_us=10" in r["variant"]]
            self.assertEqual(locked, [(s, machine[-1]) for s in ("dp", "ddp")])
            dp, = (r for r in rows if (r["strategy"], r["gpus"]) == ("dp", "4") and "lock" not in r["variant"])
            # A batch per device: 4 times the samples in 153 ms instead of 93.
            self.assertAlmostEqual(float(dp["speedup"]), 4 * 93 / 153, places=6)
            self.assertAlmostEqual(float(dp["efficiency"]), 93 / 153, places=6)
        self.assertEqual(len(self.rows("modelled.csv")), sum(CELLS.values()))
        device = self.rows("modelled_devices.csv", machine="a100x8", strategy="ddp", gpus="8")[0]
        self.assertEqual((device["util"], device["collective"], device["sent_mib"], device["received_mib"]), ("0.9", "0.2", "1", "2"))
        whole = json.loads(self.read("results.json"))
        self.assertEqual(sum(r["clock"] == "modelled" for r in whole["results"]), sum(CELLS.values()))
        self.assertEqual([n for n in os.listdir(os.path.join(self.out, "runs")) if n.endswith((".trace", ".0", ".1", ".rec"))], [])

    def test_a_timeline_is_the_first_step_by_phase(self):
        self.sweep()
        spans = [(r["lane"], r["phase"], float(r["start_ms"]), float(r["end_ms"]))
                 for r in self.rows("timeline.csv", machine="pcie4x4", strategy="ddp", device="3")]
        self.assertEqual(sorted(spans), [("communication", "allreduce_exposed", 40, 50), ("communication", "allreduce_exposed", 50, 60),
                                         ("compute", "backward", 31, 91), ("compute", "forward", 0, 30), ("compute", "other", 92, 93)])
        self.assertEqual({(r["machine"], r["gpus"]) for r in self.rows("timeline.csv")}, {("pcie4x4", "4"), ("a100x8", "8")})

    def test_sentences_come_from_the_numbers(self):
        done = self.sweep()
        lines = [l for l in done.stdout.splitlines() if l.startswith("Modelled on")]
        self.assertEqual(len(lines), 2 + 2, "in full, and in the headline")
        self.assertRegex(lines[3], r"^Modelled on 8 x A100.*\(band 2: how far to trust it\)\. DDP is modelled faster with all 8 devices: 2\.33 times as fast on "
                                   r"gpt2-124m\. On gpt2-124m DP, of 233 ms a step, spends 140 ms more on gathering the outputs")
        self.assertIn("N = 8: DDP is modelled 2.33 times as fast as DP, because DP, of 233 ms a step, spends 140 ms more on gathering "
                      "the outputs", lines[1])
        self.assertIn("(speed-up over one device: DP 3.19, DDP 7.44)", lines[1])
        lock, = (l for l in done.stdout.splitlines() if l.startswith("A launch lock") and "8 x A100" in l)
        self.assertIn("gpt2-124m 21 % with DP, 0 % with DDP", lock)
        self.assertIn("not yet checked against published ladders", self.read("report.html"))
        os.mkdir(os.path.join(self.folder, "docs"))
        with open(os.path.join(self.folder, "docs", "fidelity.md"), "w", encoding="utf-8") as f:
            f.write("# Fidelity\n\n| no predictions: 1 |\n17 predictions: 8 within 5 %, worst 49.2 %.\nMore.\n")
        subprocess.run([DPBENCH, "report", self.out, self.plots], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        self.assertIn("other machines and programs: 17 predictions: 8 within 5 %, worst 49.2 %. Each stands", self.read("report.html"))

    def test_no_winner_within_the_models_error(self):
        done = self.sweep(FIXTURE_REPLAY="close")
        lines = [l for l in done.stdout.splitlines() if l.startswith("Modelled on")]
        for line in lines[:2]:
            self.assertIn("no winner: DP's step / DDP's is modelled 1.05, and the model may be off by 5 %", line)
        for line in lines[2:]:
            self.assertIn("No winner on gpt2-124m (DP's step / DDP's 1.05, within the model's error).", line)
            self.assertNotIn("faster", line)

    def test_what_stands_beside_a_figure_is_what_it_shows(self):
        self.sweep()
        page = self.read("report.html")
        self.assertIn("Modelled: a step takes 233 ms with DP and 100 ms with DDP. DDP all-reduces 2 buckets in 20 ms, of which 20 ms (100 %) lie "
                      "beside its computing", page)
        self.assertIn("of DP&#39;s 233 ms a step, 140 ms (60 %) move data that no computing hides; of DDP&#39;s 100 ms, 7 ms (7 %)".replace("&#39;", "'"),
                      page.replace("&#39;", "'"))
        self.assertIn("Modelled: DP's device 0 is busy 90 % of the step, the others 90 %; DDP's", page.replace("&#39;", "'"))

    def test_clocks_never_meet(self):
        """A measured figure and a modelled one of the same workload: each has its own rows."""
        self.sweep("--models", "classes", "--gpus", "1,2", "--cores", "2", "--rounds", "1", "--steps", "2", "--scaling", "weak")
        page = self.read("report.html")
        third = page[page.index('id="three"'):]
        self.assertNotRegex(third, "(?i)modelled on|a100x8|pcie4x4")
        self.assertNotIn("<tr><td>", third, "neither workload is made for times")
        first = page[page.index('id="one"'):page.index('id="two"')]
        self.assertEqual((first.count("<tr><td>classes"), first.count("<tr><td>")), (5, 5 + 2))
        self.assertEqual(len(self.rows("devices.csv", model="mlp")), 1 + 1 + 1 + 2 + 2)
        self.assertNotIn("Every cell", page[page.index('id="two"'):page.index('id="three"')])

    def test_resume_keeps_the_band(self):
        self.assertEqual(self.sweep().returncode, 0)
        before = {n: self.read(n) for n in os.listdir(self.out) if n.endswith((".csv", ".json"))}
        os.unlink(self.replay)
        self.assertEqual(self.sweep("--resume").returncode, 0)
        self.assertEqual(before, {n: self.read(n) for n in before})

    # ---- what goes wrong is shown, and the sweep goes on

    def check_left_out(self, done, status, reason, rows=None):
        self.assertEqual(done.returncode, 0, done.stderr)
        bad = [r for r in self.rows(clock="modelled") if r["status"] != "ok"]
        self.assertEqual({r["status"] for r in bad}, {status})
        self.assertEqual(len(bad), rows or sum(CELLS.values()))
        for row in bad:
            self.assertRegex(row["reason"], reason)
            self.assertEqual(row["step_ms"] if status != "out_of_memory" else "", "")
        self.assertRegex(self.read("report.html"), reason)
        self.assertRegex(done.stdout, "Not modelled: .*" + reason)
        self.assertEqual(len(self.rows(clock="measured", status="ok")), 2)

    def test_no_replay(self):
        os.unlink(self.replay)
        done = self.sweep()
        self.check_left_out(done, "left_out", "bench/replay/replay: No such file", rows=1)
        self.assertIn("Left out.", self.read("report.html"))
        os.symlink(os.path.join(HERE, "fixture_replay.py"), self.replay)
        self.assertEqual(self.sweep("--resume").returncode, 0)
        self.assertEqual(len(self.rows(clock="modelled", status="ok")), sum(CELLS.values()), "the band is made up for")
        self.assertEqual(len(self.rows(clock="modelled")), sum(CELLS.values()))

    def test_a_replay_that_fails(self):
        self.check_left_out(self.sweep(FIXTURE_REPLAY="fail"), "failed", "its replay: exit code 1: replay: fixture: broken")

    def test_a_replay_that_answers_something_else(self):
        self.check_left_out(self.sweep(FIXTURE_REPLAY="other"), "failed", "something else than was asked")

    def test_a_replay_whose_answer_is_cut(self):
        self.check_left_out(self.sweep(FIXTURE_REPLAY="cut"), "failed", "answer can&#39;t be read|answer can't be read")

    def test_a_trace_that_is_cut(self):
        self.check_left_out(self.sweep(FIXTURE_REPLAY="trace"), "failed", "trace is no timeline", rows=4)

    def test_nothing_of_a_band_that_is_gone_is_read(self):
        """What is modelled again and fails has no rows left in the band's other tables."""
        self.sweep("--strategies", "ddp", FIXTURE_REPLAY="trace")
        self.assertGreater(len(self.rows("modelled.csv")), 0)
        self.sweep("--strategies", "ddp", "--resume", FIXTURE_REPLAY="fail")
        self.assertEqual({r["status"] for r in self.rows(clock="modelled")}, {"failed"})
        for name in ("modelled.csv", "modelled_devices.csv", "timeline.csv"):
            self.assertFalse(os.path.exists(os.path.join(self.out, name)), name)

    def test_a_run_that_does_not_fit(self):
        done = self.sweep(FIXTURE_REPLAY="memory")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({r["status"] for r in self.rows(clock="modelled")}, {"out_of_memory"})
        self.assertIn("does not fit in a device's memory", self.read("report.html"))
        self.assertEqual([n for n in os.listdir(os.path.join(self.out, "figures")) if "throughput" in n], [])

    def test_a_record_that_fails(self):
        done = self.sweep(FIXTURE_FAULT="dp:2:exit3")
        self.check_left_out(done, "failed", "its record: exit code 1: fixture: no device", rows=2)

    # ---- the real ones

    def test_real_records_and_replays(self):
        if not os.access(os.path.join(PROGRAMS, "dp-train-soft"), os.X_OK):
            self.skipTest("no soft GPUs in this build")
        done = self.sweep("--gpus", "1", programs=PROGRAMS, plots=PLOTS if shutil.which("gnuplot") else self.plots)
        self.assertEqual(done.returncode, 0, done.stderr)
        dp, ddp = self.rows(clock="measured")
        # 8 x 2 x 1024 x 50304 logits and their gradient: 3144 MiB each on DP's device 0.
        self.assertGreater(float(dp["mem_device0_mib"]) - float(dp["mem_median_others_mib"]), 2 * 3144 * 7 / 8)
        self.assertEqual(ddp["mem_device0_mib"], ddp["mem_median_others_mib"])
        rows = self.rows(clock="modelled")
        self.assertEqual([r["status"] for r in rows], ["ok"] * sum(CELLS.values()), [r["reason"] for r in rows])
        step = {(r["machine"], r["strategy"], r["gpus"]): float(r["step_ms"]) for r in rows if "lock" not in r["variant"]}
        self.assertEqual(step["a100x8", "single", "1"], step["a100x8", "ddp", "1"])
        for machine in CELLS:
            self.assertGreater(step[machine, "dp", machine[-1]], step[machine, "ddp", machine[-1]])
        for row in rows:
            phases = sum(float(row[c]) for c in row if c.endswith("_ms") and row[c] and not c.startswith(("step_", "comm_", "overlap_")))
            self.assertAlmostEqual(phases / float(row["step_ms"]), 1, places=6)
        for machine in CELLS:
            with open(os.path.join(ROOT, "bench", "machines", machine + ".ini"), encoding="utf-8") as f:
                self.assertIn("modelled on " + re.search("^description = (.*)", f.read(), re.M).group(1),
                              re.sub("<[^>]*>", "", self.read("modelled-timeline-gpt2-124m-%s.svg" % machine))
                              if shutil.which("gnuplot") else self.read("report.html"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
