# SPDX-License-Identifier: MIT
"""16-bit training as a user starts it, on soft GPUs: test_precision.py DDP_TRAIN_SOFT DP_TRAIN_SOFT.

trials.md 19: an overflow on one rank or device skips the update on all, halves the scale on all, and is told. And the digits are
learnt as well as in fp32.
"""
import json
import os
import pathlib
import sys
import tempfile

from processes import Run, check, expect, run_tests

DDP, DP = sys.argv[1:3]   # FRONT is of no use here
FP16 = ["--precision", "fp16", "--data", "digits", "--width", 64, "--depth", 2, "--lr", 0.05, "--global-batch", 32, "--warmup", 0]
SINGLE, TWO_DP, TWO_DDP = (DP, "--strategy", "single"), (DP, "--gpus", 2), (DDP, "--gpus", 2)


def train(start, *arguments, fault=None, code=0):
    """(summary, what was said, bytes of the checkpoint) of a run."""
    program, *rest = start
    with tempfile.TemporaryDirectory() as path:
        result, saved = os.path.join(path, "run.json"), os.path.join(path, "checkpoint")
        run = Run([program, *rest, *arguments, "--json", result, "--save", saved], {"DPBENCH_FAULT": fault} if fault else None)
        expect(run, code, limit=100)
        with open(result, encoding="utf-8") as text:
            summary = json.loads(text.readlines()[-1])
        if not os.path.exists(saved):
            return summary, run, b""
        with open(saved, "rb") as file:
            return summary, run, file.read()


def tensors(checkpoint):
    """The data of a safetensors file, behind its header."""
    return checkpoint[8 + int.from_bytes(checkpoint[:8], "little"):]


def text_of(checkpoint, key):
    header = checkpoint[8:8 + int.from_bytes(checkpoint[:8], "little")]
    return json.loads(header)["__metadata__"][key]


def test_overflow_skips_on_all():
    """inf on rank 1 at step 3, inf on rank 0, NaN: after 4 steps the parameters and momentum are those of 3, the scale is halved."""
    cells = [(TWO_DDP, 1, "inf"), (TWO_DDP, 0, "inf"), (TWO_DDP, 1, "nan"), (TWO_DP, 1, "inf"), (TWO_DP, 0, "nan"),
             (SINGLE, 0, "inf")]
    for start, place, kind in cells:
        _, _, before = train(start, *FP16, "--steps", 3)
        summary, run, after = train(start, *FP16, "--steps", 4, fault=f"{kind}-gradient:{place}:step3")
        what = f"{start[1:]} {kind} at {place}"
        check(summary["overflowed_steps"] == 1 and summary["loss_scale"] == 32768, f"{what}: {summary}")
        check(summary["skipped_steps"] == 0 and summary["steps"] == 4, f"{what}: {summary}")
        check("1 step skipped" in run.out, f"{what}: {run.out}")
        check(tensors(before) == tensors(after), f"{what}: parameters or momentum were touched")
        check(text_of(after, "loss_scale") == "32768 0 1", text_of(after, "loss_scale"))


def test_ranks_stay_equal_behind_an_overflow():
    """The verification compares the weights of all ranks after 3 steps, the second of which is skipped by one rank's inf."""
    for ranks in (2, 3):
        start = (DDP, "--gpus", ranks, "--checksum")
        summary, _, _ = train(start, *FP16, "--steps", 4, fault=f"inf-gradient:{ranks - 1}:step1")
        clean, _, _ = train(start, *FP16, "--steps", 4)
        check(summary["overflowed_steps"] == 1 and clean["overflowed_steps"] == 0, f"{summary} {clean}")
        check(summary["checksum"] != clean["checksum"], "the fault changed nothing")


