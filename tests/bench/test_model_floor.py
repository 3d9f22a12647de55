# SPDX-License-Identifier: MIT
"""model-floor-soft: what it says of a step adds up, and the FLOPs are the model's. No time is compared with another run's."""
import json
import math
import os
import subprocess
import sys
import tempfile


def run(*options):
    return subprocess.run([sys.argv[1], *options], capture_output=True, text=True, timeout=280, check=False)


def check(condition, *values):
    if not condition:
        print("test_model_floor: failed:", *values, file=sys.stderr)
        sys.exit(1)


def near(a, b):
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)


def read(path):
    with open(path, encoding="utf-8") as f:
        lines = [json.loads(line) for line in f]
    floors = [line for line in lines if line["type"] == "model_floor"]
    return floors, [line for line in lines if line["type"] == "floor_family"]


def check_sums(floor, families):
    products = [f for f in families if f["product"]]
    others = [f for f in families if not f["product"]]
    check(near(floor["product_flops"], sum(f["flops"] for f in products)), floor)
    check(near(floor["products_in_step_ms"], sum(f["ms"] for f in products)), floor)
    check(near(floor["other_bytes"], sum(f["bytes"] for f in others)), floor)
    check(near(floor["other_ms"], sum(f["ms"] for f in others)), floor)
    bytes_ms = floor["other_bytes"] / floor["memory_gb_s"] * 1e-6
    check(near(floor["floor_ms"], floor["products_ms"] + bytes_ms), floor)
    check(near(floor["step_ms"], floor["products_in_step_ms"] + floor["other_ms"] + floor["between_ms"]), floor)
    check(floor["products_ms"] > 0 and floor["square_gflop_s"] > 0, floor)


def check_mlp(floor, families):
    """784 - 1024 x 4 - 10: forward, weights' gradients, and inputs' but the first's; 2 FLOPs a multiplication."""
    layers = [784 * 1024, 1024 * 1024, 1024 * 1024, 1024 * 1024, 1024 * 10]
    check(near(floor["product_flops"], 2 * 128 * (3 * sum(layers) - layers[0])), floor["product_flops"])
    names = {f["name"]: f["launches"] for f in families}
    check(names.get("gemm") == 14 and names.get("sgd_momentum") == 1, names)


with tempfile.TemporaryDirectory() as folder:
    out = os.path.join(folder, "floor.json")
    done = run("--models", "mlp", "--precisions", "fp32,bf16", "--rounds", "2", "--json", out)
    check(done.returncode == 0, done.stderr)
    found, kernels = read(out)
    check([f["precision"] for f in found] == ["fp32", "bf16"], found)
    for one in found:
        of_it = [k for k in kernels if k["precision"] == one["precision"]]
        check_sums(one, of_it)
        check_mlp(one, of_it)
    check(done.stdout.count("| mlp, fp32, 128 |") == 1 and "(between launches)" in done.stdout, done.stdout)
for wrong, word in ((["--models", "mlp,mpl"], "mlp,mpl"), (["--precisions", "fp16"], "fp16"), (["--rounds", "0"], "--rounds 0"),
                    (["--rounds", "0x2"], "--rounds 0x2: expected a whole number from 1 to 1000"), (["--model", "mlp"], "--help")):
    refused = run(*wrong)
    check(refused.returncode == 2 and word in refused.stderr, wrong, refused.returncode, refused.stderr)
told = run("--help")
check(told.returncode == 0 and "--precisions NAMES" in told.stdout and not told.stderr, told)
