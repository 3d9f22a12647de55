#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Predicts published ladders: fidelity.py BUILD_FOLDER [--launch-lock US] [LADDER]...

Records each model's steps on soft GPUs (--shape-only), replays them on the machine that the ladder was measured on, and
compares. A single device's published time is used for one thing: how much faster or slower the device computes than its
machine file says (--compute). Everything at N > 1 is predicted from that; no figure at N > 1 is used for
anything. Misses are printed like hits. docs/fidelity.md says what each ladder is and what ours is not.
--launch-lock emulates the lock of an interpreter in every replay, the calibrating ones too: for all ladders or for none.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

FOLDER = tempfile.TemporaryDirectory()
ROWS = []
ORDERS = []


class Room:
    def __init__(self, build, launch_lock):
        self.build = build
        self.emulated = ["--launch-lock", launch_lock] if launch_lock else []

    def record(self, name, program, *options):
        """Records 3 steps behind the warm-up; returns the files of all ranks. Made once."""
        path = os.path.join(FOLDER.name, name)
        if not os.path.exists(path) and not os.path.exists(path + ".0"):
            command = [os.path.join(self.build, program), "--device", "soft", "--shape-only", "--data", "synthetic", "--steps",
                       "3", *options, "--record", path]
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            if done.returncode:
                raise RuntimeError(done.stderr.strip().split("\n")[-1])
        ranks = [f"{path}.{rank}" for rank in range(64) if os.path.exists(f"{path}.{rank}")]
        return ranks or [path]

    def step_ms(self, files, machine, *options):
        out = os.path.join(FOLDER.name, "out.json")
        subprocess.run([os.path.join(self.build, "bench/replay/replay"), *files, "--machine", machine, *self.emulated, *options,
                        "--json", out], check=True, stdout=subprocess.DEVNULL)
        with open(out) as lines:
            return json.loads(lines.readline())["step_ms"]

    def calibrate(self, files, machine, published_ms, *options):
        """The --compute with which the single device's step takes as long as was published."""
        factor = 1.0
        for _ in range(8):  # nearly all of a step is in proportion to it
            factor *= self.step_ms(files, machine, "--compute", repr(factor), *options) / published_ms
        return repr(factor)


def row(ladder, what, predicted, published, unit, used="predicted"):
    """Only rows that are `predicted` are counted in the last line."""
    error = 100 * (predicted / published - 1)
    ROWS.append((ladder, what, predicted, published, unit, error, used))
    print(f"| {ladder} | {what} | {predicted:.4g} {unit} | {published:.4g} {unit} | {error:+.1f} % | {used} |", flush=True)


def effect(ladder, what, predicted, published):
    """A difference between two variants, in percent of a step: its error is in points."""
    print(f"| {ladder} | {what} | {predicted:+.1f} % | {published:+.1f} % | {predicted - published:+.1f} points | effect |",
          flush=True)


def order(ladder, first, second):
    """Which of two of the ladder's rows is before the other: times, so the smaller."""
    found = {what: (predicted, published) for name, what, predicted, published, *_ in ROWS if name == ladder}
    (predicted, published), (other_predicted, other_published) = found[first], found[second]
    right = (predicted < other_predicted) == (published < other_published)
    ORDERS.append(f"{ladder}: {first} and {second}: published {published:.4g} and {other_published:.4g} ms, "
                  f"predicted {predicted:.4g} and {other_predicted:.4g}: {'right' if right else 'WRONG'}")


def resnet50_dgx1(room):
    """PyTorch benchmarks/distributed/ddp README: DGX V100, fp32, batch 32 a GPU, seconds an iteration p50."""
    ladder, machine = "PyTorch resnet50, DGX V100", "v100x8"
    model = ["--model", "resnet50", "--batch-per-gpu", "32", "--optimizer", "sgd"]
    single = room.record("r50single", "dp-train", "--strategy", "single", *model)
    rank = room.record("r50ddp", "ddp-train", "--gpus", "2", *model)[0]
    alone = [room.calibrate([rank], machine, 100, "--gpus", "1"), room.calibrate(single, machine, 97)]
    row(ladder, "1 GPU with DDP", room.step_ms([rank], machine, "--gpus", "1", "--compute", alone[0]), 100, "ms",
        f"calibrated: --compute {float(alone[0]):.3g}")
    row(ladder, "1 GPU without DDP", room.step_ms(single, machine, "--compute", alone[1]), 97, "ms",
        f"calibrated for the other reading: --compute {float(alone[1]):.3g}")
    for gpus, published in ((2, 103), (4, 103), (8, 104), (16, 104)):
        for what, compute, used in ((f"DDP, {gpus} GPUs", alone[0], "predicted"),
                                    ("the same, from 1 GPU without DDP", alone[1], "another reading")):
            row(ladder, what, room.step_ms([rank], machine, "--gpus", str(gpus), "--compute", compute), published, "ms", used)
    compute = alone[0]
    effect(ladder, "DDP in place of none, 1 GPU", 100 * (100 / room.step_ms(single, machine, "--compute", compute) - 1), 3.1)
    for gpus, published in ((2, 1.0), (4, 1.6), (8, 2.6), (16, 3.8)):
        steps = [room.step_ms([rank], machine, "--gpus", str(gpus), "--compute", compute, "--bucket-cap-mb", cap)
                 for cap in ("1", "25")]
        effect(ladder, f"1 MB buckets in place of 25 MB, {gpus} GPUs", 100 * (steps[0] / steps[1] - 1), published)


