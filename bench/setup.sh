# SPDX-License-Identifier: MIT
# Sourced by tests/run.sh, bench/run.sh and .ci/run: installs what is missing, configures and builds. One way to do it.
#
#   setup_install PACKAGE...        installs what is missing, or says what is left out (install=no: installs nothing)
#   setup_configure FOLDER [OPTION]...
#                                   meson setup or reconfigure with these options
#   setup_ninja FOLDER [TARGET]...  builds these, or all
#   setup_build FOLDER [OPTION]...  the two, one after the other

install=${install:-yes}
packages="gcc g++ meson ninja-build pkg-config libhwloc-dev libdnnl-dev libbenchmark-dev gnuplot-nox libcmocka-dev libcjson-dev zlib1g-dev python3"

say() {
    printf '== %s\n' "$*"
}

# Without dpkg nothing is known about packages: the build then works with what it finds.
setup_missing() {
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || printf '%s ' "$package"
    done
}

setup_install() {
    if ! command -v dpkg-query >/dev/null 2>&1; then
        say "no Debian or Ubuntu: going on with what is there"
        return 0
    fi
    missing=$(setup_missing "$@")
    [ -n "$missing" ] || return 0
    as_root=
    if [ "$install" = no ]; then
        say "not installed, and --no-install was given; left out: $missing"
        return 0
    elif [ "$(id -u)" != 0 ]; then
        if ! command -v sudo >/dev/null 2>&1; then
            say "not root and no sudo; left out: $missing"
            return 0
        fi
        as_root=sudo
        say "sudo, for apt-get, may ask for your password"
        if ! sudo true </dev/null; then
            say "sudo refused; left out: $missing"
            return 0
        fi
    fi
    # A machine that has just started may hold the lock for its own updates.
    apt="$as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120"
    say "installing with apt-get: $missing"
    $apt update </dev/null || say "apt-get update failed; trying with the lists that are there"
    # shellcheck disable=SC2086
    if ! $apt install -y --no-install-recommends $missing </dev/null; then
        say "not all at once; one after the other"
        for package in $missing; do
            $apt install -y --no-install-recommends "$package" </dev/null || say "left out: $package"
        done
    fi
}

# meson 1.0 or newer. Older ones (Ubuntu 22.04) get a newer one beside the build, in a virtual environment.
setup_meson() {
    meson=meson
    version=$(meson --version 2>/dev/null || echo 0)
    case $version in
    0 | 0.*) ;;
    *) return 0 ;;
    esac
    if [ "$install" = no ]; then
        say "meson 1.0 or newer is needed, found: $version"
        return 3
    fi
    say "meson $version is too old; installing 1.0 or newer into $root/build-tools"
    setup_install python3-venv
    python3 -m venv "$root/build-tools" && "$root/build-tools/bin/pip" install -q 'meson>=1.0' || return 3
    meson=$root/build-tools/bin/meson
}

setup_configure() {
    folder=$1
    shift
    for tool in ninja "${CC:-cc}" "${CXX:-c++}"; do
        if ! command -v "${tool%% *}" >/dev/null 2>&1; then
            say "$tool is missing: nothing can be built"
            return 3
        fi
    done
    setup_meson || return
    if [ -f "$folder/build.ninja" ]; then
        say "configuring $folder again"
        "$meson" setup --reconfigure "$@" "$folder" "$root" >"$folder/setup.log" 2>&1
    else
        say "configuring $folder"
        mkdir -p "$folder" && "$meson" setup "$@" "$folder" "$root" >"$folder/setup.log" 2>&1
    fi || {
        cat "$folder/setup.log"
        return 3
    }
    sed -n '/^  Features/,/^$/p' "$folder/setup.log"
}

setup_ninja() {
    folder=$1
    shift
    say "building ${*:-$folder}"
    if [ -t 1 ]; then
        ninja -C "$folder" "$@" || return 3  # a line that counts, for the one who waits
        return 0
    fi
    ninja -C "$folder" "$@" >"$folder/build.log" 2>&1 || {
        tail -n 60 "$folder/build.log"
        return 3
    }
    ! grep -q 'warning:' "$folder/build.log" || say "there were warnings: $folder/build.log"
}

setup_build() {
    setup_configure "$@" && setup_ninja "$1"
}
