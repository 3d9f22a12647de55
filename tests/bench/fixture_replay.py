#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Stands in for replay in the tests of the modelled band: step times that follow from the cell alone.

FIXTURE_REPLAY=WHAT makes it go wrong: fail (exit 3), hang, other (answers for another machine), cut (its JSON), trace (which is cut),
memory (does not fit). FIXTURE_REPLAY=close: DP's step is 1.05 times DDP's.
"""
import json, os, re, sys, time


def main():
    words = sys.argv[1:]
    value = lambda name, default=None: words[words.index(name) + 1] if name in words else default
    fault = os.environ.get("FIXTURE_REPLAY", "")
    with open(words[0], encoding="utf-8") as f:
        f.read()
    model, strategy, gpus = re.search(r"modelled-(.*)-(single|dp|ddp)-(\d+)\.rec", words[0]).groups()
    if fault == "fail":
        sys.exit("replay: fixture: broken")
    if fault == "hang":
        time.sleep(3600)
    n, lock = int(value("--gpus", gpus)), value("--launch-lock")
    assert strategy != "ddp" or int(gpus) == min(n, 2)
    batch = {"classes": 64, "gpt2-124m": 4, "resnet50": 32}[model] * n
    variant = ("width=256;depth=1;classes=32768;" if model == "classes" else "") + "device_memory=81920"
    phases = {"forward_ms": 30, "loss_ms": 1, "backward_ms": 60, "update_ms": 2, "gather_ms": 0, "allreduce_exposed_ms": 0}
    if strategy == "dp":
        phases["gather_ms"] = 20 * (n - 1) + (50 if lock else 0) if fault != "close" else 12
    elif n > 1:
        phases["allreduce_exposed_ms"] = 7
    step = sum(phases.values())
    line = {"type": "modelled", "schema": "1", "backend": "soft", "clock": "modelled",
            "machine": value("--machine") if fault != "other" else "elsewhere", "strategy": strategy,
            "variant": variant + (";launch_lock_us=" + lock if lock else ""), "model": "mlp" if model == "classes" else model,
            "precision": "fp32", "optimizer": "sgd", "data": "synthetic", "params": "1", "gpus": n, "global_batch": batch,
            "batch_per_gpu": batch // n, "steps": 2, "step_ms": step, "samples_per_s": batch / step * 1e3, **phases,
            "mem_device0_mib": 1000, "mem_median_others_mib": 500 if n > 1 else None, "comm_source": "modelled", "equal": "na",
            "oversubscribed": "no", "status": "memory" if fault == "memory" else "ok", "exposed_ms": 7, "collective_ms": 9,
            "alpha_beta_step_ms": step * 1.1, "bottleneck": "computing on device 0 (90 % of the time)"}
    lines = [line] + [{"type": "step", "step": k, "ps": int(step * 1e9)} for k in range(2)]
    lines += [{"type": "device", "device": d, "busy_ps": 9, "idle_ps": 1, "collective_ps": 2, "sent_bytes": 2 << 20,
               "received_bytes": 4 << 20} for d in range(n)]
    text = "".join(json.dumps(l) + "\n" for l in lines)
    with open(value("--json"), "w", encoding="utf-8") as f:
        f.write(text[:-9] if fault == "cut" else text)
    if not value("--trace"):
        return
    span = lambda d, lane, phase, begin, end: {"ph": "X", "name": "k", "pid": d, "tid": lane, "ts": begin * 1e3,
                                               "dur": (end - begin) * 1e3, **({"cat": phase} if phase else {})}
    events = [{"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "device 0 (modelled)"}}]
    for d in range(n):
        events += [span(d, 1, "forward", 0, 15), span(d, 1, "forward", 15.01, 30), span(d, 1, "backward", 31, 91),
                   span(d, 1, "forward", step + 1, step + 16)]
        if strategy == "ddp":
            events += [span(d, 3, "allreduce_exposed", 40, 50), span(d, 3, "allreduce_exposed", 50, 60), span(d, 1, None, 92, 93)]
    events += [span(100000, 1, "forward", 0, 15)]
    text = json.dumps({"displayTimeUnit": "ns", "traceEvents": events})
    with open(value("--trace"), "w", encoding="utf-8") as f:
        f.write(text[:-9] if fault == "trace" else text)


main()
