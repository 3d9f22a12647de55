# SPDX-License-Identifier: MIT
"""dp-train as a user starts it: exit codes, JSON lines, resuming, accuracy, faults.

    test_programs.py DP_TRAIN_SOFT DP_TRAIN [PREFIX | ^PREFIX]     the tests of this prefix; all others
"""
import contextlib
import fcntl
import json
import math
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import traceback

LIMIT = 50.0    # seconds for one run: far more than any takes, so that a hang is a failure and not a wait
SMALL = ["--inputs", "20", "--width", "32", "--depth", "2", "--classes", "7"]
DIGITS = ["--data", "digits", "--width", "128", "--depth", "2", "--lr", "0.05"]
EPOCHS = 15     # within which single and dp reach 95 % on the digits
PHASES = ["scatter", "replicate", "forward", "gather", "loss", "backward", "reduce", "allreduce_exposed", "update", "host", "wait"]

trainer, front = sys.argv[1], sys.argv[2]


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def run(arguments, expected=0, program=None, env=None):
    """Runs the trainer; returns (stdout, stderr). A code other than `expected` is a failure that shows both."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("DPBENCH_", "SOFTGPU_", "CUDA_"))}
    environment.update(env or {})
    command = [program or trainer] + [str(a) for a in arguments]
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT)
    check(done.returncode == expected, f"{' '.join(command)}: exit {done.returncode}, expected {expected}\n{done.stdout}{done.stderr}")
    return done.stdout, done.stderr


def complaints(err):
    """The lines of stderr that are no remark on the build (without oneDNN each trainer says that it is slower)."""
    return [line for line in err.splitlines() if "built without oneDNN" not in line]


def refuse_constant(name):
    raise AssertionError(f"{name} is no JSON")


def train(folder, arguments, expected=0, name="run", env=None):
    """Runs with --json; returns the lines as {type: [objects in order]}, and stderr."""
    path = os.path.join(folder, name + ".json")
    _, err = run(list(arguments) + ["--json", path], expected, env=env)
    lines = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            check(line.endswith("\n"), "the last line has no end")
            value = json.loads(line, parse_constant=refuse_constant)
            lines.setdefault(value["type"], []).append(value)
    return lines, err


def losses(lines):
    return [step["loss"] for step in lines["step"]]


# ---- JSON lines ---------------------------------------------------------------------------------------------------------


def test_json_lines(folder):
    lines, _ = train(folder, SMALL + ["--gpus", "4", "--global-batch", "32", "--steps", "7", "--checksum"])
    header, summary = lines["header"][0], lines["summary"][0]
    check(set(lines) == {"header", "step", "device", "traffic", "formula", "summary"}, f"types {sorted(lines)}")
    check(len(lines["step"]) == 7 and [s["step"] for s in lines["step"]] == list(range(7)), "steps")
    check([d["device"] for d in lines["device"]] == [0, 1, 2, 3], "devices")
    for object_ in (header, summary):
        check(object_["strategy"] == "dp" and object_["gpus"] == 4 and object_["backend"] == "soft", "configuration")
        check(object_["global_batch"] == 32 and object_["batch_per_gpu"] == 8, "both batch sizes")
        check(object_["params"] == 20 * 32 + 32 + 32 * 32 + 32 + 32 * 7 + 7, f"params {object_['params']}")
    check(summary["status"] == "ok" and summary["reason"] == "", "status")
    check(len(summary["checksum"]) == 16 and int(summary["checksum"], 16) > 0, "checksum")
    check(summary["allreduce_exposed_ms"] is None and summary["comm_hidden_ms"] is None, "dp has no all-reduce to hide")
    check(summary["comm_source"] == "counted", "comm_source")


def test_phases_add_up(folder):
    """Within 2 % of the step; very short steps get 20 us for the reading of clocks."""
    for arguments in (["--strategy", "single"], ["--gpus", "2"], ["--gpus", "2", "--dp-transport", "p2p", "--accumulate", "2"]):
        lines, _ = train(folder, SMALL + arguments + ["--steps", "9"])
        summary = lines["summary"][0]
        total = sum(summary[phase + "_ms"] or 0 for phase in PHASES)
        check(abs(total - summary["step_ms"]) <= 0.02 * summary["step_ms"] + 0.02, f"{arguments}: {total} of {summary['step_ms']}")
        check(summary["host_ms"] > 0 and summary["forward_ms"] > 0, "phases that every step has")
        # The row tells of the slowest device; in dp that may be one that updates nothing.
        check("single" not in arguments or summary["update_ms"] > 0, "single updates")


def test_ledger_lines(folder):
    lines, _ = train(folder, SMALL + ["--gpus", "4", "--global-batch", "9"])
    for line in lines["formula"]:
        check(line["counted"] == line["formula"] > 0, f"{line}")
        moved = sum(t["bytes"] for t in lines["traffic"] if t["phase"] == line["phase"] and t["from"] >= 0 and t["to"] >= 0
                    and t["from"] != t["to"])
        check(moved == line["counted"], f"{line['phase']}: pairs say {moved}")
    summary, devices = lines["summary"][0], lines["device"]
    check(summary["comm_mib"] == summary["comm_mib_formula"] > 0, "comm_mib")
    busiest = max(max(d["sent_mib"], d["received_mib"]) for d in devices)
    check(summary["busiest_link_mib"] == busiest == max(devices[0]["sent_mib"], devices[0]["received_mib"]), "busiest link is device 0's")
    check(math.isclose(sum(d["sent_mib"] for d in devices), summary["comm_mib"]), "sent adds up")


def test_memory_lines(folder):
    lines, _ = train(folder, SMALL + ["--gpus", "4", "--global-batch", "32"])
    summary, devices = lines["summary"][0], lines["device"]
    peaks = [d["mem_peak_mib"] for d in devices]
    check(summary["mem_peak_mib"] == max(peaks) == summary["mem_device0_mib"], "device 0 holds most")
    check(math.isclose(summary["mem_imbalance"], max(peaks) / (sum(peaks) / 4)), "imbalance")
    check(devices[0]["mem_optimizer_mib"] > 0 and all(d["mem_optimizer_mib"] == 0 for d in devices[1:]), "optimizer on device 0")


def test_trace(folder):
    path = os.path.join(folder, "trace.json")
    run(SMALL + ["--gpus", "2", "--steps", "3", "--trace", path])
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    check({e["pid"] for e in spans} == {0, 1} and {e["args"]["step"] for e in spans} == {0, 1, 2}, "devices and steps")
    check({"forward", "backward", "reduce", "update"} <= {e["name"] for e in spans}, "phases")
    check(all(e["dur"] >= 0 and e["ts"] >= 0 for e in spans), "times")


# ---- training ---------------------------------------------------------------------------------------------------------------


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


# ---- edges ------------------------------------------------------------------------------------------------------------------


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
    _, err = run(SMALL + ["--device", "cuda", "--steps", "1"], expected=3, program=front, env=hidden)
    check(len(err.strip().splitlines()) == 1, f"one plain line: {err}")
    out, err = run(SMALL + ["--device", "auto", "--steps", "1"], program=front, env={"SOFTGPU_DEVICES": "1"})
    check("--device auto: " in err, err)
    run(SMALL + ["--device", "soft", "--steps", "1"], program=front)
    run(["--gpus", "4", "--device", "soft", "--steps", "1"], expected=3, program=front, env={"SOFTGPU_DEVICES": "2"})
    run(["--help"], program=front)


def test_the_front_speaks_once(folder):
    """What it found out it says after the options were found good, and for all ranks of a machine once."""
    _, err = run(["--steps", "x"], expected=2, program=front)
    check(len(complaints(err)) == 1 and "--steps x" in err, err)
    for rank, lines in (("0", 1), ("1", 0)):   # LOCAL_RANK alone is no launcher's
        _, err = run(SMALL + ["--steps", "1"], program=front, env={"LOCAL_RANK": rank})
        check(err.count("--device auto: ") == lines, err)
    copy = os.path.join(folder, os.path.basename(front))
    shutil.copy(front, copy)
    with open(copy + "-cuda", "w", encoding="utf-8") as fake:   # of a build with CUDA on a machine without a GPU
        fake.write("#!/bin/sh\necho 'no CUDA device' >&2\nexit 3\n")
    os.chmod(copy + "-cuda", 0o755)
    for rank, lines in (("0", 1), ("1", 0)):
        _, err = run(["--device", "cuda"], expected=3, program=copy, env={"LOCAL_RANK": rank})
        check(len(err.splitlines()) == lines and (rank != "0" or "use --device soft" in err), err)


def test_each_allocation_fails(folder):
    """Of device and pinned memory, the first, the second ... until a run needs no more: 3, a reason, nothing left."""
    for arguments in (["--accumulate", "2"], ["--dp-transport", "p2p", "--dp-loss", "replica"], ["--strategy", "single"]):
        for number in range(200):
            path, saved = os.path.join(folder, "run.json"), os.path.join(folder, "checkpoint")
            command = [trainer, "--data", "digits", "--width", "8", "--depth", "1", "--steps", "2", "--checksum", "--json", path, "--save", saved] + arguments
            command += [] if "single" in arguments else ["--gpus", "2"]
            done = subprocess.run(command, env=dict(os.environ, DPBENCH_FAULT=f"alloc:0:step{number}"), stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=LIMIT)
            with open(path, encoding="utf-8") as file:
                last = json.loads(file.readlines()[-1])
            if done.returncode == 0:
                break
            check(done.returncode == 3, f"allocation {number}: exit {done.returncode}\n{done.stderr}")
            check("planted" in done.stderr.splitlines()[-1] and "planted" in last["reason"], f"{last}\n{done.stderr}")
            check(os.listdir(folder) == ["run.json"], f"left: {os.listdir(folder)}")
        check(10 < number < 199 and last["status"] == "ok", f"{number} allocations")
        os.unlink(saved)


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


def test_out_of_memory(folder):
    lines, err = train(folder, ["--device-memory", "8", "--gpus", "2", "--steps", "1"], expected=3)
    check(lines["summary"][0]["status"] == "out_of_memory" and lines["summary"][0]["reason"], f"{lines['summary'][0]}")
    check("bytes" in err or "MiB" in err, err)


def test_unwritable_file(folder):
    for option in ("--json", "--trace", "--save", "--save-gradients"):
        _, err = run(SMALL + ["--steps", "1", option, os.path.join(folder, "missing", "file")], expected=3)
        check("missing" in err and len(err.splitlines()) == 1, err)


def test_record_without_a_folder(folder):
    """A record that can't be written at the end is an error of the environment, told once, and the row does not say ok."""
    path = os.path.join(folder, "run.json")
    inside = os.path.join(folder, "inside")
    os.mkdir(inside)
    with subprocess.Popen([trainer] + SMALL + ["--steps", "2000", "--record", os.path.join(inside, "record"), "--json", path], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as training:
        check(any("step " in line for line in training.stdout), "no step")
        os.rmdir(inside)
        err = training.communicate(timeout=LIMIT)[1]
    check(training.returncode == 3 and len(complaints(err)) == 2 and "record: can't" in err.splitlines()[-1] and "phase close" in err, f"exit {training.returncode}\n{err}")
    with open(path, encoding="utf-8") as file:
        last = json.loads(file.read().splitlines()[-1])
    check(last["status"] == "failed" and "record: can't" in last["reason"], f"{last}")


def test_pipes_and_devices(folder):
    """--json and --trace flow through what is no regular file; what must lie there whole is refused, and left alone."""
    out, _ = run(SMALL + ["--steps", "3", "--json", "/dev/stdout"])
    check(json.loads(out.splitlines()[-1])["status"] == "ok" and "step " in out, out)
    path = os.path.join(folder, "pipe")
    os.mkfifo(path)
    for option in ("--save", "--save-gradients", "--record"):
        _, err = run(SMALL + ["--steps", "1", option, path], expected=3)
        check(f"{path}: is a pipe, a regular file was expected" in err and len(complaints(err)) == 1, err)
    for option in ("--json", "--trace"):
        with subprocess.Popen(["cat", path], stdout=subprocess.PIPE, text=True) as reader:
            run(SMALL + ["--steps", "3", option, path])
            read = reader.communicate(timeout=LIMIT)[0]
        check(json.loads(read.splitlines()[-1] if option == "--json" else read), read[:200])
    check(os.path.exists(path) and not os.path.isfile(path), "the pipe was replaced")


def test_a_device_stays_a_device(folder):
    path = os.path.join(folder, "full")
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 7))   # a node of our own, like /dev/full
    except PermissionError:
        return
    for option in ("--save", "--json"):
        run(SMALL + ["--steps", "1", option, path], expected=3)
        check(stat.S_ISCHR(os.stat(path).st_mode), f"{option} replaced a device")