def gpt2_titan(room):
    """Hugging Face perf_train_gpu_many and issue 9371: GPT-2, batch 4 a GPU, 200 steps, 2 x TITAN RTX."""
    ladder = "Hugging Face GPT-2, 2 x TITAN RTX"
    model = ["--model", "gpt2-124m", "--batch-per-gpu", "4", "--optimizer", "adamw"]
    single = room.record("gptsingle", "dp-train", "--strategy", "single", *model)
    compute = room.calibrate(single, "titan2-nvlink", 510)
    row(ladder, "1 GPU", room.step_ms(single, "titan2-nvlink", "--compute", compute), 510, "ms",
        f"calibrated: --compute {float(compute):.3g}")
    dp = {loss: room.record("gptdp" + loss, "dp-train", "--gpus", "2", "--dp-loss", loss, *model)
          for loss in ("replica-outputs", "replica", "gathered")}
    ddp = room.record("gptddp", "ddp-train", "--gpus", "2", *model)
    for what, loss, used in (("DP with NVLink", "replica-outputs", "predicted"), # a module that returns loss and logits
                             ("the same, outputs left in the replicas", "replica", "another reading"),
                             ("the same, loss of the gathered outputs", "gathered", "another reading")):
        row(ladder, what, room.step_ms(dp[loss], "titan2-nvlink", "--compute", compute), 552.95, "ms", used)
    row(ladder, "DDP with NVLink", room.step_ms(ddp, "titan2-nvlink", "--compute", compute), 509.5, "ms")
    row(ladder, "DDP without NVLink", room.step_ms(ddp, "titan2-pcie", "--compute", compute), 657.2, "ms")
    order(ladder, "DDP with NVLink", "DP with NVLink")
    order(ladder, "DP with NVLink", "DDP without NVLink")
    order(ladder, "DDP with NVLink", "DDP without NVLink")


def resnet50_examples(room):
    """NVIDIA DeepLearningExamples ResNet-50, NGC 21.03: images/s on 1 and 8 GPUs."""
    for name, machine, batch, precision, one, eight in (
            ("DGX-1 fp32", "v100x8", 112, "fp32", 367, 2855), ("DGX-1 AMP", "v100x8", 256, "fp16", 1200, 8322),
            ("DGX A100 TF32", "a100x8", 256, "fp32", 938, 7248), ("DGX A100 AMP", "a100x8", 256, "fp16", 2470, 16621)):
        ladder = "DeepLearningExamples resnet50, " + name
        model = ["--model", "resnet50", "--batch-per-gpu", str(batch), "--precision", precision]
        single = room.record(f"d{batch}{precision}", "dp-train", "--strategy", "single", *model)
        compute = room.calibrate(single, machine, batch / one * 1e3)
        rank = room.record(f"dd{batch}{precision}", "ddp-train", "--gpus", "2", *model)[0]
        step = room.step_ms(single, machine, "--compute", compute)
        row(ladder, "1 GPU", batch / step * 1e3, one, "img/s", f"calibrated: --compute {float(compute):.3g}")
        step = room.step_ms([rank], machine, "--gpus", "8", "--compute", compute)
        row(ladder, "DDP, 8 GPUs", 8 * batch / step * 1e3, eight, "img/s")


def mlp_fingertap(room):
    """fingertap/test_parallel: 8 GPUs (kind not given), MLP of 20 MB, 80 a GPU, no optimizer step."""
    ladder, machine = "fingertap MLP, 8 GPUs", "v100x8"
    model = ["--model", "mlp", "--inputs", "1000", "--width", "1000", "--depth", "5", "--classes", "1", "--batch-per-gpu",
             "80"]
    single = room.step_ms(room.record("tap1", "dp-train", "--strategy", "single", *model), machine)
    outside = 29.09e3 / 6250 - single
    row(ladder, "1 GPU", single + outside, 29.09e3 / 6250, "ms",
        f"calibrated: {outside:.2f} ms of the host outside the record")
    dp = room.record("tapdp", "dp-train", "--gpus", "8", *model)
    ddp = room.record("tapddp", "ddp-train", "--gpus", "8", *model)
    published = 54.95e3 / 782
    row(ladder, "DP, host time as on 1 GPU", room.step_ms(dp, machine) + outside, published, "ms", "another reading")
    row(ladder, "DP, host time by samples (8 x)", room.step_ms(dp, machine) + 8 * outside, published, "ms")
    row(ladder, "DDP", room.step_ms(ddp, machine) + outside, 7.74e3 / 782, "ms")
    order(ladder, "DDP", "DP, host time by samples (8 x)")


LADDERS = {"resnet50-dgx1": resnet50_dgx1, "gpt2-titan": gpt2_titan, "resnet50-examples": resnet50_examples,
           "mlp-fingertap": mlp_fingertap}


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n")[0].split(": ", 1)[1])
    parser.add_argument("build")
    parser.add_argument("--launch-lock", metavar="US")
    parser.add_argument("ladders", nargs="*", metavar="LADDER")
    given = parser.parse_args()
    if not set(given.ladders) <= set(LADDERS):
        parser.error(f"LADDER {' '.join(given.ladders)}: expected of {' '.join(LADDERS)}")
    room = Room(given.build, given.launch_lock)
    print("| ladder | what | predicted | published | error | the prediction |\n|---|---|---|---|---|---|")
    for name in given.ladders or LADDERS:
        try:
            LADDERS[name](room)
        except RuntimeError as error:
            print(f"| {name} | not predicted: {error} | | | | |")
    print()
    for line in ORDERS:
        print(f"- {line}")
    predicted = [abs(error) for *_, error, used in ROWS if used == "predicted"]
    if predicted:
        print(f"\n{len(predicted)} predictions: {sum(error <= 5 for error in predicted)} within 5 %, "
              f"{sum(error <= 15 for error in predicted)} within 15 %, worst {max(predicted):.1f} %."
              + (f" A launch lock of {given.launch_lock} us is emulated in all." if given.launch_lock else ""))


main()
