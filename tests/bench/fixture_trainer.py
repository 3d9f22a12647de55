#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Stands in for dp-train and ddp-train in the tests of the sweep: writes the JSON lines of docs/output.md with numbers that
follow from the options alone, so a sweep over it is the same on every machine and takes no time.

FIXTURE_FAULT="STRATEGY:GPUS:WHAT" (dp+ddp: both; GPUS *: any, all: DDP without overlap too) makes a cell go wrong: hang, exit3, killed, cut (the last line is cut), bits
(another checksum), drift (another checksum in round 1), gradient (beyond tolerance), nan (in a gradient), ledger (says failed),
orphan (a child is left behind), other (other options than asked for), noisy (round 0 is half as fast, round 1 twice), slow, unsteady
(every other step takes twice as long). FIXTURE_LOG names a file that gets a line a
run. FIXTURE_SLEEP: seconds a run takes. FIXTURE_CUDA and FIXTURE_SOFT: how many devices of each kind answer (0 and 64).
"""
import json, os, signal, struct, subprocess, sys, time

MIB = 1 << 20


def parse(argv):
    options = {"strategy": "ddp" if "ddp-train" in argv[0] else "dp", "width": 1024, "depth": 4, "classes": 10}
    i = 1
    while i < len(argv):
        name = argv[i][2:].replace("-", "_")
        if name in ("checksum", "no_overlap", "shape_only", "find_batch"):
            options[name] = True
            i += 1
        else:
            value = argv[i + 1]
            options[name] = int(value) if value.isdigit() else value
            i += 2
    return options


def checksum(h, data):
    """common/sys/checksum.c"""
    whole = len(data) // 8 * 8
    for word in [int.from_bytes(data[i:i + 8], "little") for i in range(0, whole, 8)] + list(data[whole:]):
        h = (h ^ word) * 0x100000001b3 % (1 << 64)
        h ^= h >> 32
    return h


def save_gradients(path, values):
    """Two small tensors as data/tensors.h wants them, the checksum over the whole file with zeros in its place."""
    data = struct.pack("<%df" % len(values), *values)
    head = ('{"__metadata__":{"checksum":"%s"},"net.0.weight":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},'
            '"net.0.bias":{"dtype":"F32","shape":[2],"data_offsets":[16,24]}}')
    size = -(-(8 + len(head % ("0" * 16))) // 64) * 64 - 8
    text = (head % ("0" * 16)).encode().ljust(size)
    whole = struct.pack("<Q", len(text)) + text + data
    at = 8 + head.index("%s")
    total = checksum(checksum(checksum(0xcbf29ce484222325, whole[:at]), whole[at:at + 16]), whole[at + 16:])
    text = (head % ("%016x" % total)).encode().ljust(size)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def main():
    if sys.argv[-1] == "--device-count":
        kind = sys.argv[-2]
        count = os.environ.get("FIXTURE_" + kind.upper(), "0" if kind == "cuda" else "64")
        print(count if int(count) else "fixture: no driver")
        sys.exit(0 if int(count) else 3)
    o = parse(sys.argv)
    n, batch, strategy = o["gpus"], o.get("global_batch", o["gpus"]), o["strategy"]
    inputs = 64 if o["data"] == "digits" else 784
    params = (inputs + 1) * o["width"] + (o["depth"] - 1) * (o["width"] + 1) * o["width"] + (o["width"] + 1) * o["classes"]
    params = {"mlp": params, "resnet20": 272474, "gpt-nano": 842496, "gpt2-124m": 124475904, "resnet50": 25557032}[o["model"]]
    p, out = params * 4, batch * o["classes"] * 4
    fault = os.environ.get("FIXTURE_FAULT", "").split(":")
    mine = len(fault) == 3 and strategy in fault[0].split("+") and (
        fault[1] == "all" or fault[1] in (str(n), "*") and not o.get("no_overlap"))
    fault = fault[2] if mine else ""
    if os.environ.get("FIXTURE_LOG"):
        with open(os.environ["FIXTURE_LOG"], "a") as f:
            f.write("%s %s %d %s\n" % (strategy, o["data"], n, "apart" if o.get("no_overlap") else ""))
    time.sleep(float(os.environ.get("FIXTURE_SLEEP", "0")))
    if fault == "hang":
        time.sleep(3600)
    if fault == "exit3":
        sys.exit("fixture: no device")
    if fault == "killed":
        os.kill(os.getpid(), signal.SIGSEGV)

    if o.get("record"):  # what fixture_replay.py would read; a rank of DDP has a file of its own
        for suffix in (".%d" % rank for rank in range(n)) if strategy == "ddp" and n > 1 else ("",):
            with open(o["record"] + suffix, "w") as f:
                f.write("record\n")
        return

    if o.get("find_batch"):
        b = 17 if strategy == "dp" else 51
        names = ("parameters", "gradients", "optimizer", "activations", "outputs", "communication", "data")
        with open(o["json"], "w") as f:
            f.write(json.dumps({"type": "find_batch", "batch_per_gpu": b, "global_batch": b * n, "device_bytes": o["device_memory"] * MIB,
                                "fullest_device": 0, "total_bytes": 7 * b * MIB, **{k + "_bytes": b * MIB for k in names}}) + "\n")
        return

    compute = 40.0 * batch / 128 / n * params / 3960000
    update = 4.0 * params / 3960000
    phases = {"scatter": 0, "replicate": 0, "forward": compute / 3, "gather": 0, "loss": .1, "backward": compute * 2 / 3,
              "reduce": 0, "allreduce_exposed": 0, "update": update, "host": .2, "wait": 0}
    formula, traffic = {}, []
    if strategy == "dp" and n > 1:
        phases.update(scatter=.2, replicate=2.0 * (n - 1), gather=.1, reduce=2.5 * (n - 1))
        formula = {"replicate": (n - 1) * p, "gather": out * (n - 1) // n, "loss": out * (n - 1) // n, "reduce": (n - 1) * p}
        for i in range(1, n):
            traffic += [("replicate", 0, i, p), ("gather", i, 0, out // n), ("loss", 0, i, out // n), ("reduce", i, 0, p)]
    if strategy == "ddp" and n > 1:
        phases.update(allreduce_exposed=1.0 if not o.get("no_overlap") else 4.0)
        formula = {"allreduce_exposed": 2 * (n - 1) * p}
        traffic = [("allreduce_exposed", i, (i + 1) % n, 2 * (n - 1) * p // n) for i in range(n)]
    if fault == "noisy":
        phases = {name: ms * (2 if ".r0." in o["json"] else .5) for name, ms in phases.items()}
    if fault == "slow":
        phases["forward"] *= 9
    step = sum(phases.values())
    total = sum(b for _, _, _, b in traffic)
    sent = [sum(b for _, f, t, b in traffic if f == d) for d in range(n)]
    received = [sum(b for _, f, t, b in traffic if t == d) for d in range(n)]

    devices = []
    for d in range(n):
        first = strategy != "dp" or d == 0
        memory = {"parameters": p, "gradients": p, "optimizer": p if first else 0, "activations": batch // n * 4 * 1024 * 4,
                  "outputs": 2 * out // n + (2 * out if strategy == "dp" and n > 1 and d == 0 else 0),
                  "communication": p if strategy == "ddp" and n > 1 else 0, "data": batch // n * inputs * 4}
        devices.append({"type": "device", "device": d, "rank": d if strategy == "ddp" else 0, "cores": str(d),
                        **{"mem_%s_mib" % k: v / MIB for k, v in memory.items()},
                        "mem_peak_mib": sum(memory.values()) / MIB, "util": .9 if first else .6, "busy_ms": .9 * step,
                        "sent_mib": sent[d] / MIB, "received_mib": received[d] / MIB})
    peaks = [d["mem_peak_mib"] for d in devices]
    others = sorted(peaks[1:])
    power_of_two = n & (n - 1) == 0 and batch % n == 0
    bits = "0123456789abcde%x" % (n if power_of_two else n + (strategy == "ddp"))
    gradients = [.5, -1., .25, 2., .125, .75]
    if fault == "orphan":
        subprocess.Popen(["sleep", "3599.25"])
    if fault == "bits" or (fault == "drift" and ".r1." in o["json"]):
        bits = "f" + bits[1:]
    if fault == "gradient":
        gradients[1] *= 1 + 1e-4
    if fault == "nan":
        gradients[4] = float("nan")
    if o.get("save_gradients"):
        save_gradients(o["save_gradients"], gradients)

    variant = ["%s=%s" % (k, o[k]) for k, d in (("width", 1024), ("depth", 4), ("classes", 10), ("lr", 0), ("device_memory", 0)) if o.get(k, d) != d]
    variant += ["no_overlap=1"] if o.get("no_overlap") else []
    common = {"strategy": strategy, "variant": ";".join(variant) if fault != "other" else "depth=9", "model": o["model"], "data": o["data"], "gpus": n, "global_batch": batch,
              "batch_per_gpu": -(-batch // n), "accumulate": 1, "precision": "fp32", "optimizer": "sgd", "params": params,
              "cores_per_device": o.get("cores_per_device", 1), "backend": "soft", "device": "soft GPU (fixture)", "host": "fixture"}
    lines = [{"type": "header", "program": "fixture", "version": "0", "time": "2024-01-01T00:00:00Z", "seed": o["seed"], **common}]
    lines += [{"type": "step", "step": k, "ms": step * (1 + (.5 if fault == "unsteady" else .01) * (k % 3 - 1)), "loss": 2.3 - .01 * k} for k in range(o["steps"])]
    lines += devices
    lines += [{"type": "traffic", "phase": f, "from": a, "to": b, "mib": c / MIB, "bytes": c} for f, a, b, c in traffic]
    lines += [{"type": "formula", "phase": f, "counted": b, "formula": b} for f, b in formula.items()]
    summary = {"type": "summary", **common, "steps": o["steps"], "step_ms": step, "step_ms_mad": .01 * step, "step_ms_p95": 1.01 * step,
               "samples_per_s": batch / step * 1e3, **{k + "_ms": v for k, v in phases.items()}, "comm_hidden_ms": None,
               "mem_peak_mib": max(peaks), "mem_device0_mib": peaks[0],
               "mem_median_others_mib": others[len(others) // 2] if others else None,
               "mem_imbalance": max(peaks) / (sum(peaks) / n), "util_mean": .8, "util_device0": .9,
               "comm_mib": total / MIB if n > 1 else None, "comm_mib_formula": sum(formula.values()) / MIB if n > 1 else None,
               "busiest_link_mib": max(sent + received) / MIB if n > 1 else None, "comm_source": "counted", "loss_first": 2.3,
               "loss_last": 2.1, "checksum": bits, "oversubscribed": False, "status": "ok", "reason": None}
    if o.get("shape_only"):
        for line in lines + [summary]:
            line.update({k: None for k in line if k in ("ms", "loss", "samples_per_s", "checksum") or k.endswith("_ms") or "loss_" in k})
    if o["data"] == "digits":
        summary.update(test_samples=360, test_correct=350, test_accuracy=350 / 360)
    if fault == "ledger":
        summary.update(status="failed", reason="replicate: counted 1, formula 2")
    lines.append(summary)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    with open(o["json"], "w") as f:
        f.write(text[:-40] if fault == "cut" else text)
    sys.exit(1 if fault in ("ledger", "cut") else 0)


main()
