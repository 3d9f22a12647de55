# SPDX-License-Identifier: MIT
"""Where dp-train writes: files that cannot be written, folders that go away, pipes, devices, readers that leave.

    test_outputs.py DP_TRAIN_SOFT DP_TRAIN: program.py
"""
import contextlib
import fcntl
import json
import os
import stat
import subprocess

from program import LIMIT, SMALL, TRAINER, begin, check, complaints, last_line_of, run, run_tests


def test_unwritable_file(folder):
    for option in ("--json", "--trace", "--save", "--save-gradients"):
        _, err = run(SMALL + ["--steps", "1", option, os.path.join(folder, "missing", "file")], expected=3)
        check("missing" in err and len(err.splitlines()) == 1, err)


def test_record_without_a_folder(folder):
    """A record that can't be written at the end is an error of the environment, told once, and the row does not say ok."""
    path = os.path.join(folder, "run.json")
    inside = os.path.join(folder, "inside")
    os.mkdir(inside)
    with begin(SMALL + ["--steps", "2000", "--record", os.path.join(inside, "record"), "--json", path]) as training:
        os.rmdir(inside)
        err = training.communicate(timeout=LIMIT)[1]
    check(training.returncode == 3 and len(complaints(err)) == 2 and "record: can't" in err.splitlines()[-1] and "phase close" in err, f"exit {training.returncode}\n{err}")
    last = last_line_of(path)
    check(last["status"] == "failed" and "record: can't" in last["reason"], f"{last}")


def test_pipes_and_devices(folder):
    """--json and --trace flow through what is no regular file; what must lie there whole is refused, and left alone."""
    out, _ = run(SMALL + ["--steps", "3", "--json", "/dev/stdout"])
    check(json.loads(out.splitlines()[-1])["status"] == "ok" and "step " in out, out)
    path = os.path.join(folder, "pipe")
    os.mkfifo(path)
    for option in ("--save", "--save-gradients", "--record"):
        _, err = run(SMALL + ["--steps", "1", option, path], expected=3)
        check(f"{path}: is a pipe, a regular file was expected" in err and len(complaints(err)) == 1, err)
    for option in ("--json", "--trace"):
        with subprocess.Popen(["cat", path], stdout=subprocess.PIPE, text=True) as reader:
            run(SMALL + ["--steps", "3", option, path])
            read = reader.communicate(timeout=LIMIT)[0]
        check(json.loads(read.splitlines()[-1] if option == "--json" else read), read[:200])
    check(os.path.exists(path) and not os.path.isfile(path), "the pipe was replaced")


def test_a_device_stays_a_device(folder):
    path = os.path.join(folder, "full")
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 7))   # a node of our own, like /dev/full
    except PermissionError:
        return
    for option in ("--save", "--json"):
        run(SMALL + ["--steps", "1", option, path], expected=3)
        check(stat.S_ISCHR(os.stat(path).st_mode), f"{option} replaced a device")


def test_reader_goes_away(folder):
    """`dp-train | head -1`: the training ends well."""
    done = subprocess.run(["sh", "-c", '{ "$@"; echo "exit $?" >&2; } | head -1', "sh", TRAINER] + SMALL + ["--steps", "400"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=LIMIT)
    check(len(done.stdout.splitlines()) == 1 and done.stderr.splitlines()[-1] == "exit 0", done.stdout + done.stderr)
    path = os.path.join(folder, "finished.json")
    with full_output() as full:
        code = subprocess.run([TRAINER] + SMALL + ["--steps", "4", "--json", path], stdout=full, stderr=subprocess.DEVNULL, timeout=LIMIT).returncode
    check(code == 0 and os.path.exists(path), f"exit {code} when nobody reads")


@contextlib.contextmanager
def full_output():
    """A descriptor to which every write fails: /dev/full; where a container has none, a memory file sealed against growing."""
    if os.path.exists("/dev/full"):
        descriptor = os.open("/dev/full", os.O_WRONLY)
    else:
        descriptor = os.memfd_create("full", os.MFD_ALLOW_SEALING)
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


run_tests(globals())
