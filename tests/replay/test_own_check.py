# SPDX-License-Identifier: MIT
"""own_check.py's arithmetic by hand, and what it says without a measurement: test_own_check.py OWN_CHECK_PY"""
import importlib.util
import subprocess
import sys

OWN_CHECK = sys.argv[1]
spec = importlib.util.spec_from_file_location("own_check", OWN_CHECK)
own = importlib.util.module_from_spec(spec)
spec.loader.exec_module(own)

# Rounds 1 to 3 have ratios 2, 2.5 and 2; the median is 2, the distances 0, 0.5, 0. The second round was slow as a whole, the third's
# ratio counts like the others'. Predicted 20.9 with a median of 11: 1.9 of one device, 5 % below 2.
measured, spread, error = own.compare([10, 16, 11], [20, 40, 22], 20.9)
assert measured == 2 and spread == 0 and abs(error + 0.05) < 1e-12, (measured, spread, error)
# Ratios 1, 2, 3: distances 1, 0, 1, their median 1, half of 2.
measured, spread, error = own.compare([10, 10, 10], [30, 10, 20], 20)
assert measured == 2 and spread == 0.5 and error == 0, (measured, spread, error)

assert own.verdict({"dp": (2, 0.01, -0.09), "ddp": (2, 0.01, 0.1)}, 0.1) == (0, "WITHIN 10%: dp, ddp")
code, sentence = own.verdict({"dp": (2, 0.01, -0.101), "ddp": (2, 0.01, 0)}, 0)
assert code == 1 and sentence.startswith("MISSED: dp not within"), sentence
code, sentence = own.verdict({"dp": (2, 0.01, -0.5), "ddp": (2, 0.06, 0)}, 0)
assert code == 3 and sentence.startswith("NO VERDICT: the machine is not calm (ddp:"), sentence

code, sentence = own.verdict({"dp": (2, 0.01, 0), "ddp": (2, 0.01, 0)}, 0.11)
assert code == 3 and "others take 11%" in sentence, sentence
# user nice system idle iowait irq softirq steal (guest, which user holds): 30 of 100 not idle
assert abs(own.cores_taken("cpu 10 0 10 100 10 0 0 0 5", "cpu 30 0 15 160 20 0 0 5 9") - 0.3) < 1e-12

refused = subprocess.run([sys.executable, OWN_CHECK, "build"], capture_output=True, text=True)
assert refused.returncode == 1 and "usage: own_check.py" in refused.stderr, refused
