# SPDX-License-Identifier: MIT
"""--find-batch: exact to one sample, as real runs prove; no time and no memory for any size.

    test_find_batch.py DDP_TRAIN_SOFT DP_TRAIN_SOFT
"""
import resource

from pictures import make_pictures
from processes import Run, check, expect, run_tests
from trainer import DDP, DP, folder, train

CATEGORIES = ["parameters", "gradients", "optimizer", "activations", "outputs", "communication", "data"]
MLP = ["--width", 64, "--depth", 2, "--device-memory", 2]
CASES = [
    (DP, ["--strategy", "single", *MLP]),
    (DP, ["--strategy", "single", *MLP, "--data", "pictures", "--optimizer", "adamw"]),
    (DP, ["--gpus", 2, *MLP]),
    (DP, ["--gpus", 3, *MLP, "--dp-transport", "p2p", "--output-device", 1]),
    (DP, ["--gpus", 4, *MLP, "--data", "pictures", "--dp-loss", "replica", "--accumulate", 3]),
    (DDP, ["--gpus", 1, *MLP]),
    (DDP, ["--gpus", 2, *MLP, "--accumulate", 2]),
    (DDP, ["--gpus", 4, *MLP, "--data", "pictures"]),
    (DDP, ["--gpus", 2, "--model", "gpt-nano", "--device-memory", 24]),
]


def test_exact_to_one_sample():
    """A real run with the batch found holds just these bytes; one sample more on each device does not fit."""
    with folder() as path:
        make_pictures(path, 30000, list(range(10)))
        for program, arguments in CASES:
            check_case(program, [path if a == "pictures" else a for a in arguments])


def check_case(program, arguments):
    lines = train(program, *arguments, "--find-batch")
    found, summary = lines["find_batch"][0], lines["summary"][0]
    batch, what = found["batch_per_gpu"], f"{program} {arguments}: {found}"
    check(batch > 1 and found["global_batch"] == batch * summary["gpus"] == summary["global_batch"], what)
    check(summary["steps"] == 0 and summary["step_ms"] is None and summary["status"] == "ok", f"{summary}")
    check(found["total_bytes"] <= found["device_bytes"], what)
    check(sum(found[c + "_bytes"] for c in CATEGORIES) == found["total_bytes"], what)
    real = train(program, *arguments, "--batch-per-gpu", batch, "--steps", 2, "--warmup", 1)
    for one, other in zip(lines["device"], real["device"]):
        for name in ["mem_peak_mib"] + [f"mem_{c}_mib" for c in CATEGORIES]:
            check(one[name] == other[name], f"{what}: {name} {one[name]}, a real run {other[name]}")
    more = train(program, *arguments, "--batch-per-gpu", batch + 1, "--steps", 2, code=3)
    check(more["summary"][0]["status"] == "out_of_memory", f"{what}: {more['summary'][0]}")


def test_large_models_take_no_memory():
    """GPT-2 on 80 GiB: hundreds of trials' worth of gigabytes, none of them touched."""
    for program in (DP, DDP):
        lines = train(program, "--model", "gpt2-124m", "--gpus", 4, "--device-memory", 81920, "--find-batch")
        found = lines["find_batch"][0]
        check(found["batch_per_gpu"] >= 4 and found["total_bytes"] > 0.9 * found["device_bytes"], f"{found}")
    touched = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    check(touched < 400 * 1024, f"{touched} KiB touched")


def test_refusals():
    for program in (DP, DDP):
        run = Run([program, "--gpus", 2, "--find-batch", "--device-memory", 1])
        expect(run, 3, limit=30)
        check("not even one sample per device" in run.err and "no memory for" in run.err, run.err)
        check("largest" not in run.out, run.out)
        for more in (["--checksum"], ["--save", "x"], ["--record", "x"], ["--trace", "x"]):
            run = Run([program, "--gpus", 2, "--find-batch", *more])
            expect(run, 2, limit=10)
            check("--find-batch" in run.err and more[0] in run.err, run.err)


run_tests([function for name, function in list(globals().items()) if name.startswith("test_")])
