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

  --quick              under 4 minutes on 2 cores: 1, 2, 4 devices, few rounds
  --gpus LIST          numbers of devices (default 1,2,4,8)
  --strategies LIST    of single,dp,ddp
  --models LIST        workloads: mlp,digits,classes,resnet20,gpt-nano,gpt2-124m,resnet50
  --scaling LIST       strong,weak (default strong)
  --device NAME        auto, soft, cuda
  --out DIR            results folder (default results/<time>, in UTC)
  --resume             go on with the sweep in DIR (needs --out)
  --build DIR          build folder (default build-release)
  --no-install         install nothing; what is missing is named and left out
  --help
More options are handed to the sweep: build-release/bench/dpbench sweep --help
END
}

fail() {
    echo "bench/run.sh: $*" >&2
    exit 2
}

# What dpbench takes (tests/bench compares the two lists): a mistyped word is found before anything is installed or built.
names="quick gpus strategies models scaling rounds steps device cores out results resume run-timeout programs plots build no-install help"

# The name that is the fewest letters put in, left out, replaced or swapped away; none if that is half of the word.
nearest() {
    echo "$names" | tr ' ' '\n' | awk -v typed="$1" '
        function least(a, b) { return a < b ? a : b }
        function letter(text, i) { return substr(text, i, 1) }
        function distance(a, b,    i, j, d) {
            for (i = 0; i <= length(a); i++)
                for (j = 0; j <= length(b); j++) {
                    d[i, j] = i * j == 0 ? i + j : least(least(d[i - 1, j], d[i, j - 1]) + 1, \
                                                         d[i - 1, j - 1] + (letter(a, i) != letter(b, j)))
                    if (i > 1 && j > 1 && letter(a, i) == letter(b, j - 1) && letter(a, i - 1) == letter(b, j))
                        d[i, j] = least(d[i, j], d[i - 2, j - 2] + 1)
                }
            return d[length(a), length(b)]
        }
        { d = distance(typed, $0); if (NR == 1 || d < best) { best = d; name = $0 } }
        END { if (2 * best < length(typed)) print name }'
}

check_name() {
    for name in $names; do
        [ "$name" != "$1" ] || return 0
    done
    near=$(nearest "$1")
    [ -z "$near" ] || fail "--$1 is no option: did you mean --$near?"
    fail "--$1 is no option: --help lists them"
}

install=yes build=$root/build-release out='' resume=no
for word in "$@"; do
    [ "$word" != --help ] || { usage; exit 0; }
done
count=$#
while [ "$count" -gt 0 ]; do
    word=$1 value=''
    shift
    count=$((count - 1))
    case $word in
    --*) name=${word#--} ;;
    *) fail "'$word' is no option; --help lists them" ;;
    esac
    case $name in
    *=*) value=${name#*=} name=${name%%=*} ;;
    esac
    check_name "$name"
    case $name in
    no-install) install=no; continue ;;
    resume) resume=yes ;;
    quick) ;;
    *)
        if [ "$word" = "--$name" ]; then
            [ "$count" -gt 0 ] || fail "$word needs a value"
            value=$1
            shift
            count=$((count - 1))
        fi
        case $name in
        out) out=$value; continue ;;
        build) build=$value; continue ;;
        esac
        word=--$name=$value ;;
    esac
    set -- "$@" "$word"
done
[ "$resume" = no ] || [ -n "$out" ] || fail "--resume needs --out with the folder to go on with"

. "$root/bench/setup.sh"
# shellcheck disable=SC2086
setup_install $packages
setup_configure "$build" -Dbuildtype=release || exit 3
# The sweep's own program is built first, in seconds: it reads the values. The trainers take longer.
setup_ninja "$build" bench/dpbench || {
    say "dpbench was not built: it needs cJSON (libcjson-dev)"
    exit 3
}
set -- --results "$root/results" --programs "$build" --plots "$root/plots" ${out:+--out "$out"} "$@"
"$build/bench/dpbench" sweep --check-options "$@" || exit
setup_ninja "$build" || exit 3
exec "$build/bench/dpbench" sweep "$@"
