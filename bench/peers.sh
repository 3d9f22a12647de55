#!/bin/sh
# SPDX-License-Identifier: MIT
# Ours and other programs for the same work in turn, in one run on one machine: prints ratios, writes results/peers.json.
# What is not installed is named and left out. bench/peers.py says what is compared.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build-release install=yes
set -- "$@" --end
while [ "$1" != --end ]; do
    case $1 in
    --build)
        [ "$2" != --end ] || { echo "bench/peers.sh: --build needs a value" >&2; exit 2; }
        build=$2
        shift 2 ;;
    --no-install) install=no; shift ;;
    --help) exec python3 "$root/bench/peers.py" --help ;;
    *)
        word=$1
        shift
        set -- "$@" "$word" ;;
    esac
done
shift

if command -v python3 >/dev/null 2>&1; then
    python3 "$root/bench/peers.py" --check "$@" || exit
fi
. "$root/bench/setup.sh"
# shellcheck disable=SC2086
setup_install $packages
setup_build "$build" -Dbuildtype=release || exit 3
exec python3 "$root/bench/peers.py" --build "$build" --root "$root" "$@"
