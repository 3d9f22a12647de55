# SPDX-License-Identifier: MIT
"""Every cudaStreamWaitEvent of a trainer is needed: without it the thread sanitizer sees a race; with all of them, none.

    test_waits.py FOLDER_OF_THE_TRAINERS_SOURCES PROGRAM [ARGUMENT ...]

Needs a build with -Db_sanitize=thread -Dskip_waits=true: there SOFTGPU_SKIP_WAIT=file.c:line leaves out the waits of one place.
"""
import os
import pathlib
import subprocess
import sys

LIMIT = 120.0
RACE = 66   # exit code of the sanitizer

sources, command = pathlib.Path(sys.argv[1]), sys.argv[2:]


def places():
    for path in sorted(sources.glob("*.c")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if "cudaStreamWaitEvent(" in line:
                if not line.rstrip().endswith(";"):
                    sys.exit(f"{path.name}:{number}: write the wait on one line, so that its place has one name")
                yield f"{path.name}:{number}"


def run(skip=None):
    environment = dict(os.environ)
    environment.pop("SOFTGPU_SKIP_WAIT", None)
    environment["TSAN_OPTIONS"] = f"exitcode={RACE} halt_on_error=1"
    if skip:
        environment["SOFTGPU_SKIP_WAIT"] = skip
    return subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                          timeout=LIMIT)


def main():
    failed = 0
    whole = run()
    if whole.returncode != 0:
        print(f"with all waits: exit {whole.returncode}\n{whole.stderr[:4000]}")
        return 1
    found = list(places())
    for place in found:
        code = run(place).returncode
        print(f"{'ok     ' if code == RACE else 'FAILED '} without {place}: {'a race' if code == RACE else f'exit {code}'}", flush=True)
        failed += code != RACE
    print(f"{len(found) - failed} of {len(found)} waits are needed")
    return 1 if failed or not found else 0


if __name__ == "__main__":
    sys.exit(main())
