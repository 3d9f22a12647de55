# SPDX-License-Identifier: MIT
"""Starting trainers and breaking them: what the process tests of this folder share.

A run is marked by a variable of its own in the environment, so that what is left of it can be found whatever it is
called.
A rank's place (phase, step) is read from the launcher's progress page: tests wait for a place, never for a time.
"""
import os
import signal
import socket
import struct
import subprocess
import sys
import time
import traceback
import uuid

PHASES = ["start", "rendezvous", "open", "step", "finish", "evaluation", "close", "end"]
# Seconds on top of each limit: a loaded machine is no failure, a hang is. What was needed is printed beside the limit.
SLACK = float(os.environ.get("DDP_TEST_SLACK", 5))
measured = []    # (seconds, limit) of each end that was waited for, since the test began
MARK = "DDP_TEST_RUN"

# Under nohup, or in a shell's background, this program was started to ignore one; trainers would inherit that.
for ignored in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(ignored) == signal.SIG_IGN:
        signal.signal(ignored, signal.SIG_DFL)


class Failure(Exception):
    pass


def check(condition, message):
    if not condition:
        raise Failure(message)


def clean_environment(extra=None):
    """The environment without anything that a launcher or an earlier test may have set."""
    prefixes = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "TORCHELASTIC", "SLURM_", "OMPI_", "PMI", "DDP_TRAIN_",
                "DPBENCH_", "CUDA_VISIBLE_DEVICES", "SOFTGPU_")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(prefixes)}
    environment.update(extra or {})
    return environment


def fault(text):
    """The environment that plants a fault."""
    return {"DPBENCH_FAULT": text}


class Run:
    """One command with its output; `env` is added to a clean environment."""

    def __init__(self, command, env=None, **options):
        self.mark = uuid.uuid4().hex
        environment = clean_environment(env)
        environment[MARK] = self.mark
        self.started = time.monotonic()
        options.setdefault("stdout", subprocess.PIPE)
        self.process = subprocess.Popen([str(part) for part in command], env=environment, stderr=subprocess.PIPE,
                                        stdin=subprocess.DEVNULL, text=True, errors="replace", **options)
        self.pid = self.process.pid
        self.out = self.err = ""
        self.page = None

    def finish(self, limit=30.0):
        """Waits for the end of the command and of all that hold its output; returns its code. Kills what stays."""
        if self.process.stderr.closed:   # asked before
            return self.process.returncode
        asked = time.monotonic()
        try:
            self.out, self.err = self.process.communicate(timeout=limit + SLACK)
            measured.append((time.monotonic() - asked, limit))
        except subprocess.TimeoutExpired:
            for pid in self.left():
                os.kill(pid, signal.SIGKILL)
            self.out, self.err = self.process.communicate()
            raise Failure(f"not at its end after {limit + SLACK} s; stderr:\n{self.err}") from None
        return self.process.returncode

    def last_line(self):
        lines = self.err.strip().splitlines()
        return lines[-1] if lines else ""

    def left(self):
        """Processes of this run that exist, zombies included."""
        return [pid for pid in all_pids() if pid != os.getpid() and carries_mark(pid, self.mark)]

    def ranks(self):
        with open(f"/proc/{self.pid}/task/{self.pid}/children") as children:
            return [int(pid) for pid in children.read().split()]

    def place(self, rank):
        """(phase, step) of a rank, from the launcher's progress page; None before there is one."""
        if self.page is None:
            self.page = find_page(self.pid)
        if self.page is None:
            return None
        data = os.pread(self.page, 8, 64 * rank)
        if len(data) < 8:   # just made, without its size
            return None
        word = struct.unpack("=Q", data)[0]
        return PHASES[word & 0xff], word >> 8

    def wait_step(self, rank, step, limit=120.0):
        """Until the rank has begun this step (from 1)."""
        def there():
            place = self.place(rank)
            return place is not None and place[1] >= step
        self.wait(there, f"rank {rank} at step {step}", limit)

    def wait(self, condition, what, limit=120.0):
        deadline = time.monotonic() + limit
        while not condition():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.finish()
                raise Failure(f"waited in vain for {what}; code {self.process.returncode}, stderr:\n{self.err}")
            time.sleep(0.002)


def all_pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def carries_mark(pid, mark):
    try:
        with open(f"/proc/{pid}/environ", "rb") as environ:
            return f"{MARK}={mark}".encode() in environ.read()
    except OSError:
        return False


def find_page(pid):
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            path = f"/proc/{pid}/fd/{name}"
            if "ddp-train progress" in os.readlink(path):
                return os.open(path, os.O_RDONLY)
    except OSError:
        pass
    return None


def expect(run, code, *texts, limit=30.0):
    """The run ends with this code, its last line holds the texts, and nothing of it is left."""
    got = run.finish(limit)
    check(got == code, f"exit code {got}, expected {code}; stderr:\n{run.err}")
    for text in texts:
        check(text in run.last_line(), f"the last line lacks \"{text}\"; stderr:\n{run.err}")
    check(not run.left(), f"processes are left: {run.left()}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def by_hand(command, ranks, world, port, env=None, **each):
    """Ranks as torchrun would start them; each[rank_R] = extra environment of rank R."""
    runs = {}
    for rank in ranks:
        variables = {"RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank), "MASTER_ADDR": "127.0.0.1",
                     "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": "test"}
        variables.update(env or {})
        variables.update(each.get(f"rank_{rank}", {}))
        runs[rank] = Run(command, variables)
    return runs


def wait_listening(port, limit=120.0):
    """Until somebody listens on the port (without connecting to it)."""
    deadline = time.monotonic() + limit
    while not listeners(port):
        check(time.monotonic() < deadline, f"nobody listens on port {port}")
        time.sleep(0.005)


def listeners(port):
    """Addresses on which somebody listens on this port, as /proc/net tells them."""
    found = []
    for table in ("tcp", "tcp6"):
        try:
            with open(f"/proc/net/{table}") as lines:
                for line in list(lines)[1:]:
                    fields = line.split()
                    address, hex_port = fields[1].split(":")
                    if fields[3] == "0A" and int(hex_port, 16) == port:
                        found.append(address)
        except OSError:
            pass
    return found


def links(pid):
    """What the descriptors of a process lead to."""
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
        except OSError:
            pass
    return found


def closest():
    """The end that came nearest to its limit, or passed it most."""
    ends = [(seconds / limit, seconds, limit) for seconds, limit in measured if limit < 30]
    return "; an end after {1:.2f} s where {2:g} s are allowed".format(*max(ends)) if ends else ""


def run_tests(functions):
    """Runs each test, or --only those with this in their names, or all --but those; exits with 1 if one fails."""
    failed = 0
    chosen = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    but = sys.argv[sys.argv.index("--but") + 1] if "--but" in sys.argv else None
    for function in functions:
        if chosen not in function.__name__ or (but and but in function.__name__):
            continue
        started = time.monotonic()
        measured.clear()
        try:
            function()
            result = "ok"
        except Failure as failure:
            result = f"FAILED: {failure}"
        except Exception:
            result = f"FAILED:\n{traceback.format_exc()}"
        failed += result != "ok"
        print(f"{function.__name__}: {result} ({time.monotonic() - started:.2f} s{closest()})", flush=True)
    sys.exit(1 if failed else 0)
