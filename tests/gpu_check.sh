#!/bin/sh
# SPDX-License-Identifier: MIT
# Checks a machine that has a GPU and nothing else of ours: no packages, no network. Two steps.
#
#   tests/gpu_check.sh --prepare DIR    where the project builds: collects programs for both backends in DIR (under 64 MiB)
#   DIR/gpu_check.sh --run DIR          on the machine with the GPU: needs its driver, and CUDA's runtime, cuBLAS and NCCL of
#                                       the version that DIR was built with, from a toolkit or from Python's packages
#
# The last line is "N passed, N failed, N skipped". Exit code 0; 1 if a check failed; 3 if no GPU answers.
set -u

usage() { sed -n '3,10p' "$0" | sed 's/^# \{0,1\}//'; }

# ---- prepare -----------------------------------------------------------------------------------------------------------

programs='dp-train dp-train-soft dp-train-cuda ddp-train ddp-train-soft ddp-train-cuda
    tests/kernels/kernels-test-soft tests/kernels/kernels-test-cuda
    bench/collective_perf/collective-perf-soft bench/collective_perf/collective-perf-cuda bench/gbench/floor-cuda'

# Without the libraries that the other machine lacks; for any x86-64 or Arm processor of this kind.
prepare() {
    root=$(cd "$(dirname "$0")/.." && pwd)
    . "$root/bench/setup.sh"
    build=$root/build-gpu-check
    [ "$(realpath -m -- "$1")" != "$(realpath -m -- "$build")" ] || {
        echo "gpu_check: --prepare $1: the programs are built there, expected another folder to collect them in" >&2
        exit 2
    }
    setup_build "$build" -Dbuildtype=release -Dcuda=enabled -Dnative=false -Ddnnl=disabled -Dhwloc=disabled \
        -Dcjson=disabled -Dzlib=disabled -Dgbench=disabled -Dcmocka=disabled -Dgnuplot=disabled \
        -Dcpp_link_args='-static-libstdc++ -static-libgcc' || exit 3
    mkdir -p "$1" || exit 3
    for program in $programs; do
        cp "$build/$program" "$1/" && strip "$1/${program##*/}" || exit 3
    done
    cp "$0" "$1/gpu_check.sh" || exit 3
    size=$(du -sm "$1" | cut -f1)
    echo "gpu_check: $1 holds $size MiB"
    [ "$size" -le 64 ] || { echo "gpu_check: $1 is larger than 64 MiB" >&2; exit 1; }
}

# ---- run ---------------------------------------------------------------------------------------------------------------

passed=0 failed=0 skipped=0

# check NAME COMMAND...: one check; its output is shown if it fails.
check() {
    name=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        passed=$((passed + 1))
        echo "ok       $name"
    else
        failed=$((failed + 1))
        echo "FAILED   $name (exit code $?)"
        tail -n 20 "$work/log" | sed 's/^/         /'
    fi
}

skip() {
    skipped=$((skipped + 1))
    echo "not run  $1: $2"
}

# Folders of CUDA's libraries: a toolkit's, and those of Python's packages.
library_folders() {
    for folder in "${CUDA_HOME:-/usr/local/cuda}/lib64" /usr/local/cuda*/lib64; do
        [ -d "$folder" ] && printf '%s:' "$folder"
    done
    command -v python3 >/dev/null 2>&1 && python3 - <<'END'
import glob, sys
print(":".join(f for p in sys.path if p for f in sorted(glob.glob(p + "/nvidia/*/lib"))), end="")
END
}

missing_libraries() { ldd "$here/dp-train-cuda" | awk '/not found/ {print $1}' | sort -u | tr '\n' ' '; }

last_number() { sed -n "s/.*\"$1\": *\"\{0,1\}\([^\",}]*\).*/\1/p" "$2" | tail -n 1; }

# The mlp on the GPU: it ends well, and its loss falls.
train() {
    name=$1
    shift
    falls "$name" "$@" --device cuda --data digits --width 256 --depth 2 --global-batch 128 --lr 0.05 --steps 60 --warmup 3
}

# Another model, in a precision: the same.
train_model() { falls "$1-$2" "$here/dp-train" --strategy single --model "$1" --precision "$2" --device cuda $model_settings; }

model_settings='--global-batch 16 --lr 0.01 --steps 10 --warmup 2'

