#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""dpbench sweep from outside, over trainers that compute nothing: order, rows, proof, failures, resume, report.

    test_sweep.py DPBENCH PLOTS
"""
import csv
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

DPBENCH, PLOTS = sys.argv[1:3]
HERE = os.path.dirname(os.path.abspath(__file__))
COLUMNS = """schema,run,time,host,backend,device,clock,machine,strategy,variant,model,precision,optimizer,data,gpus,
cores_per_device,scaling,global_batch,batch_per_gpu,accumulate,params,rounds,steps,step_ms,step_ms_mad,step_ms_p95,samples_per_s,
samples_per_s_lo,samples_per_s_hi,speedup,efficiency,scatter_ms,replicate_ms,forward_ms,gather_ms,loss_ms,backward_ms,reduce_ms,
allreduce_exposed_ms,update_ms,host_ms,wait_ms,comm_hidden_ms,overlap_saved_ms,mem_peak_mib,mem_device0_mib,mem_median_others_mib,
mem_imbalance,util_mean,util_device0,comm_mib,comm_mib_formula,busiest_link_mib,comm_source,loss_first,loss_last,checksum,
checksum_ref,equal,oversubscribed,status,reason""".replace("\n", "").split(",")
MLP = ["--quick", "--models", "mlp", "--gpus", "1,2", "--cores", "2", "--rounds", "2", "--steps", "3"]


class Sweep(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="dpbench-test-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.out = os.path.join(self.folder, "out")
        self.log = os.path.join(self.folder, "log")
        self.programs = os.path.join(self.folder, "programs")
        # A copy of the scripts without the plots: gnuplot is tried in one test only.
        self.plots = os.path.join(self.folder, "plots")
        os.mkdir(self.programs)
        os.mkdir(self.plots)
        shutil.copy(os.path.join(PLOTS, "report.html.in"), self.plots)
        for name in ("dp-train", "ddp-train"):
            os.symlink(os.path.join(HERE, "fixture_trainer.py"), os.path.join(self.programs, name))

    def command(self, *options, plots=None):
        return [DPBENCH, "sweep", "--programs", self.programs, "--plots", plots or self.plots, "--out", self.out, *options]

    def environment(self, fault=None, sleep=None, **others):
        env = dict(os.environ, FIXTURE_LOG=self.log, **others)
        env.update({"FIXTURE_FAULT": fault} if fault else {})
        env.update({"FIXTURE_SLEEP": str(sleep)} if sleep else {})
        return env

    def sweep(self, *options, fault=None, plots=None, **environment):
        return subprocess.run(self.command(*options, plots=plots), env=self.environment(fault, **environment), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)

    def rows(self, name="results.csv"):
        with open(os.path.join(self.out, name), newline="", encoding="utf-8") as f:
            return list(csv.DictReader(f))

    def row(self, strategy, gpus, variant=""):
        found = [r for r in self.rows() if (r["strategy"], r["gpus"], r["variant"]) == (strategy, str(gpus), variant)]
        self.assertEqual(len(found), 1)
        return found[0]

    def runs(self):
        with open(self.log, encoding="utf-8") as f:
            return [line.split() for line in f]

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

    def test_report_has_three_bands(self):
        self.assertEqual(self.sweep("--quick", "--cores", "4", "--rounds", "1").returncode, 0)
        with open(os.path.join(self.out, "report.html"), encoding="utf-8") as f:
            page = f.read()
        places = [page.index(band) for band in ("True on any machine", "Modelled", "Measured here")]
        self.assertEqual(places, sorted(places))
        self.assertRegex(page, "Left out.</b> .*/bench/replay/replay: No such file")
        self.assertLess(page.index("The same model?"), places[0])
        self.assertEqual(page.count(">bit</td>"), 36)
        self.assertNotRegex(page, r"@[A-Z]|<script|src=\"(?!data:)|href=")
        for word in ("nan", "inf"):
            self.assertNotRegex(page, r">-?%s<" % word)

    def test_plots(self):
        if not shutil.which("gnuplot"):
            self.skipTest("gnuplot is not installed")
        done = self.sweep("--quick", "--cores", "4", "--device", "soft", "--rounds", "1", plots=PLOTS)
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"^dpbench: warning: the modelled band is left out: .*\n$")
        timed = ["mlp", "resnet20", "gpt-nano"]
        names = ["%s-%s" % (kind, w) for kind in ("memory", "traffic") for w in timed + ["classes", "gpt2-124m"]]
        names += ["%s-%s" % (kind, w) for kind in ("breakdown", "throughput", "utilization") for w in timed]
        for name in names:
            of = "recorded, not executed" if "gpt2" in name else "soft GPUs on CPU cores"
            with open(os.path.join(self.out, name + ".svg"), encoding="utf-8") as f:
                self.assertIn(of, re.sub(r"<[^>]*>", "", f.read()))
            with open(os.path.join(self.out, name + ".png"), "rb") as f:
                self.assertEqual(f.read(4), b"\x89PNG")
        with open(os.path.join(self.out, "report.html"), encoding="utf-8") as f:
            self.assertEqual(f.read().count("data:image/svg+xml;base64,"), len(names))

    def test_plots_of_parts_of_a_sweep(self):
        """One strategy, one device, one round, many devices: gnuplot finds data in each."""
        if not shutil.which("gnuplot"):
            self.skipTest("gnuplot is not installed")
        for options in (["--strategies", "dp"], ["--strategies", "single,ddp", "--gpus", "1"], ["--strategies", "single"],
                        ["--rounds", "1"], ["--gpus", "4,8,16,32,64", "--cores", "64", "--scaling", "weak"]):
            done = self.sweep("--models", "mlp", "--gpus", "1,2", "--cores", "2", "--rounds", "2", "--steps", "2", "--device", "soft",
                              *options, plots=PLOTS)
            self.assertEqual((done.returncode, done.stderr), (0, ""), options)
            logs = [n for n in os.listdir(os.path.join(self.out, "figures")) if n.endswith(".log")]
            self.assertEqual(logs, [], options)
            shutil.rmtree(self.out)

    # ---- the verdict and the page

    def page(self):
        with open(os.path.join(self.out, "report.html"), encoding="utf-8") as f:
            return f.read()

    def said(self, done, head):
        """The lines of the verdict that begin so; each says something."""
        lines = [line[len(head):].strip() for line in done.stdout.splitlines() if line.startswith(head)]
        self.assertNotIn("", lines)
        return lines

    def test_speed_up_and_its_interval(self):
        done = self.sweep(*MLP)
        pairs = {(p["left"], p["gpus"]): p for p in self.rows("pairs.csv") if p["right"] == "single"}
        self.assertEqual(sorted(pairs), [("ddp", "1"), ("ddp", "2"), ("ddp;no_overlap=1", "2"), ("dp", "1"), ("dp", "2")])
        for (left, gpus), pair in pairs.items():
            row = self.row(left.split(";")[0], gpus, "no_overlap=1" if ";" in left else "")
            self.assertEqual(pair["speedup"], row["speedup"])
            self.assertLessEqual(float(pair["speedup_lo"]), float(pair["speedup"]))
            self.assertGreaterEqual(float(pair["speedup_hi"]), float(pair["speedup"]))
        line, = self.said(done, "Faster than one device?")
        self.assertRegex(line, r"^mlp, strong scaling, 2 devices beside single\. DP was faster in each round \(speed-up 1\.\d+, 1\.\d+ to 1\.\d+ in 2 "
                               r"rounds\)\. DDP was faster in each round \(")
        self.assertRegex(self.page(), r'<td class="n">1\.\d\d \(1\.\d\d to 1\.\d\d\)</td>')

    def test_slower_than_one_device_is_said(self):
        done = self.sweep(*MLP, fault="dp:2:slow")
        self.assertIn("DP was slower than one device in each round (speed-up 0.", self.said(done, "Faster than one device?")[0])

    def test_weak_scaling_compares_samples_not_steps(self):
        done = self.sweep(*MLP, "--scaling", "weak")
        pair, = [p for p in self.rows("pairs.csv") if (p["left"], p["right"], p["gpus"]) == ("dp", "single", "2")]
        self.assertEqual((pair["ratio"], pair["ratio_lo"], pair["p_value"]), ("", "", ""))
        self.assertGreater(float(pair["speedup"]), 1)
        self.assertIn("weak scaling", self.said(done, "Faster than one device?")[0])

    def test_no_difference_where_the_interval_holds_1(self):
        done = self.sweep(*MLP, fault="ddp:*:noisy")
        self.assertEqual(done.returncode, 0, done.stderr)
        for head, count in (("Faster here?", 2), ("What the wrapper costs.", 2), ("Overlap.", 1)):
            line, = self.said(done, head)
            self.assertEqual(line.count("no difference seen"), count, line)
        line, = self.said(done, "Faster than one device?")
        self.assertIn("DDP: no difference seen (speed-up ", line)
        self.assertIn(">none seen</td>", self.page())

    def test_one_round_has_no_interval(self):
        done = self.sweep(*MLP, "--rounds", "1")
        for pair in self.rows("pairs.csv"):
            self.assertEqual((pair["ratio_lo"], pair["ratio_hi"], pair["speedup_lo"], pair["speedup_hi"]), ("",) * 4)
        self.assertEqual({r["samples_per_s_lo"] for r in self.rows()}, {""})
        for head in ("Faster here?", "Faster than one device?", "What the wrapper costs.", "Overlap."):
            self.assertIn("one round: no interval", self.said(done, head)[0])
        self.assertIn("(one round)</td>", self.page())

    def test_unsteady_cells_are_named(self):
        self.assertEqual(self.said(self.sweep(*MLP), "Unsteady."), [])
        shutil.rmtree(self.out)
        line, = self.said(self.sweep(*MLP, fault="dp:2:unsteady"), "Unsteady.")
        self.assertTrue(line.startswith("In 1 cell the steps scatter by more than 20 % of their median (MAD; mlp dp on 2: 50 %)"), line)
        self.assertRegex(self.page(), r'<td class="n bad">[\d.]+ \(50 %\)</td>')

    def test_the_totals_are_those_of_the_rows(self):
        self.sweep("--quick", "--models", "mlp,classes", "--cores", "4", "--rounds", "1")
        page = self.page()
        for workload in ("width=256;depth=1;classes=32768", ""):
            totals = tuple(float(self.row(s, 4, workload)["comm_mib"]) for s in ("dp", "ddp"))
            self.assertIn("a step on 4 devices moves %.1f MiB with DP and %.1f MiB with DDP." % totals, page)
        self.assertNotIn("nearly the same", page)

    def test_nothing_was_measured(self):
        done = self.sweep(*MLP, fault="single+dp+ddp:all:exit3", plots=PLOTS)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(sum(r["status"] == "failed" for r in self.rows()), 6)
        self.assertNotIn("gnuplot", done.stderr)
        self.assertEqual([n for n in os.listdir(self.out) if n.endswith((".svg", ".png"))], [])
        for head in ("Faster here?", "Bytes.", "Memory.", "Overlap.", "What the wrapper costs."):
            self.assertEqual(self.said(done, head), [])
        self.assertNotIn("<li><b>Faster here?</b>", self.page())

    def test_only_single(self):
        done = self.sweep(*MLP, "--strategies", "single")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.said(done, "Faster here?"), [])

    # ---- the devices

    def test_no_cuda_device_ends_the_sweep_before_it_begins(self):
        done = self.sweep(*MLP, "--device", "cuda")
        self.check_nothing_ran(done, 3)
        self.assertEqual(done.stderr, "dpbench: no CUDA device answers; use --device soft (fixture: no driver)\n")
        self.assertFalse(os.path.exists(self.out))

    def test_auto_is_chosen_once_for_the_whole_sweep(self):
        done = self.sweep(*MLP)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("measuring on soft GPUs", done.stderr)
        self.assertIn("device soft", self.plan())
        shutil.rmtree(self.out)
        self.assertEqual(self.sweep(*MLP, FIXTURE_CUDA="2").returncode, 0)
        self.assertIn("device cuda", self.plan())

    def plan(self):
        with open(os.path.join(self.out, "plan.txt"), encoding="utf-8") as f:
            return f.read()

    def test_more_devices_than_answer(self):
        done = self.sweep(*MLP, "--device", "cuda", FIXTURE_CUDA="1")
        self.check_nothing_ran(done, 3)
        self.assertIn("--gpus: 2 devices, but only 1 answers here", done.stderr)
        done = self.sweep("--models", "mlp", "--rounds", "1", "--steps", "2", "--device", "cuda", FIXTURE_CUDA="3")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({r["gpus"] for r in self.rows()}, {"1", "2"}, "the default numbers end at what is there")

    def test_no_soft_gpu(self):
        self.check_nothing_ran(self.sweep(*MLP, "--device", "soft", FIXTURE_SOFT="0"), 3)

    # ---- the command line

    def test_a_mistyped_word_is_refused_with_the_nearest_known_one(self):
        for wrong, said in ((["--qick"], "did you mean --quick?"), (["--gpsu", "2"], "did you mean --gpus?"),
                            (["--models", "mlp,digist"], "did you mean digits?"), (["--models", "zzz"], "mlp, digits, classes, resnet20, "),
                            (["--strategies", "ddpp"], "did you mean ddp?"), (["--device", "cdua"], "did you mean cuda?"),
                            (["--scaling", "stong"], "did you mean strong?"), (["--gpus", "two"], "from 1 to 64"),
                            (["--steps"], "--steps needs a value"), (["--quick=3"], "takes no value"), (["more"], "more is no option")):
            done = self.sweep(*wrong)
            self.check_nothing_ran(done, 2)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn(said, done.stderr)

    def test_options_can_be_checked_alone(self):
        self.check_nothing_ran(self.sweep(*MLP, "--check-options"), 0)
        self.assertFalse(os.path.exists(self.out))
        self.check_nothing_ran(self.sweep(*MLP, "--check-options", "--models", "mlpp"), 2)

    def test_the_script_knows_the_options_before_it_builds(self):
        script = os.path.join(HERE, "..", "..", "bench", "run.sh")
        run = lambda *words: subprocess.run(["sh", script, *words, "--no-install", "--build", os.path.join(self.folder, "none")],
                                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for wrong, said in ((["--qick"], "did you mean --quick?"), (["--gpsu=2"], "did you mean --gpus?"),
                            (["--zzzzz"], "--help lists them"), (["more"], "'more' is no option"), (["--resume"], "needs --out")):
            done = run(*wrong)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(said, done.stderr)
        with open(script, encoding="utf-8") as f:
            known = re.search(r'^names="(.*)"$', f.read(), re.M).group(1).split()
        listed = subprocess.run([DPBENCH, "sweep", "--help"], stdout=subprocess.PIPE, text=True).stdout
        self.assertEqual(set(known) - {"build", "no-install"},
                         set(re.findall(r"^  --([a-z-]+)", listed, re.M)) - {"check-options"})

    def test_the_peers_programs_are_missing(self):
        """Said once, before anything is installed, built or measured."""
        script = os.path.join(HERE, "..", "..", "bench", "peers.sh")
        for folder in (self.folder, os.path.join(self.folder, "none")):
            done = subprocess.run(["sh", script, "--no-install", "--build", self.out, "--peers", folder], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertEqual((done.returncode, done.stdout), (3, ""), done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn("name their folder with --peers DIR", done.stderr)
        self.assertFalse(os.path.exists(self.out))

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
        self.check_failed("dp:1:killed", "failed", "exit code 139")

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

    # ---- the folder

    def check_nothing_ran(self, done, code):
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertFalse(os.path.exists(self.log), "something was measured")

    def test_one_time_names_the_run_and_its_folder(self):
        os.mkdir(self.out)
        command = [word if word != "--out" else "--results" for word in self.command(*MLP)]
        before = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        done = subprocess.run(command, env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        name, = os.listdir(self.out)
        self.assertTrue(before <= name <= time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()), name)
        self.assertIn("results go to %s/%s\n" % (self.out, name), done.stdout)
        self.out = os.path.join(self.out, name)
        self.assertEqual({r["run"] for r in self.rows()}, {name})
        self.assertIn("run %s\n" % name, self.plan())

    def test_out_is_a_file(self):
        with open(self.out, "w", encoding="utf-8"):
            pass
        self.check_nothing_ran(self.sweep(*MLP), 3)

    def test_out_on_a_full_disk(self):
        inside = " ".join(self.command(*MLP))
        script = "mkdir %s && mount -t tmpfs -o size=1m none %s && exec %s" % (self.out, self.out, inside)
        done = subprocess.run(["unshare", "-rm", "sh", "-c", script], env=self.environment(), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if "unshare" in done.stderr or "mount:" in done.stderr:
            self.skipTest("no user namespaces: " + done.stderr.strip())
        self.check_nothing_ran(done, 3)
        self.assertIn("No space left", done.stderr)

    def test_out_read_only(self):
        inside = " ".join(self.command(*MLP))
        script = "mkdir %s && mount -t tmpfs -o ro none %s && exec %s" % (self.out, self.out, inside)
        done = subprocess.run(["unshare", "-rm", "sh", "-c", script], env=self.environment(), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if "unshare" in done.stderr or "mount:" in done.stderr:
            self.skipTest("no user namespaces: " + done.stderr.strip())
        self.check_nothing_ran(done, 3)

    def test_trainers_are_missing(self):
        os.unlink(os.path.join(self.programs, "ddp-train"))
        done = self.sweep(*MLP)
        self.check_nothing_ran(done, 3)
        self.assertIn("ddp-train", done.stderr)

    def test_a_second_sweep_of_the_same_folder(self):
        process = subprocess.Popen(self.command(*MLP), env=self.environment(sleep=0.5), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not os.path.exists(self.log):
            time.sleep(0.02)
        done = self.sweep(*MLP, "--resume")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(), 143)
        self.assertEqual(done.returncode, 3)
        self.assertIn("another sweep", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
