# SPDX-License-Identifier: MIT
"""Every record of the same command gives the same replay: test_same_run.py PROGRAMS REPLAY REWORK MACHINES COARSE_CLOCK

What one run and the next write differs in times, in how DP's threads lie between each other, and in what is numbered
in the order in which it happens. Played are: runs on all cores and on one; a run whose clock has coarse ticks; and the
first of them as REWORK makes it anew, by seed; shapes only, and executed. Screen, JSON, CSV and timeline must be the same bytes."""
import json
import os
import re
import subprocess
import sys
import tempfile

PROGRAMS, REPLAY, REWORK, MACHINES, COARSE_CLOCK = sys.argv[1:6]
FOLDER = tempfile.TemporaryDirectory()
REWORKED = 2
SLOWER = 2  # a power of two: the same bits
LOCKED = ["--launch-lock", "20"]
QUESTIONS = [[], LOCKED, ["--launch-lock", "0.3"], ["--no-p2p"], ["--slow-rank", "0", "2"],
             ["--jitter", "0.05", "3"], ["--collectives", "alpha-beta"], ["--launch-lock", "20", "--compute", "0.01"]]
BUCKETS = [["--bucket-cap-mb", "1"], ["--bucket-cap-mb", "1", "--launch-lock", "20"]]


def machines():
    """Devices of all nodes by the names of the machines that come with the suite."""
    found = {}
    for name in sorted(os.listdir(MACHINES)):
        if name.endswith(".ini"):
            with open(os.path.join(MACHINES, name)) as file:
                keys = dict(re.findall(r"^(devices|nodes) *= *(\d+)", file.read(), re.M))
            found[name[:-4]] = int(keys["devices"]) * int(keys.get("nodes", 1))
    assert len(found) >= 7, found
    return found


def folder(name):
    made = os.path.join(FOLDER.name, name)
    os.mkdir(made)
    return made


def record(where, program, options, core=None, preload=""):
    """Writes `run`, or `run.0` ... into the folder; returns the files' names."""
    limit = None if core is None else lambda: os.sched_setaffinity(0, {core})
    environment = dict(os.environ, LD_PRELOAD=preload) if preload else None
    done = subprocess.run([os.path.join(PROGRAMS, program), "--device", "soft", "--warmup", "2", "--steps", "3",
                           *options, "--record", "run"], cwd=where, capture_output=True, text=True,
                          preexec_fn=limit, env=environment)
    assert done.returncode == 0, (program, options, done.stderr)
    return sorted(name for name in os.listdir(where) if name.startswith("run"))


def replay(where, files, machine, question):
    outputs = [os.path.join(FOLDER.name, name) for name in ("out.json", "out.csv", "out.trace")]
    if os.path.exists(outputs[1]):
        os.unlink(outputs[1]) # rows are appended
    done = subprocess.run([REPLAY, *files, "--machine", machine, *question, "--json", outputs[0], "--csv", outputs[1],
                           "--trace", outputs[2]], cwd=where, capture_output=True)
    assert done.returncode == 0, (files, machine, question, done.stderr.decode())
    parts = [done.stdout]
    for output in outputs:
        with open(output, "rb") as part:
            parts.append(part.read())
    return parts


def make_records(name, program, options):
    """Folders of records of one command, and their files' names, the same in each."""
    cores = sorted(os.sched_getaffinity(0))
    places = [folder(f"{name}.{i}") for i in range(3 if COARSE_CLOCK else 2)]
    shape_only = [*options, "--shape-only"]
    files = record(places[0], program, shape_only)
    record(places[1], program, options if "mlp" in options else shape_only, core=cores[-1]) # mlp: executed, too
    if COARSE_CLOCK:
        record(places[2], program, shape_only, preload=COARSE_CLOCK)
    for seed in range(REWORKED):
        places.append(folder(f"{name}.reworked{seed}"))
        for file in files:
            subprocess.run([REWORK, str(seed), os.path.join(places[0], file), os.path.join(places[-1], file)], check=True)
    return places, files


