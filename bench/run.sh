#!/bin/sh
# SPDX-License-Identifier: MIT
# The main job: sets up, builds, sweeps single, dp and ddp over numbers of devices, proves that they train the same model,
# and writes CSV files, plots and report.html.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)

usage() {
    cat <<'END'
Usage: bench/run.sh [OPTION]...
Installs what is missing (apt-get, through sudo if not root), builds, and measures.

  --quick              under 3 minutes on 2 cores: 1, 2, 4 devices, few rounds
  --gpus LIST          numbers of devices (default 1,2,4,8)
  --strategies LIST    of single,dp,ddp
  --models LIST        workloads: mlp,digits,classes
  --scaling LIST       strong,weak (default strong)
  --device NAME        auto, soft, cuda
  --out DIR            results folder (default results/<time>)
  --resume             go on with the sweep in DIR (needs --out)
  --build DIR          build folder (default build-release)
  --no-install         install nothing; what is missing is named and left out
  --help
More options are handed to the sweep: build-release/bench/dpbench sweep --help
END
}

install=yes build=$root/build-release out='' resume=no
for word in "$@"; do
    [ "$word" != --help ] || { usage; exit 0; }
done
count=$#
while [ "$count" -gt 0 ]; do
    word=$1
    shift
    count=$((count - 1))
    case $word in
    --no-install) install=no; continue ;;
    --resume) resume=yes ;;
    --build | --out)
        [ "$count" -gt 0 ] || { echo "bench/run.sh: $word needs a value" >&2; exit 2; }
        [ "$word" = --out ] && out=$1 || build=$1
        shift
        count=$((count - 1))
        continue ;;
    esac
    set -- "$@" "$word"
done
if [ -z "$out" ]; then
    [ "$resume" = no ] || { echo "bench/run.sh: --resume needs --out with the folder to go on with" >&2; exit 2; }
    out=$root/results/$(date -u +%Y%m%dT%H%M%SZ)
fi

. "$root/bench/setup.sh"
# shellcheck disable=SC2086
setup_install $packages
setup_build "$build" -Dbuildtype=release || exit 3
if [ ! -x "$build/bench/dpbench" ]; then
    say "dpbench was not built: it needs cJSON (libcjson-dev)"
    exit 3
fi
say "measuring; results go to $out"
exec "$build/bench/dpbench" sweep --out "$out" --programs "$build" --plots "$root/plots" "$@"
