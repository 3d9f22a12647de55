#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a sweep shows: the plots, the verdict, the page.

    test_page.py DPBENCH PLOTS
"""
import csv
import os
import re
import shutil
import subprocess

from sweep_case import DPBENCH, MLP, PLOTS, SweepCase, main


class Page(SweepCase):
    # ---- bands and plots

    def test_report_has_three_bands(self):
        self.assertEqual(self.sweep("--quick", "--cores", "4", "--rounds", "1").returncode, 0)
        with open(os.path.join(self.out, "report.html"), encoding="utf-8") as f:
            page = f.read()
        places = [page.index("&nbsp;" + band) for band in ("True on any machine", "Modelled", "Measured here")]
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

    # ---- the verdict

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
        self.assertRegex(line, r"^Measured on soft GPUs: mlp, strong scaling, 2 devices beside single\. DP was faster in each round \(speed-up 1\.\d+, 1\.\d+ to 1\.\d+ in 2 "
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
        for head in ("Faster here?", "Faster than one device?", "Measured here, on soft GPUs."):
            self.assertIn("no claim (", self.said(done, head)[0])
            self.assertNotRegex(self.said(done, head)[0], "shorter|faster|slower")
        self.assertIn("(one round)</td>", self.page())

    def test_unsteady_cells_are_named(self):
        self.assertEqual(self.said(self.sweep(*MLP), "Unsteady."), [])
        self.assertNotIn("scatter too much", self.page())
        shutil.rmtree(self.out)
        line, = self.said(self.sweep(*MLP, fault="dp:2:unsteady"), "Unsteady.")
        self.assertTrue(line.startswith("Measured on soft GPUs: in 1 cell the steps scatter by more than 20 % of their median (MAD; mlp dp on 2: 50 %)"), line)
        self.assertRegex(self.page(), r'<td class="n bad">[\d.]+ \(50 %\)</td>')
        self.assertIn("Its steps scatter too much to build on.", self.page())

    def test_the_totals_are_those_of_the_rows(self):
        self.sweep("--quick", "--models", "mlp,classes", "--cores", "4", "--rounds", "1")
        page = self.page()
        for name, variant in (("classes", "width=256;depth=1;classes=32768"), ("mlp", "")):
            totals = (name, *(float(self.row(s, 4, variant)["comm_mib"]) for s in ("dp", "ddp")))
            self.assertIn("on 4 devices a step of %s moves %.1f MiB with DP and %.1f MiB with DDP; the busiest device sends or receives" % totals, page)
        self.assertNotIn("nearly the same", page)
        self.assertNotIn("busiest link", page)  # bytes of a device; a pair's are the replay's

    def test_nothing_was_measured(self):
        done = self.sweep(*MLP, fault="single+dp+ddp:all:exit3", plots=PLOTS)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(sum(r["status"] == "failed" for r in self.rows()), 6)
        self.assertNotIn("gnuplot", done.stderr)
        self.assertEqual([n for n in os.listdir(self.out) if n.endswith((".svg", ".png"))], [])
        for head in ("Faster here?", "Bytes.", "Memory.", "Overlap.", "What the wrapper costs."):
            self.assertEqual(self.said(done, head), [])
        self.assertNotIn("<li><b>Faster here?</b>", self.page())
        self.assertEqual(self.said(done, "Measured here, on devices.")[0][:25], "DP and DDP were not timed")

    def test_all_of_one_strategy_failed(self):
        """What DDP shares with one device alone says nothing of DP."""
        for failed, other in (("dp", "DDP"), ("ddp", "DP")):
            done = self.sweep(*MLP, fault=failed + ":all:killed")
            line, = self.said(done, "The same model?")
            self.assertRegex(line, r"^DP and DDP were not compared with each other: every cell of %s failed\. \d cells were compared with one device "
                                   r"alone \(single\) on soft GPUs, and trained its model: " % failed.upper(), other)
            self.assertNotIn("Yes.", line)
            self.assertIn("exit code 139 (SIGSEGV), without a word", self.page())
            shutil.rmtree(self.out)
        line, = self.said(self.sweep(*MLP, "--strategies", "single,dp"), "The same model?")
        self.assertIn("not compared with each other: no cell of DDP was run. 2 cells were", line)
        shutil.rmtree(self.out)
        line, = self.said(self.sweep(*MLP, fault="dp:2:exit3"), "The same model?")
        self.assertIn("Yes. 4 cells were compared on soft GPUs, and each trained the same model as its partner (1 without a partner: as one "
                      "device alone): ", line)

    def test_only_recorded(self):
        """Whatever device was asked for, shape-only runs execute nothing."""
        done = self.sweep("--quick", "--models", "gpt2-124m", "--device", "cuda", FIXTURE_CUDA="8")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.said(done, "Nothing was executed.")[0], "What is shown was recorded: bytes and memory are those of GPUs. No time was "
                         "measured, of GPUs or of CPU cores.")
        self.assertEqual(self.said(done, "No GPU was used."), [])
        self.assertEqual(self.said(done, "And on GPUs?"), [])
        self.assertIn("<dt>backend</dt><dd>none: recorded, not executed</dd>", self.page())
        self.assertNotIn("<dt>cores per device</dt>", self.page())

    def test_only_single(self):
        done = self.sweep(*MLP, "--strategies", "single")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.said(done, "Faster here?"), [])

    # ---- the headline

    def headline(self, done):
        return done.stdout[done.stdout.index("In short\n"):]

    def test_the_headline_answers_in_order_and_before_the_bands(self):
        done = self.sweep("--quick", "--models", "mlp,classes", "--cores", "4", "--rounds", "2", "--steps", "2")
        heads = ["No GPU was used.", "The same model?", "Memory and bytes.", "Measured here, on soft GPUs."]
        lines = self.headline(done).splitlines()[1:]
        self.assertEqual([line.startswith(head) for line, head in zip(lines, heads)], [True] * 4, lines)
        page = self.page()
        places = [page.index("<p><b>" + head) for head in heads] + [page.index('id="one"')]
        self.assertEqual(places, sorted(places))
        self.assertIn("CPU cores that stand in for GPUs", lines[0])
        self.assertIn("the same weights, bit for bit, after the 3 updates of the verification. On GPUs equality is promised "
                      "within a tolerance, not bit for bit.", lines[1])
        # 256 samples of 32768 outputs and their gradient on DP's device 0, a quarter of it on each other one.
        self.assertRegex(lines[2], r"^Memory and bytes\. DP fills device 0 most on classes: \d+ MiB there and \d+ MiB on each other device; with "
                                   r"DDP \d+ MiB on the fullest \(4 devices, counted\)\. What device 0 holds more is mostly the gathered outputs")
        self.assertIn("It is the other way round on mlp: the fullest device holds 46 MiB with DP and 61 MiB with DDP (4 devices, counted)", lines[2])
        self.assertRegex(lines[3], r"mlp on 4 devices: (DP|DDP) had the shorter step in each round \(")

    def test_the_headline_names_no_winner_where_the_interval_holds_1(self):
        line, = self.said(self.sweep(*MLP, fault="ddp:*:noisy"), "Measured here, on soft GPUs.")
        self.assertRegex(line, r"^mlp on 2 devices: no difference seen \(DP's step / DDP's [\d.]+, [\d.]+ to [\d.]+ in 2 rounds\)\. Soft GPUs have no links")

    def test_each_sentence_with_a_number_says_of_what_it_is(self):
        done = self.sweep("--quick", "--models", "mlp,digits,gpt2-124m", "--cores", "4", "--rounds", "2", "--steps", "3", fault="dp:2:unsteady")
        source = "(Measured|Counted) on soft GPUs|Recorded, not executed"
        lines = done.stdout[:done.stdout.index("In short\n")].splitlines()
        lines = [line for line in lines if line.split(" ")[0] in ("Bytes.", "Memory.", "Faster", "What", "Overlap.", "Unsteady.", "Real", "Largest")]
        self.assertGreater(len(lines), 8)
        takeaways = re.findall(r"<figcaption><b>(.*?)</b>", self.page())
        self.assertEqual(len(takeaways), 7)
        for line in lines + takeaways:
            self.assertRegex(line, source)

    def test_the_page_of_gpus(self):
        """The same tables with another backend's name: no word of soft GPUs, and no figure of busy time, which CUDA does not give."""
        self.sweep(*MLP[:4], "1,3", "--cores", "4", "--rounds", "2", "--steps", "2")
        for name, change in (("results.csv", lambda row: row.update(backend="cuda", device="a GPU")), ("devices.csv", lambda row: row.update(util=""))):
            rows = self.rows(name)
            for row in rows:
                change(row)
            with open(os.path.join(self.out, name), "w", newline="", encoding="utf-8") as f:
                writer = csv.DictWriter(f, list(rows[0]), lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
        done = subprocess.run([DPBENCH, "report", self.out, self.plots], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
        self.assertNotIn("soft GPUs", done.stdout)
        self.assertNotIn("No GPU was used", self.page())
        self.assertNotIn("utilization-mlp", self.page())
        self.assertIn("2 with gradients of step 1 within 1e-5 and the last loss within 1 %, not bit for bit", self.headline(done))
        self.assertRegex(self.headline(done), r"Measured here, on CUDA GPUs\. mlp on 3 devices: DDP had the shorter step in each round \(.*\)\. In the "
                                                r"middle round DP, of [\d.]+ ms a step, spends 5 ms more on reducing the gradients onto device 0\.\n")
        self.assertIn("MiB on the fullest (3 devices, counted). What device 0 holds more is mostly the optimizer's state. That is less than with DDP", self.headline(done))


if __name__ == "__main__":
    main()
