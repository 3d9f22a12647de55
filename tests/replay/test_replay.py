# SPDX-License-Identifier: MIT
"""replay from the trainers' own records: test_replay.py PROGRAMS REPLAY COLUMNS_H MACHINES

The same answer for every order of the files and every run; bytes as the trainers' ledger counts them; damaged files and
wrong questions; rows with dpbench's columns; equal steps, however many there are."""
import json
import os
import re
import subprocess
import sys
import tempfile

PROGRAMS, REPLAY, COLUMNS_H, MACHINES = sys.argv[1:5]
FOLDER = tempfile.TemporaryDirectory()
SMALL = ["--model", "mlp", "--device", "soft", "--shape-only", "--width", "64", "--depth", "3", "--warmup", "2"]


def path(name):
    return os.path.join(FOLDER.name, name)


def record(program, name, *options):
    command = [os.path.join(PROGRAMS, program), *SMALL, *options, "--record", path(name), "--json", path(name + ".json")]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(path(name + ".json")) as lines:
        return [json.loads(line) for line in lines][-1]


def replay(*arguments, code=0):
    done = subprocess.run([REPLAY, *arguments], capture_output=True, text=True)
    assert done.returncode == code, (arguments, done.returncode, done.stderr)
    return done.stdout if code == 0 else done.stderr


def answer(*arguments):
    """The first line of --json."""
    replay(*arguments, "--json", path("out.json"))
    with open(path("out.json")) as lines:
        return json.loads(lines.readline())


def check_order_and_repetition():
    files = [path(f"ddp.{rank}") for rank in range(4)]
    outputs = set()
    for order in (files, files[::-1], files[2:] + files[:2]):
        text = replay(*order, "--machine", "a100x8", "--json", path("o.json"), "--trace", path("o.trace"))
        with open(path("o.json")) as one, open(path("o.trace")) as two:
            outputs.add(text + one.read() + two.read())
    assert len(outputs) == 1
    with open(path("o.trace")) as trace:
        events = json.load(trace)["traceEvents"]
    assert any(event.get("cat") == "allreduce_exposed" for event in events)


def check_bytes(dp, p2p, ddp):
    """Bytes between devices, a step: the ledger's, to the byte."""
    for summary, files in ((dp, ["dp"]), (p2p, ["p2p"]), (ddp, [f"ddp.{rank}" for rank in range(4)])):
        played = answer(*[path(name) for name in files], "--machine", "a100x8")
        assert abs(played["comm_mib"] - summary["comm_mib"]) < 1e-6 * summary["comm_mib"], (files, played, summary)
        with open(path("out.json")) as lines:
            rows = [json.loads(line) for line in lines]
        links = sum(row["bytes"] for row in rows if row["type"] == "link" and -1 not in (row["from"], row["to"])
                    and row["from"] != row["to"])
        assert abs(links / 3 / 2**20 - summary["comm_mib"]) < 1e-6 * summary["comm_mib"], (files, links)


def check_busiest_pair():
    """One pair's bytes, and called so: results.csv's measured column is a device's."""
    played = answer(path("dp"), "--machine", "a100x8")
    with open(path("out.json")) as lines:
        links = [row for row in map(json.loads, lines) if row["type"] == "link"]
    most = max(row["bytes"] for row in links if -1 not in (row["from"], row["to"]) and row["from"] != row["to"])
    assert abs(most / 3 / 2**20 - played["busiest_link_mib"]) < 1e-6 * played["busiest_link_mib"], (most, played)
    assert re.search(r"^busiest pair   \d to \d: [\d.]+ MiB a step$", replay(path("dp"), "--machine", "a100x8"), re.MULTILINE)
    assert "busiest pair   none: no bytes" in replay(path("single"), "--machine", "a100x8")


def check_breakdown():
    for files in (["dp"], ["p2p"], [f"ddp.{rank}" for rank in range(4)]):
        played = answer(*[path(name) for name in files], "--machine", "pcie4x4")
        phases = [played[key] for key in played if key.endswith("_ms") and key[:-3] in PHASES]
        assert len(phases) == 11 and abs(sum(phases) - played["step_ms"]) < 1e-6, played


PHASES = ["scatter", "replicate", "forward", "gather", "loss", "backward", "reduce", "allreduce_exposed", "update", "host",
          "wait"]