def test_a_scale_finds_its_place():
    """A scale that no gradient survives at first is halved until one does; then training goes on."""
    for start in (SINGLE, TWO_DP, TWO_DDP):
        summary, _, saved = train(start, *FP16, "--steps", 60, "--loss-scale", 2 ** 24, "--loss", "sum", "--lr", 0.002)
        scale, skipped = summary["loss_scale"], summary["overflowed_steps"]
        check(skipped >= 8 and scale == 2 ** (24 - skipped), f"scale {scale} after {skipped} skipped steps")
        check(text_of(saved, "loss_scale") == f"{scale:.9g} {text_of(saved, 'loss_scale').split()[1]} {skipped}", "")
        check(summary["loss_last"] < summary["loss_first"], f"loss {summary['loss_first']} -> {summary['loss_last']}")


def test_resume_is_bit_equal():
    """With Adam, whose step counts updates that were made, behind a skipped step."""
    arguments = [*FP16, "--optimizer", "adam", "--lr", 0.001, "--loss-scale", 2 ** 22, "--loss", "sum", "--schedule", "cosine",
                 "--schedule-updates", 40, "--lr-warmup", 5, "--clip-norm", 2]
    for start in (SINGLE, TWO_DDP):
        with tempfile.TemporaryDirectory() as path:
            half = os.path.join(path, "half")
            program, *rest = start
            expect(Run([program, *rest, *arguments, "--steps", 10, "--save", half]), 0, limit=60)
            _, _, resumed = train(start, *arguments, "--steps", 10, "--resume", half)
        summary, _, whole = train(start, *arguments, "--steps", 20)
        check(summary["overflowed_steps"] > 0, "nothing was skipped")
        check(tensors(whole) == tensors(resumed), f"{start[1:]}: a resumed run has other bits")
        check(text_of(whole, "loss_scale") == text_of(resumed, "loss_scale"), "another scale")


def test_resume_in_every_precision():
    """Masters are fp32: what one precision saves another goes on from."""
    reference = train(SINGLE, *FP16, "--precision", "fp32", "--steps", 25)[0]["loss_last"]
    for first, then in (("fp32", "fp16"), ("bf16", "fp32"), ("fp16", "bf16")):
        with tempfile.TemporaryDirectory() as path:
            saved = os.path.join(path, "saved")
            expect(Run([DP, "--strategy", "single", *FP16, "--precision", first, "--steps", 5, "--save", saved]), 0, limit=60)
            summary, _, _ = train(SINGLE, *FP16, "--precision", then, "--steps", 20, "--resume", saved)
            check(abs(summary["loss_last"] / reference - 1) < 0.02, f"{first} then {then}: {summary['loss_last']}, {reference}")


def test_digits_in_every_precision():
    """Accuracy within 1 point of fp32 on one device: 2 samples of 360 are 0.6 points."""
    arguments = ["--data", "digits", "--width", 128, "--depth", 2, "--lr", 0.1, "--global-batch", 64, "--epochs", 15]
    reference = train(SINGLE, *arguments)[0]["test_accuracy"]
    check(reference > 0.97, f"fp32: {reference}")
    for precision in ("fp32", "bf16", "fp16"):
        for start in (SINGLE, TWO_DP, TWO_DDP):
            summary, _, _ = train(start, *arguments, "--precision", precision)
            check(abs(summary["test_accuracy"] - reference) <= 0.01,
                  f"{precision} {start[1:]}: {summary['test_accuracy']} against {reference}")
            check(summary["precision"] == precision, summary["precision"])


def test_a_recorded_run_needs_no_values():
    """The decision to skip is the device's own, so a run can be recorded without computing anything."""
    for start in (SINGLE, TWO_DP, TWO_DDP):
        program, *rest = start
        with tempfile.TemporaryDirectory() as path:
            run = Run([program, *rest, *FP16, "--shape-only", "--steps", 3, "--record", os.path.join(path, "graph")])
            expect(run, 0, limit=60)
            written = [os.path.join(path, name) for name in os.listdir(path)]
            check(written and all(b"update_prepare" in pathlib.Path(name).read_bytes() for name in written),
                  f"no update_prepare in one of {written}")


run_tests([function for name, function in list(globals().items()) if name.startswith("test_")])