def check(name, program, options, gpus, turn):
    places, files = make_records(name, program, options)
    usable = [machine for machine, devices in machines().items() if devices >= gpus]
    questions = QUESTIONS + (BUCKETS if program == "ddp-train" and gpus > 1 else [])
    for i, question in enumerate(questions):
        every = question == LOCKED and name.startswith("mlp") # the question that found a fault: on every machine
        for machine in usable if every else [usable[(turn + i) % len(usable)]]:
            answers = [replay(place, files, machine, question) for place in places]
            for place, answer in zip(places, answers):
                for kind, first, other in zip(("screen", "JSON", "CSV", "timeline"), answers[0], answer):
                    assert first == other, f"{os.path.basename(place)} on {machine} {question}: another {kind}"


def own_work_machines():
    """A machine that counts the hosts' own work: a100x8 with own_work = 1, and with SLOWER."""
    with open(os.path.join(MACHINES, "a100x8.ini")) as file:
        text = file.read()
    paths = []
    for factor in (1, SLOWER):
        paths.append(os.path.join(FOLDER.name, f"own_work{factor}.ini"))
        with open(paths[-1], "w") as file:
            file.write(re.sub(r"^own_work = 0\b", f"own_work = {factor}", text, flags=re.M))
    return paths


def json_lines(answer):
    """--json's lines without what says own_work itself."""
    rows = [json.loads(line) for line in answer[1].decode().splitlines()]
    for row in rows:
        row.pop("own_work", None)
        row.pop("variant", None)
    return rows


def check_own_work(name, program, options):
    """With own_work the hosts' measured times count, and nothing else of what runs differ in: a run that was SLOWER times as slow,
    with other numbers of everything, is answered like the first one with SLOWER for own_work."""
    once, slower = own_work_machines()
    place, other = folder(f"{name}.own"), folder(f"{name}.slower")
    files = record(place, program, [*options, "--shape-only"])
    for file in files:
        subprocess.run([REWORK, "7", os.path.join(place, file), os.path.join(other, file), str(SLOWER)], check=True)
    for question in ([], LOCKED):
        first, again = (json_lines(replay(*run, question)) for run in ((place, files, slower), (other, files, once)))
        assert first == again, (name, question, first[0], again[0])
        plain = json_lines(replay(place, files, once, question))
        assert round(SLOWER * plain[0]["own_work_ms"], 9) == round(first[0]["own_work_ms"], 9) > 0, (plain[0], first[0])
        assert plain[0]["step_ms"] < first[0]["step_ms"], (plain[0], first[0])


def main():
    check_own_work("dp4", "dp-train", ["--model", "mlp", "--gpus", "4", "--batch-per-gpu", "4"])
    check_own_work("ddp2", "ddp-train", ["--model", "mlp", "--gpus", "2", "--batch-per-gpu", "4"])
    for turn, (model, counts) in enumerate((("mlp", (1, 2, 3, 4)), ("resnet20", (2, 3)), ("gpt-nano", (2, 4)))):
        plain = ["--model", model, "--batch-per-gpu", "4"]
        check(f"{model}.single", "dp-train", [*plain, "--strategy", "single"], 1, turn)
        for gpus in counts:
            many = [*plain, "--gpus", str(gpus)]
            check(f"{model}.dp{gpus}", "dp-train", many, gpus, turn + gpus)
            check(f"{model}.p2p{gpus}", "dp-train", [*many, "--dp-transport", "p2p"], gpus, turn + gpus + 1)
            check(f"{model}.ddp{gpus}", "ddp-train", many, gpus, turn + gpus + 2)
    check("uneven", "dp-train", ["--model", "mlp", "--gpus", "3", "--global-batch", "10", "--accumulate", "2"], 3, 0)
    check("replica", "dp-train", ["--model", "mlp", "--gpus", "4", "--dp-loss", "replica"], 4, 0)


main()