def check_what_if():
    files = [path(f"ddp.{rank}") for rank in range(4)]
    plain = answer(*files, "--machine", "a100x8")
    assert answer(*files, "--machine", "a100x8", "--bucket-cap-mb", "25")["step_ms"] == plain["step_ms"]
    assert answer(*files, "--machine", "a100x8", "--bandwidth", "0.1")["step_ms"] > plain["step_ms"]
    assert answer(*files, "--machine", "a100x8", "--compute", "0.1")["step_ms"] > plain["step_ms"]
    assert answer(*files, "--machine", "a100x8", "--no-p2p")["step_ms"] >= plain["step_ms"]
    copies = answer(path("p2p"), "--machine", "a100x8")["step_ms"]
    assert answer(path("p2p"), "--machine", "a100x8", "--no-p2p")["step_ms"] > copies
    again, many = (answer(files[1], "--machine", "a100x8", "--gpus", gpus) for gpus in ("4", "8"))
    assert again["step_ms"] == plain["step_ms"] and again["global_batch"] == plain["global_batch"], (again, plain)
    assert many["global_batch"] == 2 * plain["global_batch"] and many["batch_per_gpu"] == plain["batch_per_gpu"], (many, plain)
    assert abs(many["samples_per_s"] * many["step_ms"] / 1e3 - many["global_batch"]) < 1e-6, many
    assert answer(files[0], "--machine", "h100x8x8", "--gpus", "64")["step_ms"] > plain["step_ms"]
    slow = answer(path("p2p"), "--machine", "pcie4x4", "--launch-lock", "50")
    assert "launch_lock_us=50" in slow["variant"] and "lock" in slow["bottleneck"]
    assert slow["step_ms"] > answer(path("p2p"), "--machine", "pcie4x4")["step_ms"]


def check_buckets(*mode):
    """Other buckets in the replay are what DDP does with other buckets; the last cap is what a layer's two tensors have, to the byte."""
    caps = ("25", "4", "9", str((1024 + 1024 * 1024) * 4 / 2**20))
    for cap in caps:
        record("ddp-train", "wide" + cap, "--gpus", "2", "--steps", "2", "--width", "1024", "--bucket-cap-mb", cap, *mode)
    steps = set()
    for cap in caps:
        done = answer(path(f"wide{cap}.0"), path(f"wide{cap}.1"), "--machine", "pcie4x4")
        made = answer(path("wide25.0"), path("wide25.1"), "--machine", "pcie4x4", "--bucket-cap-mb", cap)
        for key in ("step_ms", "backward_ms", "allreduce_exposed_ms", "comm_hidden_ms", "comm_mib"):
            assert made[key] == done[key], (cap, key, made[key], done[key])
        steps.add(done["step_ms"])
    assert len(steps) > 1, steps
    # a model with buffers: their broadcasts are collectives too, and stay
    record("ddp-train", "buffers", "--gpus", "2", "--steps", "2", "--model", "resnet20")
    files = [path("buffers.0"), path("buffers.1")]
    plain, made = answer(*files, "--machine", "a100x8"), answer(*files, "--machine", "a100x8", "--bucket-cap-mb", "25")
    for key in plain:
        assert key == "variant" or plain[key] == made[key], (key, plain[key], made[key])


def check_refusals():
    files = [path(f"ddp.{rank}") for rank in range(4)]
    assert "give all ranks' records" in replay(*files[:3], "--machine", "a100x8", code=4)
    assert "as is" in replay(files[0], files[0], "--machine", "a100x8", code=4)
    assert "did you mean --bandwidth" in replay(files[0], "--bandwith", "2", code=2)
    for number in "fast", "0x1p3", "inf", "nan", "-1", "1e999", "":
        assert "a number from" in replay(files[0], "--machine", "a100x8", "--bandwidth", number, code=2)
    assert "expected a machine" in replay(*files, "--machine", "titan2-nvlink", code=2)
    assert "a rank of DDP" in replay(path("dp"), "--machine", "a100x8", "--gpus", "8", code=2)
    assert "DDP with overlap" in replay(path("dp"), "--machine", "a100x8", "--bucket-cap-mb", "1", code=2)
    record("ddp-train", "plain", "--gpus", "2", "--steps", "2", "--no-overlap")
    assert "no_overlap" in replay(path("plain.0"), path("plain.1"), "--machine", "a100x8", "--bucket-cap-mb", "1", code=2)
    replay(files[0], "--machine", "no-such-machine", code=2)
    for option in ("--trace", "--csv", "--json"):
        assert "a file's name" in replay(*files, "--machine", "a100x8", option, "", code=2)
    assert "from 1 to 4096" in replay(files[0], "--machine", "a100x8", "--gpus", "0", code=2)
    with open(files[0], "rb") as whole, open(path("cut"), "wb") as cut:
        cut.write(whole.read()[:-100])
    assert "the file is cut" in replay(path("cut"), "--machine", "a100x8", code=4)