# falls NAME COMMAND...: the loss does.
falls() {
    json=$work/$1.json
    shift
    "$@" --checksum --json "$json" || return 1
    awk -v first="$(last_number loss_first "$json")" -v last="$(last_number loss_last "$json")" \
        'BEGIN { print "loss", first, "->", last; exit !(first > 0 && last > 0 && last < first) }'
}

# The first loss, before which two updates lie, is that of plain loops on the CPU within 1 part in 200: 16 bits have 2 to 3 digits.
same_loss_as_soft() {
    "$here/dp-train-soft" --strategy single --model "$1" --precision "$2" $model_settings --json "$work/soft.json" || return 1
    awk -v gpu="$(last_number loss_first "$work/$1-$2.json")" -v cpu="$(last_number loss_first "$work/soft.json")" \
        'BEGIN { print "loss", gpu, "on the GPU,", cpu, "on the CPU"; d = gpu - cpu; exit !(gpu > 0 && d < cpu / 200 && -d < cpu / 200) }'
}

# DP and DDP on one device are the single trainer: the same bits after the verification's steps.
same_checksum() {
    one=$(last_number checksum "$work/single.json")
    [ -n "$one" ] && [ "$one" = "$(last_number checksum "$work/$1.json")" ]
}

run() {
    here=$(cd "$1" && pwd) || exit 3
    work=$(mktemp -d) || exit 3
    trap 'rm -rf "$work"' EXIT
    export LD_LIBRARY_PATH="$(library_folders)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    lacking=$(missing_libraries)
    if [ -n "$lacking" ]; then
        echo "gpu_check: this machine lacks $lacking(looked in $LD_LIBRARY_PATH)" >&2
        exit 3
    fi
    if ! devices=$("$here/dp-train-cuda" --device-count); then
        echo "gpu_check: no CUDA device answers: nothing was checked" >&2
        exit 3
    fi
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null
    echo "CUDA devices: $devices"
    check "kernels on the CPU against references in double" "$here/kernels-test-soft" --dump "$work/kernels"
    check "kernels on the GPU against references in double" "$here/kernels-test-cuda"
    check "kernels, GPU against CPU" "$here/kernels-test-cuda" --compare "$work/kernels"
    check "the mlp's products and update" "$here/floor-cuda"
    [ ! -s "$work/log" ] || sed 's/^/         /' "$work/log"
    check "single, 1 GPU" train single "$here/dp-train" --strategy single --gpus 1
    check "dp, 1 GPU" train dp "$here/dp-train" --strategy dp --gpus 1
    check "dp, 1 GPU, copies between peers" train dp-p2p "$here/dp-train" --strategy dp --gpus 1 --dp-transport p2p
    check "ddp, 1 GPU" train ddp "$here/ddp-train" --gpus 1
    for strategy in dp dp-p2p ddp; do
        check "$strategy = single, bit for bit" same_checksum "$strategy"
    done
    for model in resnet20 gpt-nano lstm-tiny; do
        for precision in fp32 bf16 fp16; do
            check "$model, $precision, 1 GPU" train_model "$model" "$precision"
            check "$model, $precision: first loss as on the CPU" same_loss_as_soft "$model" "$precision"
        done
    done
    for operation in all_reduce broadcast reduce all_gather reduce_scatter; do
        check "$operation, 1 rank" "$here/collective-perf-cuda" "$operation" --ranks 1 --mode threads --device cuda \
            -b 1K -e 16M -f 16 -n 5
    done
    if [ "$devices" -lt 2 ]; then
        skip "dp, ddp and collectives with N > 1" "$devices GPU (NCCL refuses two ranks on one device)"
    else
        check "dp, 2 GPUs" train dp2 "$here/dp-train" --strategy dp --gpus 2
        check "ddp, 2 GPUs" train ddp2 "$here/ddp-train" --gpus 2
        check "all_reduce, 2 ranks" "$here/collective-perf-cuda" all_reduce --ranks 2 --mode threads --device cuda -b 1K \
            -e 16M -f 16 -n 5
    fi
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ]
}

case ${1:-}:$# in
--prepare:2) prepare "$2" ;;
--run:2) run "$2" ;;
--help:1) usage ;;
*) usage >&2; exit 2 ;;
esac
