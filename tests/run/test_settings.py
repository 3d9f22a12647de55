# SPDX-License-Identifier: MIT
"""What dp-train's settings mean: batches, shapes alone, usage, the choice of devices, who may start it.

    test_settings.py DP_TRAIN_SOFT DP_TRAIN: program.py
"""
import math
import os
import shutil

from program import FRONT, SMALL, check, complaints, run, run_tests, train


def test_empty_batch_is_skipped(folder):
    for arguments in (["--strategy", "single"], ["--gpus", "4"]):
        lines, _ = train(folder, SMALL + arguments + ["--global-batch", "0", "--steps", "6", "--checksum"])
        summary = lines["summary"][0]
        check(summary["skipped_steps"] == 6 and summary["steps"] == 0 and "step" not in lines, "skipped steps")
        check(summary["step_ms"] is None and summary["loss_last"] is None and summary["samples_per_s"] is None, "nothing measured")
        check(summary["status"] == "ok", "status")


def test_shape_only(folder):
    """Nothing is executed: memory and bytes are known as ever, times and losses are not."""
    arguments = SMALL + ["--gpus", "4", "--global-batch", "32", "--steps", "3"]
    real, shape = (train(folder, arguments + extra)[0] for extra in ([], ["--shape-only", "--record", os.path.join(folder, "record")]))
    check(os.path.getsize(os.path.join(folder, "record")) > 0, "a record")
    for column in ("comm_mib", "mem_peak_mib", "mem_imbalance", "busiest_link_mib"):
        check(real["summary"][0][column] == shape["summary"][0][column] > 0, column)
    for column in ("step_ms", "samples_per_s", "loss_first", "loss_last", "util_mean", "forward_ms", "checksum"):
        check(shape["summary"][0][column] is None, f"{column}: {shape['summary'][0][column]}")
    crowded = arguments + ["--cores-per-device", len(os.sched_getaffinity(0))]
    for extra, told in (([], True), (["--shape-only"], False)):
        out, _ = run(crowded + extra)
        check(("oversubscribed" in out) == told, f"times that teach nothing, where there are times: {out}")
    _, err = run(arguments + ["--shape-only", "--checksum"], expected=2)
    check("--shape-only" in err and "--checksum" in err, err)


def test_counts_real_samples(folder):
    """Trial 1: throughput counts 9 samples on 4 devices, not 12."""
    lines, _ = train(folder, SMALL + ["--gpus", "4", "--global-batch", "9", "--steps", "5"])
    total = sum(step["ms"] for step in lines["step"]) / 1e3
    check(math.isclose(lines["summary"][0]["samples_per_s"], 45 / total, rel_tol=1e-9), "samples_per_s")


def test_settings_table(folder):
    out, _ = run(SMALL + ["--gpus", "4", "--global-batch", "128", "--steps", "2"])
    check("DataParallel: batch 128; DistributedDataParallel on 4: batch 32 per process" in out, out)
    check("\r" not in out, "a bar in a pipe")
    for gpus, batch, pieces, idle in ((4, 9, "3, 3, 3, 0", "device 3 gets no sample"), (8, 9, "2, 2, 2, 2, 1, 0, 0, 0", "devices 5 to 7 get no sample"),
                                      (4, 10, "3, 3, 3, 1", None), (12, 31, "10 x 3, 1, 0", "device 11 gets no sample")):
        out, _ = run(SMALL + ["--gpus", gpus, "--global-batch", batch, "--steps", "1"])
        check(len({len(line) for line in out.splitlines() if line[0] in "|+"}) == 1, out)
        check(f"on {gpus}: batch {pieces} per process" in out and ("no sample" in out) == bool(idle) and (idle or "") in out, out)


def test_usage(folder):
    for arguments, words in ((["--gpus", "4x"], "from 1 to 64"), (["--model", "mpl"], "did you mean mlp?"), (["--data", "digits", "--inputs", "63"], "64"),
                             (["--model", "gpt-tiny", "--inputs", "5"], "--inputs 5: has no effect with --model gpt-tiny"),
                             (["--model", "lstm-tiny", "--classes", "5"], "--classes 5: has no effect"),
                             (["--data", "digits", "--global-batch", "100000"], "100000")):
        _, err = run(arguments + ["--steps", "1"], expected=2)
        check(words in err, err)
    out, _ = run(["--help"])
    check("--dp-transport" in out and "--bucket-cap-mb" not in out and "--device-count" not in out, out)
    out, _ = run(["--version"])
    check(out.startswith("dp-train "), out)


def test_device_choice(folder):
    hidden = {"CUDA_VISIBLE_DEVICES": "-1"}
    _, err = run(SMALL + ["--device", "cuda", "--steps", "1"], expected=3)
    check("--device cuda" in err and "use --device soft" in err and len(complaints(err)) == 1, err)
    _, err = run(SMALL + ["--device", "cuda", "--steps", "1"], expected=3, program=FRONT, env=hidden)
    check(len(err.strip().splitlines()) == 1, f"one plain line: {err}")
    out, err = run(SMALL + ["--device", "auto", "--steps", "1"], program=FRONT, env={"SOFTGPU_DEVICES": "1"})
    check("--device auto: " in err, err)
    run(SMALL + ["--device", "soft", "--steps", "1"], program=FRONT)
    run(["--gpus", "4", "--device", "soft", "--steps", "1"], expected=3, program=FRONT, env={"SOFTGPU_DEVICES": "2"})
    run(["--help"], program=FRONT)


def test_the_front_speaks_once(folder):
    """What it found out it says after the options were found good, and for all ranks of a machine once."""
    _, err = run(["--steps", "x"], expected=2, program=FRONT)
    check(len(complaints(err)) == 1 and "--steps x" in err, err)
    for rank, lines in (("0", 1), ("1", 0)):   # LOCAL_RANK alone is no launcher's
        _, err = run(SMALL + ["--steps", "1"], program=FRONT, env={"LOCAL_RANK": rank})
        check(err.count("--device auto: ") == lines, err)
    copy = os.path.join(folder, os.path.basename(FRONT))
    shutil.copy(FRONT, copy)
    with open(copy + "-cuda", "w", encoding="utf-8") as fake:   # of a build with CUDA on a machine without a GPU
        fake.write("#!/bin/sh\necho 'no CUDA device' >&2\nexit 3\n")
    os.chmod(copy + "-cuda", 0o755)
    for rank, lines in (("0", 1), ("1", 0)):
        _, err = run(["--device", "cuda"], expected=3, program=copy, env={"LOCAL_RANK": rank})
        check(len(err.splitlines()) == lines and (rank != "0" or "use --device soft" in err), err)


def test_copies_are_refused(folder):
    """mpirun -n 2 dp-train would train twice, side by side."""
    for variables in ({"OMPI_COMM_WORLD_RANK": "{}", "OMPI_COMM_WORLD_SIZE": "2"}, {"PMI_RANK": "{}", "PMI_SIZE": "2"},
                      {"RANK": "{}", "WORLD_SIZE": "2", "LOCAL_RANK": "{}"}, {"SLURM_PROCID": "{}", "SLURM_STEP_NUM_TASKS": "2"}):
        for rank in 0, 1:
            out, err = run(SMALL + ["--steps", "1"], expected=3, env={k: v.format(rank) for k, v in variables.items()})
            check(out == "" and len(complaints(err)) == 1 - rank, err)
            check(rank or "started once" in err, err)
    run(SMALL + ["--steps", "1"], env={"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"})
    run(SMALL + ["--steps", "1"], env={"SLURM_PROCID": "0", "SLURM_NTASKS": "2"})   # a batch script


run_tests(globals())