def test_thread_failure(folder):
    """A DP thread fails: the others are not left waiting, and the row says why."""
    lines, err = train(folder, SMALL + ["--gpus", "4", "--steps", "20"], expected=1, env={"DPBENCH_FAULT": "dp-thread:2:step5"})
    check("device 2" in err and "step 5" in err, err)
    check(lines["summary"][0]["status"] == "failed" and "device 2" in lines["summary"][0]["reason"], f"{lines['summary'][0]}")


def test_collective_failure(folder):
    """One device never comes to a collective that the others have begun: aborted, not waited for."""
    lines, err = train(folder, SMALL + ["--gpus", "4", "--steps", "20", "--timeout", "3600"], expected=1,
                       env={"DPBENCH_FAULT": "dp-broadcast:2:step5"})
    check("device 2" in err and "step 5" in err and len(complaints(err)) == 2, err)
    check(lines["summary"][0]["status"] == "failed" and "device 2" in lines["summary"][0]["reason"], f"{lines['summary'][0]}")


def test_a_device_that_never_finishes(folder):
    """--timeout bounds it: 6, the row, and the device that is behind."""
    for arguments, device, text in ((["--strategy", "single"], 0, "device 0 is at stall (backward)"),
                                    (["--gpus", "3", "--dp-transport", "p2p"], 2, "device 2 is at stall (backward)"),
                                    (["--gpus", "3", "--accumulate", "2"], 1, "rank 1 is at collective")):
        lines, err = train(folder, SMALL + arguments + ["--steps", "20", "--timeout", "1"], expected=6,
                           env={"DPBENCH_FAULT": f"stall-device:{device}:step5"})
        last = err.splitlines()[-1]
        check("time limit of 1.0 s" in last and text in last and "in step 6 of 23, phase finish" in last, err)
        check(lines["summary"][0]["status"] == "time_limit" and text in lines["summary"][0]["reason"], f"{lines['summary'][0]}")


