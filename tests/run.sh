#!/bin/sh
# SPDX-License-Identifier: MIT
# Sets up, builds and runs the tests. The last line is "N passed, N failed, N skipped"; exit code 0 only without failures.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)

usage() {
    cat <<'END'
Usage: tests/run.sh [OPTION]... [-- MESON OPTION...]
Installs what is missing (apt-get, through sudo if not root), configures, builds, runs the tests.

  --build DIR          build folder (default build, or build-SANITIZER)
  --suite NAME         only the tests of this suite; may be given again
  --sanitize address|thread
                       a build with address and undefined-behaviour sanitizer, or with thread sanitizer
  --clang              compile with clang
  --ci                 also install what only .ci/run needs (clang, cppcheck)
  --no-install         install nothing; what is missing is named and left out
  --help
END
}

build='' sanitize='' suites='' ci=no install=yes clang=no
while [ $# -gt 0 ]; do
    case $1 in
    --build | --suite | --sanitize)
        [ $# -ge 2 ] || { echo "tests/run.sh: $1 needs a value" >&2; exit 2; }
        case $1 in
        --build) build=$2 ;;
        --suite) suites="$suites --suite $2" ;;
        --sanitize) sanitize=$2 ;;
        esac
        shift ;;
    --clang) clang=yes ;;
    --ci) ci=yes ;;
    --no-install) install=no ;;
    --help) usage; exit 0 ;;
    --) shift; break ;;
    *) echo "tests/run.sh: '$1' is no option; --help lists them" >&2; exit 2 ;;
    esac
    shift
done

options=''
case $sanitize in
'') ;;
address) options="-Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1" ;;
thread) options="-Db_sanitize=thread -Db_lundef=false -Doptimization=1 -Dskip_waits=true" ;;
*) echo "tests/run.sh: --sanitize '$sanitize', expected address or thread" >&2; exit 2 ;;
esac
[ -n "$build" ] || build=$root/build${sanitize:+-$sanitize}

. "$root/bench/setup.sh"
# shellcheck disable=SC2086
setup_install $packages
[ "$ci" = no ] || setup_install clang cppcheck libsimgrid-dev
if [ "$clang" = yes ]; then
    export CC=clang CXX=clang++
fi
# shellcheck disable=SC2086
setup_build "$build" $options "$@" || exit 3

say "testing $build"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-halt_on_error=1:print_stacktrace=1}"
# shellcheck disable=SC2086
"$meson" test -C "$build" --no-rebuild --print-errorlogs --timeout-multiplier $((${sanitize:+5 *} 4)) $suites
ended=$?
python3 "$root/tests/count.py" "$build/meson-logs/testlog.json"
counted=$?
[ $ended = 0 ] && exit $counted
[ $ended -lt 128 ] && exit 1
exit $ended
