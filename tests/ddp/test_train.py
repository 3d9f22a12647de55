# SPDX-License-Identifier: MIT
"""ddp-train as a user starts it, on soft GPUs: test_train.py DDP_TRAIN_SOFT DP_TRAIN_SOFT DDP_TRAIN.

What it computes (against dp-train), what it counts, which devices it takes, who may start it. Faults: test_faults.py.
"""
import json
import os
import subprocess

from pictures import make_pictures
from processes import Run, by_hand, check, expect, fault, free_port, run_tests
from trainer import DDP, DP, FRONT, SMALL, WIDE, checkpoint, ddp, folder, hand, summary, train

EPOCHS = 15   # within which the digits reach 95 %, as with single and dp (tests/run)


# ---- what it computes ------------------------------------------------------------------------------------------------


def test_digits_reach_95_percent():
    for ranks in (1, 2, 4):
        got = summary(DDP, "--data", "digits", "--width", 128, "--depth", 2, "--lr", 0.05, "--epochs", EPOCHS,
                      "--gpus", ranks, "--global-batch", 32)
        check(got["test_samples"] == 360, f"{got['test_samples']} samples tested")
        check(got["test_accuracy"] >= 0.95, f"N = {ranks}: accuracy {got['test_accuracy']}")


def test_dp_and_ddp_agree():
    """Bit for bit for N a power of two and equal shares; else the losses within 1e-5."""
    for ranks, batch, bits in ((1, 32, True), (2, 32, True), (4, 32, True), (8, 32, True), (3, 32, False),
                               (4, 10, False)):
        common = [*SMALL, "--gpus", ranks, "--global-batch", batch, "--steps", 20, "--checksum"]
        ours, theirs = train(DDP, *common), train(DP, *common)
        if bits:
            check(ours["summary"][0]["checksum"] == theirs["summary"][0]["checksum"], f"N = {ranks}: checksums differ")
        for mine, other in zip(ours["step"], theirs["step"]):
            check(abs(mine["loss"] - other["loss"]) <= 1e-5 * other["loss"],
                  f"N = {ranks}, batch {batch}: {mine} and {other}")


def test_bytes_are_those_of_the_formula():
    """2 (N - 1) P a step, and nothing else between devices."""
    for ranks in (1, 2, 4):
        lines = train(DDP, *WIDE, "--gpus", ranks, "--global-batch", 32, "--steps", 5)
        expected = 2 * (ranks - 1) * 4 * lines["header"][0]["params"]
        found = {line["phase"]: (line["counted"], line["formula"]) for line in lines.get("formula", [])}
        if ranks > 1:
            check(found == {"allreduce_exposed": (expected, expected)}, f"N = {ranks}: {found}, expected {expected}")
        moved = sum(line["bytes"] for line in lines.get("traffic", [])
                    if line["from"] >= 0 and line["to"] >= 0 and line["from"] != line["to"])
        check(moved == expected, f"N = {ranks}: {moved} bytes moved, expected {expected}")


def test_bytes_of_buffers_are_those_of_the_formula():
    """(N - 1) Bf once an update; SyncBatchNorm: N (N - 1) (2 C + 1) and 2 (N - 1) 2 C numbers a layer and micro-batch."""
    channels = [4, 4, 4, 8, 8, 8, 16, 16, 16]   # resnet20 of width 4, one block a stage
    buffer_bytes = sum(2 * 256 for _ in channels)
    for ranks in (2, 4):
        for sync in (False, True):
            lines = train(DDP, "--model", "resnet20", "--width", 4, "--depth", 1, "--inputs", 192, "--gpus", ranks,
                          "--global-batch", 10, "--accumulate", 2, "--steps", 3, *(["--sync-bn"] if sync else []))
            found = {line["phase"]: line["counted"] for line in lines["formula"] if line["counted"]}
            check(all(line["counted"] == line["formula"] for line in lines["formula"]), f"{lines['formula']}")
            expected = {"replicate": (ranks - 1) * buffer_bytes,
                        "allreduce_exposed": 2 * (ranks - 1) * 4 * lines["header"][0]["params"]}
            if sync:
                expected["forward"] = 2 * ranks * (ranks - 1) * 4 * sum(2 * c + 1 for c in channels)
                expected["backward"] = 2 * 2 * (ranks - 1) * 4 * sum(2 * c for c in channels)
            check(found == expected, f"N = {ranks}, sync {sync}: {found}, expected {expected}")


