# SPDX-License-Identifier: MIT
"""calibrate writes a machine file that replay takes: test_calibrate.py CALIBRATE REPLAY PROGRAMS. How fast the machine is, is not
looked at."""
import os
import subprocess
import sys
import tempfile

CALIBRATE, REPLAY, PROGRAMS = sys.argv[1:4]

with tempfile.TemporaryDirectory() as folder:
    machine, record = os.path.join(folder, "here.ini"), os.path.join(folder, "record")
    subprocess.run([CALIBRATE, "--out", machine, "--name", "here", "--devices", "2", "--cores-per-device", "1"], check=True)
    with open(machine) as file:
        text = file.read()
    for key in ("launch_us", "memory_gbs", "fp32 =", "crowd_products = 2:", "crowd_memory = 2:", "slowdown =", "0>1 =", "1>0 =", "all_reduce 2 =", "broadcast 2 =", "host_up"):
        assert key in text, (key, text)
    subprocess.run([os.path.join(PROGRAMS, "dp-train"), "--gpus", "2", "--device", "soft", "--shape-only", "--width", "64", "--steps",
                    "2", "--record", record], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    played = subprocess.run([REPLAY, record, "--machine", machine], check=True, capture_output=True, text=True)
    assert "modelled on    here" in played.stdout, played.stdout
    refused = subprocess.run([CALIBRATE, "--out", machine, "--devices", "many"], capture_output=True, text=True)
    assert refused.returncode == 2 and 'found "many", expected 1 to 16' in refused.stderr, refused
