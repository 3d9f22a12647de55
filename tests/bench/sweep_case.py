# SPDX-License-Identifier: MIT
"""What the tests of the sweep share: a folder with trainers that compute nothing (fixture_trainer.py), dpbench run over them, and what it
left read again. Each test program is called with DPBENCH PLOTS.
"""
import csv
import os
import shutil
import subprocess
import sys
import tempfile
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


class SweepCase(unittest.TestCase):
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

    def plan(self):
        with open(os.path.join(self.out, "plan.txt"), encoding="utf-8") as f:
            return f.read()

    def page(self):
        with open(os.path.join(self.out, "report.html"), encoding="utf-8") as f:
            return f.read()

    def said(self, done, head):
        """The lines of the verdict that begin so; each says something."""
        lines = [line[len(head):].strip() for line in done.stdout.splitlines() if line.startswith(head)]
        self.assertNotIn("", lines)
        return lines

    def check_nothing_ran(self, done, code):
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertFalse(os.path.exists(self.log), "something was measured")


def main():
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