def check_failed_runs():
    """The record of a run that failed is refused, and so are ranks of different lengths."""
    command = [os.path.join(PROGRAMS, "dp-train"), *SMALL, "--gpus", "4", "--steps", "3", "--record", path("failed")]
    for step in (1, 3): # in the warm-up, in the second timed step
        failed = subprocess.run(command, capture_output=True, env=dict(os.environ, DPBENCH_FAULT=f"dp-thread:2:step{step}"))
        assert failed.returncode == 1, failed.stderr
        assert "exit_code is 1, expected 0" in replay(path("failed"), "--machine", "a100x8", code=4)
    for steps in (2, 3):
        record("ddp-train", f"length{steps}", "--gpus", "2", "--steps", str(steps))
    assert "has 3 timed steps, expected 2" in replay(path("length2.0"), path("length3.1"), "--machine", "a100x8", code=4)


def check_rows():
    with open(COLUMNS_H) as source:
        columns = re.findall(r'"(\w+)"', re.search(r"#define RESULTS_COLUMNS(.*?)/\*", source.read(), re.S).group(1))
    for machine in ("a100x8", "pcie4x4"):
        replay(path("p2p"), "--machine", machine, "--csv", path("rows.csv"))
    with open(path("rows.csv"), newline="") as rows:
        lines = rows.read().split("\r\n")
    assert lines[0].split(",") == columns, (lines[0], columns)
    cells = dict(zip(columns, lines[2].split(",")))
    assert len(lines) == 4 and cells["clock"] == "modelled" and cells["machine"] == "pcie4x4", lines
    assert cells["strategy"] == "dp" and cells["gpus"] == "4" and cells["loss_last"] == "" and cells["run"] == ""


def check_memory():
    """What the record's devices held; a machine whose devices have less is said not to do."""
    with open(os.path.join(MACHINES, "a100x8.ini")) as file, open(path("small.ini"), "w") as small:
        small.write(re.sub(r"^memory_mib = \d+", "memory_mib = 1", file.read(), flags=re.M))
    for machine, status in (("a100x8", "ok"), (path("small.ini"), "memory")):
        played = answer(path("dp"), "--machine", machine)
        mean = (played["mem_device0_mib"] + 3 * played["mem_median_others_mib"]) / 4 # the others are alike
        assert played["status"] == status, played
        assert played["mem_peak_mib"] == played["mem_device0_mib"] > played["mem_median_others_mib"] > 0, played
        assert abs(played["mem_imbalance"] * mean / played["mem_peak_mib"] - 1) < 1e-9, played
        assert ("does not fit" in replay(path("dp"), "--machine", machine)) == (status == "memory")


def check_own_work():
    """A machine with own_work says in every output that its times rest on the record's; one without says nothing."""
    with open(os.path.join(MACHINES, "a100x8.ini")) as file, open(path("own.ini"), "w") as own:
        own.write(re.sub(r"^own_work = 0\b", "own_work = 0.5", file.read(), flags=re.M))
    for machine, factor, said in (("a100x8", 0, False), (path("own.ini"), 0.5, True)):
        played = answer(path("p2p"), "--machine", machine)
        assert played["own_work"] == factor and ("own_work=0.5" in played["variant"]) == said, played
        assert played["own_work_ms"] > 0 if said else played["own_work_ms"] is None, played
        text = replay(path("p2p"), "--machine", machine, "--csv", path("own.csv"))
        assert ("times measured in the record" in text) == said, text
    with open(path("own.csv"), newline="") as rows:
        assert ["own_work=0.5" in line for line in rows.read().split("\r\n")] == [False, False, True, False]


def check_growth():
    """What a step takes does not depend on how many there are."""
    counts = []
    for steps in (4, 8, 16):
        record("dp-train", "grow", "--gpus", "4", "--steps", str(steps))
        replay(path("grow"), "--machine", "a100x8", "--json", path("grow.out"))
        with open(path("grow.out")) as lines:
            rows = [json.loads(line) for line in lines]
        counts.append(sum(row["type"] == "step" for row in rows))
        assert len({row["ps"] for row in rows if row["type"] == "step"}) == 1, rows
    assert counts == [4, 8, 16]


def main():
    dp = record("dp-train", "dp", "--gpus", "4", "--steps", "3")
    p2p = record("dp-train", "p2p", "--gpus", "4", "--steps", "3", "--dp-transport", "p2p")
    ddp = record("ddp-train", "ddp", "--gpus", "4", "--steps", "3")
    record("dp-train", "single", "--strategy", "single", "--steps", "2")
    check_order_and_repetition()
    check_bytes(dp, p2p, ddp)
    check_busiest_pair()
    check_breakdown()
    check_what_if()
    check_buckets()
    check_buckets("--gradient-as-bucket-view")
    check_refusals()
    check_failed_runs()
    check_rows()
    check_memory()
    check_own_work()
    check_growth()


main()
