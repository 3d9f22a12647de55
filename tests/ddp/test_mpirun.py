# SPDX-License-Identifier: MIT
"""ddp-train and dp-train under Open MPI's mpirun: test_mpirun.py DDP_TRAIN_SOFT DP_TRAIN_SOFT. 77 where there is no mpirun."""
import os
import shutil
import signal
import sys
import time

from processes import SLACK, Run, check, expect, free_port, run_tests
from trainer import DDP, DP, LIMIT, LONG, SMALL, T, folder, last_line_of, summary

MPIRUN = ["mpirun", "--oversubscribe", "-n", 2]   # of MPICH --oversubscribe is unknown: then the test is skipped too
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def mpirun(program, *arguments):
    return Run([*MPIRUN, program, *SMALL, *arguments], {**ROOT, "MASTER_PORT": str(free_port())})


def rank_of(pid):
    """The rank of a process of ours, None if it is none (any more)."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8") as name, open(f"/proc/{pid}/environ", encoding="utf-8") as environ:
            if name.read().strip() != "ddp-train rank":
                return None
            return next(int(v.split("=")[1]) for v in environ.read().split("\0") if v.startswith("OMPI_COMM_WORLD_RANK="))
    except (OSError, StopIteration):
        return None


def wait_training(run):
    """{rank: pid} of a run in which rank 0 has written a line of the warm-up: the collectives are going round."""
    ranks = {}

    def all_there():
        ranks.update({rank_of(pid): pid for pid in run.left()})
        return {0, 1} <= set(ranks)
    run.wait(all_there, "two ranks")
    seen = ""
    while "warm-up" not in seen:
        line = run.process.stdout.readline()
        check(line or run.finish() is None, f"the run has ended: {seen}{run.err}")
        seen += line
    return ranks


def none_left(run):
    """mpirun may end a moment before the last of its processes has."""
    deadline = time.monotonic() + SLACK
    while run.left():
        check(time.monotonic() < deadline, f"processes are left: {run.left()}")
        time.sleep(0.01)


def test_it_trains_the_same_model():
    common = ["--global-batch", 32, "--steps", 10, "--checksum"]
    with folder() as path:
        file = os.path.join(path, "run.json")
        expect(mpirun(DDP, *common, "--json", file), 0)
        ours, own = last_line_of(file), summary(DDP, *SMALL, *common, "--gpus", 2)
    check(ours["checksum"] == own["checksum"] and ours["gpus"] == 2, f"{ours}")


def test_a_killed_rank():
    for rank in 0, 1:
        run = mpirun(DDP, "--steps", LONG)
        os.kill(wait_training(run)[rank], signal.SIGKILL)
        check(run.finish(2) == 137, f"exit code {run.process.returncode}; stderr:\n{run.err}")
        none_left(run)


def test_a_stopped_rank():
    for rank in 0, 1:
        run = mpirun(DDP, *LIMIT, "--steps", LONG)
        os.kill(wait_training(run)[rank], signal.SIGSTOP)
        check(run.finish(T + 1) == 6, f"exit code {run.process.returncode}; stderr:\n{run.err}")
        words = f"time limit of {T}.0 s: rank {rank} ", f"rank {rank} did not come to host operation"
        check(any(text in run.err for text in words), f"stderr:\n{run.err}")
        none_left(run)


def test_dp_train_is_started_once():
    run = mpirun(DP, "--steps", 3)
    check(run.finish(2) == 3, f"exit code {run.process.returncode}; stderr:\n{run.err}")
    check(run.err.count("started once") == 1 and "step " not in run.out, f"stderr:\n{run.err}")


if not shutil.which("mpirun") or Run(["mpirun", "--oversubscribe", "-n", 1, "true"], ROOT).finish() != 0:
    sys.exit(77)
run_tests([function for name, function in list(globals().items()) if name.startswith("test_")])
