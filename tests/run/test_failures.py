# SPDX-License-Identifier: MIT
"""How dp-train ends that fails or is interrupted: exit code, last line, the row of --json.

    test_failures.py DP_TRAIN_SOFT DP_TRAIN: program.py
"""
import os
import re
import signal
import subprocess

from program import LIMIT, SMALL, TRAINER, begin, check, complaints, last_line_of, run, run_tests, train


def test_each_allocation_fails(folder):
    """Of device and pinned memory, the first, the second ... until a run needs no more: 3, a reason, nothing left."""
    for arguments in (["--accumulate", "2"], ["--dp-transport", "p2p", "--dp-loss", "replica"], ["--strategy", "single"]):
        for number in range(200):
            path, saved = os.path.join(folder, "run.json"), os.path.join(folder, "checkpoint")
            command = [TRAINER, "--data", "digits", "--width", "8", "--depth", "1", "--steps", "2", "--checksum", "--json", path, "--save", saved] + arguments
            command += [] if "single" in arguments else ["--gpus", "2"]
            done = subprocess.run(command, env=dict(os.environ, DPBENCH_FAULT=f"alloc:0:step{number}"), stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=LIMIT)
            last = last_line_of(path)
            if done.returncode == 0:
                break
            check(done.returncode == 3, f"allocation {number}: exit {done.returncode}\n{done.stderr}")
            check("planted" in done.stderr.splitlines()[-1] and "planted" in last["reason"], f"{last}\n{done.stderr}")
            check(os.listdir(folder) == ["run.json"], f"left: {os.listdir(folder)}")
        check(10 < number < 199 and last["status"] == "ok", f"{number} allocations")
        os.unlink(saved)


def test_out_of_memory(folder):
    lines, err = train(folder, ["--device-memory", "8", "--gpus", "2", "--steps", "1"], expected=3)
    check(lines["summary"][0]["status"] == "out_of_memory" and lines["summary"][0]["reason"], f"{lines['summary'][0]}")
    check("bytes" in err or "MiB" in err, err)


def test_thread_failure(folder):
    """A DP thread fails: the others are not left waiting, and the row says why."""
    lines, err = train(folder, SMALL + ["--gpus", "4", "--steps", "20"], expected=1, env={"DPBENCH_FAULT": "dp-thread:2:step5"})
    check("device 2" in err and "step 5" in err, err)
    check(lines["summary"][0]["status"] == "failed" and "device 2" in lines["summary"][0]["reason"], f"{lines['summary'][0]}")


def test_collective_failure(folder):
    """One device never comes to a collective that the others have begun: aborted, not waited for."""
    lines, err = train(folder, SMALL + ["--gpus", "4", "--steps", "20", "--timeout", "3600"], expected=1,
                       env={"DPBENCH_FAULT": "dp-broadcast:2:step5"})
    check("device 2" in err and "step 5" in err and len(complaints(err)) == 2, err)
    check(lines["summary"][0]["status"] == "failed" and "device 2" in lines["summary"][0]["reason"], f"{lines['summary'][0]}")


def test_a_device_that_never_finishes(folder):
    """--timeout bounds it: 6, the row, and the device that is behind."""
    for arguments, device, text in ((["--strategy", "single"], 0, "device 0 is at stall (backward)"),
                                    (["--gpus", "3", "--dp-transport", "p2p"], 2, "device 2 is at stall (backward)"),
                                    (["--gpus", "3", "--accumulate", "2"], 1, "rank 1 is at collective")):
        lines, err = train(folder, SMALL + arguments + ["--steps", "20", "--timeout", "1"], expected=6,
                           env={"DPBENCH_FAULT": f"stall-device:{device}:step5"})
        last = err.splitlines()[-1]
        check("time limit of 1.0 s" in last and text in last and "in step 6 of 23, phase finish" in last, err)
        check(lines["summary"][0]["status"] == "time_limit" and text in lines["summary"][0]["reason"], f"{lines['summary'][0]}")


def test_the_last_line_names_the_place(folder):
    """Cause, pid, step, phase, seconds and exit code; a refusal before any device is opened stands alone."""
    place = r"; pid \d+ %s, after \d+\.\d\d s; exit code %d$"
    thread = {"DPBENCH_FAULT": "dp-thread:2:step5"}
    for arguments, code, env, cause, where in (
            (["--gpus", "4", "--steps", "20"], 1, thread, "planted fault at step 5", "in step 6 of 23, phase step"),
            (["--gpus", "4", "--steps", "20", "--checksum", "--warmup", "0"], 1, {"DPBENCH_FAULT": "dp-thread:1:step2"}, "step 2", "in step 3 of 20, phase step"),
            (["--strategy", "single", "--lr", "1e6", "--steps", "30"], 1, {}, "diverged", "in step 33 of 33, phase close"),
            (["--device-memory", "1", "--gpus", "2", "--width", "2048"], 3, {}, "memory", "in phase open")):
        _, err = run(SMALL + arguments, expected=code, env=env)
        last = err.splitlines()[-1]
        check(last.startswith("dp-train: ") and cause in last and re.search(place % (where, code), last), err)
    for arguments, code in ((["--data", folder], 4), (["--gpus", "65"], 2), (["--model", "resnet20"], 2)):
        _, err = run(["--steps", "1", "--inputs", "20"] + arguments, expected=code)
        check("pid" not in err and len(err.splitlines()) == 1, err)


def test_interrupted(folder):
    """The first signal ends the run with a line, the row of --json and 128 + N; what is ignored stays ignored."""
    path = os.path.join(folder, "run.json")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_IGN:  # under nohup, or in a shell's background; trainers inherit it
            signal.signal(number, signal.SIG_DFL)
        with begin(SMALL + ["--gpus", "2", "--steps", "1000000", "--json", path]) as training:
            training.send_signal(number)
            err = training.communicate(timeout=LIMIT)[1]
        check(training.returncode == 128 + number, f"{number.name}: exit {training.returncode}\n{err}")
        check(re.search(rf"interrupted by signal {int(number)} \({number.name}\); pid {training.pid} in .*phase (open|step|finish), after "
                        rf"\d+\.\d\d s; exit code {128 + number}$", err.splitlines()[-1]), err)
        last = last_line_of(path)
        check(last["type"] == "summary" and last["status"] == "failed" and number.name in last["reason"], f"{last}")
        os.unlink(path)
    ignoring = ["sh", "-c", "trap '' HUP; kill -HUP $$; exec \"$@\"", "sh"]
    with begin(SMALL + ["--steps", "20000"], before=ignoring) as training:
        training.send_signal(signal.SIGHUP)
        training.send_signal(signal.SIGTERM)
        training.communicate(timeout=LIMIT)
        check(training.returncode == 128 + signal.SIGTERM, f"exit {training.returncode}")


def test_divergence_is_no_success(folder):
    lines, _ = train(folder, SMALL + ["--strategy", "single", "--lr", "1e6", "--steps", "30"], expected=1)
    check(lines["summary"][0]["status"] == "failed" and lines["summary"][0]["loss_last"] is None, "a NaN is no number")


run_tests(globals())