def test_five_runs_are_bit_equal():
    """And with another order of events: no overlap. 12 steps: buckets are made anew after the first."""
    common = [*WIDE, "--bucket-cap-mb", 0.5, "--gpus", 4, "--global-batch", 32, "--steps", 12]
    first = checkpoint(*common)
    for _ in range(4):
        check(checkpoint(*common) == first, "two runs differ")
    check(checkpoint(*common, "--no-overlap") == first, "the overlap changes bits")


def test_overlap_uses_whole_values():
    """trials.md 11: each step's loss, to the last digit, and the weights at the end are those without overlap: with a tiny last bucket,
    with one larger than the model, and with a rank that comes 50 ms late to every step's collectives."""
    for caps, steps, env in (((0.5, 1000), 500, None), ((0.5,), 25, fault("slow:1:step0"))):
        common = [*WIDE, "--width", 256, "--gpus", 2, "--global-batch", 16, "--lr", 0.01, "--steps", steps]
        with folder() as path:
            file = os.path.join(path, "checkpoint")

            def kept(*arguments, **options):
                losses = [line["loss"] for line in train(DDP, *common, *arguments, "--save", file, **options)["step"]]
                with open(file, "rb") as saved:
                    return losses, saved.read()
            without = kept("--no-overlap")
            check(len(set(without[0])) > steps // 2, "the losses tell nothing")
            for cap in caps:
                check(kept("--bucket-cap-mb", cap, env=env) == without, f"cap {cap}, {env}: some step differs")


def test_resume_is_bit_equal():
    common = [*SMALL, "--gpus", 2, "--global-batch", 32, "--momentum", 0.9, "--warmup", 0]
    with folder() as path:
        half, whole, resumed = (os.path.join(path, name) for name in ("half", "whole", "resumed"))
        expect(ddp(*common, "--steps", 6, "--save", half), 0)
        expect(ddp(*common, "--steps", 12, "--save", whole), 0)
        expect(ddp(*common, "--steps", 6, "--resume", half, "--save", resumed), 0)
        with open(whole, "rb") as a, open(resumed, "rb") as b:
            check(a.read() == b.read(), "the resumed run ends elsewhere")


def test_more_ranks_than_cores():
    got = summary(DDP, *SMALL, "--gpus", 8, "--global-batch", 32, "--steps", 50)
    check(got["status"] == "ok", f"status {got['status']}")


def test_progress_tells_the_truth():
    """Whose loss it is, and the rate: 10 samples a step, not 4 times rank 0's 3."""
    run = ddp(*SMALL, "--gpus", 4, "--global-batch", 10, "--steps", 1)
    expect(run, 0)
    lines = run.out.splitlines()
    check("batch 3, 3, 3, 1 per process" in run.out, run.out)
    step = next(line.split() for line in lines if line.startswith("step 1/1"))
    check(step[2:5] == ["rank", "0's", "loss"], f"{step}")
    # Rank 0's clock: at most the maximum over the ranks, of which the summary tells.
    whole = next(line.split() for line in lines if line.startswith("step ") and "median" in line)
    check(float(step[6]) * float(whole[1]) / 1e3 >= 10 * 0.99, f"{step} {whole}")
    run = ddp(*SMALL, "--gpus", 1, "--global-batch", 10, "--steps", 1)
    expect(run, 0)
    check("rank 0's" not in run.out and " loss " in run.out, run.out)


def test_more_ranks_than_samples():
    got = summary(DDP, *SMALL, "--gpus", 4, "--global-batch", 3, "--steps", 10)
    check(got["status"] == "ok" and got["global_batch"] == 3, f"{got}")


# ---- devices ---------------------------------------------------------------------------------------------------------


def test_visible_devices():
    none = "CUDA_VISIBLE_DEVICES"   # the message names it
    for visible, ranks, code, text in (("3,2", 2, 0, "rank 0 has device 0: soft GPU 3"), ("7", 1, 0, ""),
                                       ("2,3", 2, 0, "rank 1 has device 1: soft GPU 3"), ("1", 4, 3, "but 1 is there"),
                                       ("", 2, 3, none), ("-1", 2, 3, none), ("0,0", 2, 3, none), ("64", 1, 3, none)):
        run = ddp(*SMALL, "--gpus", ranks, "--steps", 2, env={"CUDA_VISIBLE_DEVICES": visible})
        expect(run, code, limit=5)
        check(text in run.err, f"CUDA_VISIBLE_DEVICES={visible}: stderr lacks \"{text}\":\n{run.err}")


def test_a_device_of_another_kind():
    """One line, whatever the number of ranks; and what the front found out is said once."""
    run = ddp(*SMALL, "--gpus", 4, "--device", "cuda")
    expect(run, 3, "--device cuda", "use --device soft", limit=5)
    check(len(run.err.splitlines()) == 1, f"stderr:\n{run.err}")
    runs = by_hand([FRONT, *SMALL, "--steps", 2], range(2), 2, free_port())
    for run in runs.values():
        expect(run, 0)
    check("".join(run.err for run in runs.values()).count("--device auto") == 1, f"stderr:\n{runs[0].err}{runs[1].err}")
    run = Run([FRONT, *SMALL, "--gpus", 3, "--steps", 2])
    expect(run, 0)
    check(run.err.count("--device auto") == 1, f"stderr:\n{run.err}")


def test_too_little_device_memory():
    run = ddp(*WIDE, "--gpus", 4, "--device-memory", 2)
    expect(run, 3, limit=5)
    check("memory" in run.err, f"stderr:\n{run.err}")


def said_once(arguments, code, text):
    """One refusal, and the launcher's last line."""
    run = ddp(*SMALL, "--gpus", 3, "--steps", 2, *arguments)
    expect(run, code, f"exit code {code}")
    said = [line for line in run.err.splitlines() if text in line]
    check(len(said) == 1 and said[0].startswith("ddp-train: rank 0: "), f"{arguments}; stderr:\n{run.err}")


def test_what_all_ranks_refuse_is_said_once():
    with folder() as path:
        said_once(("--data", path), 4, "none of the expected files")
        said_once(("--data", path + "/no"), 4, "found nothing")
        said_once(("--json", path + "/no/run.json"), 3, "run.json")
    said_once(("--global-batch", 100000), 2, "100000")
    said_once(("--sync-bn",), 2, "--model mlp")


def test_resume_that_all_ranks_refuse_is_said_once():
    with folder() as path:
        said_once(("--resume", path + "/no"), 4, "No such file")


def test_the_rank_that_fails_alone_says_why():
    """Its folder lacks the data that the others see."""
    with folder() as path, folder() as empty:
        os.mkdir(os.path.join(path, "pictures"))
        make_pictures(os.path.join(path, "pictures"), 40, range(10))
        port = free_port()
        runs = [Run([DDP, "--data", "pictures", "--width", 8, "--depth", 1, "--global-batch", 6, "--timeout", 3],
                    {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "3", "MASTER_PORT": str(port)},
                    cwd=empty if rank == 1 else path) for rank in range(3)]
        for run in runs:
            expect(run, 4)
        check([run.err.count("found nothing") for run in runs] == [0, 1, 0], "".join(run.err for run in runs))


# ---- ranks by hand ---------------------------------------------------------------------------------------------------


def test_a_missing_device_is_no_lack_of_memory():
    """The reader of the JSON lines is told which of the two it was."""
    for options, env, status in ((("--device-memory", 2), {}, "out_of_memory"), ((), {"SOFTGPU_DEVICES": "2", "LOCAL_RANK": "3"}, "failed")):
        with folder() as path:
            file = os.path.join(path, "run.json")
            run = by_hand([DDP, *WIDE, "--steps", 1, "--json", file, *options], [0], 1, free_port(), env)[0]
            expect(run, 3)
            with open(file, encoding="utf-8") as text:
                got = json.loads(text.readlines()[-1])
            check((got["type"], got["status"]) == ("summary", status), f"{got}")


def test_torchrun_variables():
    """And torch.distributed.launch's --local_rank; --gpus is not needed, and must not say otherwise."""
    with folder() as path:
        file = os.path.join(path, "run.json")
        runs = by_hand(hand("--steps", 20, "--checksum", "--json", file), range(4), 4, free_port())
        for run in runs.values():
            expect(run, 0)
        with open(file, encoding="utf-8") as text:
            by_torchrun = json.loads(text.readlines()[-1])
    own = summary(*hand("--steps", 20, "--checksum", "--gpus", 4))
    check(by_torchrun["checksum"] == own["checksum"] and by_torchrun["gpus"] == 4, f"{by_torchrun}")
    port = free_port()
    runs = [Run(hand("--steps", 5, f"--local_rank={rank}"),
                {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_PORT": str(port)}) for rank in range(2)]
    for run in runs:
        expect(run, 0)
    expect(Run(hand("--gpus", 3), {"RANK": "0", "WORLD_SIZE": "2"}), 2, "--gpus 3", "2 ranks", limit=1)


def test_other_options_on_one_rank():
    """trials.md 15: seed and learning rate, both values named on every rank."""
    for name, ours, other in (("seed", 1, 2), ("lr", 0.05, 0.1), ("global_batch", 32, 64)):
        port = free_port()
        option = "--" + name.replace("_", "-")
        runs = by_hand(hand(option, ours), (0, 1, 3), 4, port)
        runs.update(by_hand(hand(option, other), (2,), 4, port))
        for run in runs.values():
            check(run.finish(2) == 2, f"exit code {run.process.returncode}; stderr:\n{run.err}")
            check(f"option {name} is {ours} on rank 0 and {other} on rank 2" in run.err, f"stderr:\n{run.err}")


def test_two_jobs_at_once():
    """trials.md 27: from one directory, both right."""
    common = [*SMALL, "--global-batch", 32, "--steps", 50, "--checksum", "--gpus", 2]
    with folder() as path:
        files = [os.path.join(path, name) for name in ("a", "b")]
        for run in [ddp(*common, "--json", file) for file in files]:
            expect(run, 0)
        sums = set()
        for file in files:
            with open(file, encoding="utf-8") as text:
                sums.add(json.loads(text.readlines()[-1])["checksum"])
    check(len(sums) == 1, f"checksums {sums}")


def test_resume_that_one_rank_cannot_see():
    """trials.md 43: the path leads to a file for rank 0 alone. All ranks end, the one that sees nothing says so; and one rank writes."""
    with folder() as here, folder() as there:
        common = hand("--steps", 2)
        expect(ddp(*common[1:], "--gpus", 2, "--save", os.path.join(here, "saved")), 0)
        for option, code in (("--resume", 4), ("--save", 0)):
            port = free_port()
            runs = [Run([*common, option, "saved"], {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_PORT": str(port)}, cwd=place)
                    for rank, place in enumerate((here, there))]
            for run in runs:
                expect(run, code, limit=10)
            check(code == 0 or "saved" in runs[1].err, runs[1].err)
        check(os.listdir(there) == [] and os.listdir(here) == ["saved"], f"{os.listdir(here)} {os.listdir(there)}")


def test_a_missing_rank():
    runs = by_hand(hand("--rendezvous-timeout", 0.5), (0, 1, 2), 4, free_port())
    for run in runs.values():
        expect(run, 5, "missing ranks: 3", limit=1.5)


def test_stdout_closed():
    with subprocess.Popen([DDP, *map(str, SMALL), "--gpus", "4", "--steps", "200"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, stdin=subprocess.DEVNULL) as process:
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read().decode()
        check(process.wait() in (0, 3), f"exit code {process.returncode}; stderr:\n{errors}")
        check("SIGPIPE" not in errors, f"stderr:\n{errors}")


def test_the_front_program():
    expect(Run([FRONT, "--device", "soft", *SMALL, "--gpus", 2, "--steps", 3]), 0)


run_tests([function for name, function in list(globals().items()) if name.startswith("test_")])
