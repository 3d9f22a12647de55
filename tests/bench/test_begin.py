#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a sweep settles before it measures anything: devices, options, its folder.

    test_begin.py DPBENCH PLOTS
"""
import os
import re
import shutil
import signal
import subprocess
import time

from sweep_case import DPBENCH, HERE, MLP, SweepCase, main


class Begin(SweepCase):
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

    # ---- the folder

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
    main()