def test_the_last_line_names_the_place(folder):
    """Cause, pid, step, phase, seconds and exit code; a refusal before any device is opened stands alone."""
    place = r"; pid \d+ %s, after \d+\.\d\d s; exit code %d$"
    thread = {"DPBENCH_FAULT": "dp-thread:2:step5"}
    for arguments, code, env, cause, where in (
            (["--gpus", "4", "--steps", "20"], 1, thread, "planted fault at step 5", "in step 6 of 23, phase step"),
            (["--gpus", "4", "--steps", "20", "--checksum", "--warmup", "0"], 1, {"DPBENCH_FAULT": "dp-thread:1:step2"}, "step 2", "in step 3 of 20, phase step"),
            (["--strategy", "single", "--lr", "1e6", "--steps", "30"], 1, {}, "diverged", "in step 33 of 33, phase close"),
            (["--device-memory", "1", "--gpus", "2", "--width", "2048"], 3, {}, "memory", "in phase open")):
        _, err = run(SMALL + arguments, expected=code, env=env)
        last = err.splitlines()[-1]
        check(last.startswith("dp-train: ") and cause in last and re.search(place % (where, code), last), err)
    for arguments, code in ((["--data", folder], 4), (["--gpus", "65"], 2), (["--model", "resnet20"], 2)):
        _, err = run(["--steps", "1", "--inputs", "20"] + arguments, expected=code)
        check("pid" not in err and len(err.splitlines()) == 1, err)


