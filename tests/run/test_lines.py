# SPDX-License-Identifier: MIT
"""What dp-train writes: JSON lines, phases, bytes and memory of a run, the trace.

    test_lines.py DP_TRAIN_SOFT DP_TRAIN: program.py
"""
import json
import math
import os

from program import SMALL, check, run, run_tests, train

PHASES = ["scatter", "replicate", "forward", "gather", "loss", "backward", "reduce", "allreduce_exposed", "update", "host", "wait"]


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


run_tests(globals())
