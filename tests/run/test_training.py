# SPDX-License-Identifier: MIT
"""What dp-train computes: accuracy, evaluation, resuming, whole epochs, checksums.

    test_training.py DP_TRAIN_SOFT DP_TRAIN: program.py
"""
import json
import os

from program import DIGITS, SMALL, check, losses, run, run_tests, train

EPOCHS = 15     # within which single and dp reach 95 % on the digits


def test_digits_accuracy(folder):
    for arguments in (["--strategy", "single"], ["--gpus", "2"], ["--gpus", "3", "--dp-loss", "replica"]):
        lines, _ = train(folder, DIGITS + arguments + ["--global-batch", "64", "--epochs", str(EPOCHS)])
        summary = lines["summary"][0]
        check(summary["test_accuracy"] >= 0.95, f"{arguments}: {summary['test_accuracy']} after {EPOCHS} epochs")


def test_evaluation_is_exact(folder):
    """Trial 5: every test sample once, for every N: the same number of samples, and the same number right."""
    found = set()
    for arguments in (["--strategy", "single"], ["--gpus", "2"], ["--gpus", "3"], ["--gpus", "8"],
                      ["--gpus", "3", "--dp-loss", "replica"], ["--gpus", "4", "--output-device", "3"]):
        lines, _ = train(folder, DIGITS + arguments + ["--global-batch", "7", "--steps", "5", "--lr", "0.001"])
        found.add((lines["summary"][0]["test_samples"], lines["summary"][0]["test_correct"]))
    check(len(found) == 1, f"test samples and right ones: {found}")


def test_resume_is_bit_equal(folder):
    skipping = ["--precision", "fp16", "--loss-scale", "1e12"]   # halved in each of the first 25 steps or so
    for arguments in (["--strategy", "single"], ["--gpus", "3", "--optimizer", "adamw"], ["--gpus", "2", "--optimizer", "adam"] + skipping):
        files = [os.path.join(folder, name) for name in ("whole", "half", "rest")]
        common = DIGITS + arguments + ["--global-batch", "100", "--warmup", "1"]   # 3 epochs and more: the order changes
        whole, _ = train(folder, common + ["--steps", "39", "--save", files[0]])
        half, _ = train(folder, common + ["--steps", "15", "--save", files[1]])
        rest, _ = train(folder, common + ["--steps", "23", "--resume", files[1], "--save", files[2]])
        check(losses(whole)[:15] == losses(half) and losses(whole)[16:] == losses(rest), "losses")
        with open(files[0], "rb") as a, open(files[2], "rb") as b:
            check(a.read() == b.read(), "the checkpoints differ")


def test_resume_refuses_other_settings(folder):
    file = os.path.join(folder, "checkpoint")
    run(SMALL + ["--steps", "2", "--save", file])
    _, err = run(SMALL + ["--steps", "2", "--seed", "2", "--resume", file], expected=2)
    check("--seed 1" in err and "--seed 2" in err, err)
    _, err = run(SMALL + ["--steps", "2", "--global-batch", "64", "--resume", file], expected=2)
    check("128" in err and "64" in err, err)
    dealt = ["--data", "digits", "--width", "8", "--depth", "1", "--steps", "2", "--global-batch", "32"]
    for gpus, extra, saved in (("4", ["--sampler", "distributed"], "--sampler distributed --gpus 4"), ("2", [], "--sampler chunk")):
        run(dealt + extra + ["--gpus", gpus, "--save", file])
        for other in (["--gpus", "2", "--sampler", "distributed"], ["--gpus", "4", "--sampler", "distributed", "--drop-last"]):
            _, err = run(dealt + other + ["--resume", file], expected=2)
            check(f"trained with {saved}, found --sampler distributed --gpus {other[1]}" in err, err)
    run(dealt + ["--gpus", "3", "--resume", file])   # the chunk sampler's order is the same for every N
    run(SMALL + ["--steps", "2", "--save", file])
    run(SMALL + ["--steps", "2", "--width", "33", "--resume", file], expected=4)
    run(SMALL + ["--steps", "2", "--resume", file + "x"], expected=4)


def test_epochs_are_whole(folder):
    """1437 training samples in batches of 100 are 14 steps; warm-up steps are steps of the epochs."""
    lines, _ = train(folder, DIGITS + ["--strategy", "single", "--global-batch", "100", "--epochs", "2", "--warmup", "3"])
    samples = 1437
    expected = 2 * (samples // 100) - 3
    check(len(lines["step"]) == expected, f"{len(lines['step'])} steps, expected {expected}")


def test_checksum(folder):
    """Verification changes nothing of the training after it, and its checksum tells weights apart."""
    digits = DIGITS + ["--gpus", "2", "--global-batch", "32", "--steps", "4"]
    check(losses(train(folder, digits)[0]) == losses(train(folder, digits + ["--checksum"])[0]), "losses of real data after a verification")
    base = SMALL + ["--gpus", "4", "--global-batch", "32", "--steps", "4"]
    plain, _ = train(folder, base)
    proved, _ = train(folder, base + ["--checksum"])
    single, _ = train(folder, SMALL + ["--strategy", "single", "--global-batch", "32", "--steps", "1", "--checksum"])
    other, _ = train(folder, base + ["--checksum", "--dp-transport", "p2p"])
    seed, _ = train(folder, base + ["--checksum", "--seed", "2"])
    check(plain["summary"][0]["checksum"] is None, "a checksum that was not asked for")
    check(losses(plain) == losses(proved), "losses after a verification")
    check(proved["summary"][0]["checksum"] == other["summary"][0]["checksum"], "transports differ")
    check(proved["summary"][0]["checksum"] != seed["summary"][0]["checksum"], "seeds agree")
    check(single["summary"][0]["checksum"] is not None, "single has none")


def test_saves_gradients(folder):
    file = os.path.join(folder, "gradients.safetensors")
    run(SMALL + ["--gpus", "2", "--steps", "1", "--save-gradients", file])
    with open(file, "rb") as data:
        length = int.from_bytes(data.read(8), "little")
        header = json.loads(data.read(length))
    check(header["net.0.weight"]["shape"] == [32, 20] and header["net.4.bias"]["shape"] == [7], f"{list(header)}")


run_tests(globals())