def test_interrupted(folder):
    """The first signal ends the run with a line, the row of --json and 128 + N; what is ignored stays ignored."""
    path = os.path.join(folder, "run.json")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_IGN:  # under nohup, or in a shell's background; trainers inherit it
            signal.signal(number, signal.SIG_DFL)
        with subprocess.Popen([trainer] + SMALL + ["--gpus", "2", "--steps", "1000000", "--json", path], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as training:
            check(any("step " in line for line in training.stdout), "no step")
            training.send_signal(number)
            err = training.communicate(timeout=LIMIT)[1]
        check(training.returncode == 128 + number, f"{number.name}: exit {training.returncode}\n{err}")
        check(re.search(rf"interrupted by signal {int(number)} \({number.name}\); pid {training.pid} in .*phase (open|step|finish), after "
                        rf"\d+\.\d\d s; exit code {128 + number}$", err.splitlines()[-1]), err)
        with open(path, encoding="utf-8") as file:
            last = json.loads(file.read().splitlines()[-1])
        check(last["type"] == "summary" and last["status"] == "failed" and number.name in last["reason"], f"{last}")
        os.unlink(path)
    ignoring = ["sh", "-c", "trap '' HUP; kill -HUP $$; exec \"$@\"", "sh", trainer]
    with subprocess.Popen(ignoring + SMALL + ["--steps", "20000"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as training:
        check(any("step " in line for line in training.stdout), "no step")
        training.send_signal(signal.SIGHUP)
        training.send_signal(signal.SIGTERM)
        training.communicate(timeout=LIMIT)
        check(training.returncode == 128 + signal.SIGTERM, f"exit {training.returncode}")


def test_divergence_is_no_success(folder):
    lines, _ = train(folder, SMALL + ["--strategy", "single", "--lr", "1e6", "--steps", "30"], expected=1)
    check(lines["summary"][0]["status"] == "failed" and lines["summary"][0]["loss_last"] is None, "a NaN is no number")


def test_reader_goes_away(folder):
    """`dp-train | head -1`: the training ends well."""
    done = subprocess.run(["sh", "-c", '"$@" | head -1; exit 0', "sh", trainer] + SMALL + ["--steps", "400"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=LIMIT)
    check(len(done.stdout.splitlines()) == 1, done.stdout)
    path = os.path.join(folder, "finished.json")
    with full_output() as full:
        code = subprocess.run([trainer] + SMALL + ["--steps", "4", "--json", path], stdout=full, stderr=subprocess.DEVNULL, timeout=LIMIT).returncode
    check(code == 0 and os.path.exists(path), f"exit {code} when nobody reads")


@contextlib.contextmanager
def full_output():
    """A descriptor to which every write fails: /dev/full; where a container has none, a memory file sealed against growing."""
    if os.path.exists("/dev/full"):
        descriptor = os.open("/dev/full", os.O_WRONLY)
    else:
        descriptor = os.memfd_create("full", os.MFD_ALLOW_SEALING)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def main():
    prefix = sys.argv[3] if len(sys.argv) > 3 else "test_"
    tests = [(name, f) for name, f in globals().items()
             if name.startswith("test_") and name.startswith(prefix.lstrip("^")) != prefix.startswith("^")]
    failed = 0
    for name, function in tests:
        with tempfile.TemporaryDirectory() as folder:
            try:
                function(folder)
                print(f"ok      {name}", flush=True)
            except Exception:
                failed += 1
                print(f"FAILED  {name}\n{traceback.format_exc()}", flush=True)
    print(f"{len(tests) - failed} of {len(tests)} passed")
    return 1 if failed or not tests else 0


if __name__ == "__main__":
    sys.exit(main())
