#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tests/count.py on crafted logs: every result is counted, and what is unknown, cut or missing is a failure."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

COUNT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "count.py")


def run(*texts):
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for i, text in enumerate(texts):
            paths.append(os.path.join(folder, "%d.json" % i))
            if text is not None:
                with open(paths[-1], "w", encoding="utf-8") as f:
                    f.write(text)
        done = subprocess.run([sys.executable, COUNT] + paths, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return done.stdout.splitlines()[-1], done.returncode


def log(*results):
    return "".join(json.dumps({"name": "t", "result": r}) + "\n" for r in results)


class Count(unittest.TestCase):
    def test_each_result(self):
        self.assertEqual(run(log("OK", "OK", "SKIP")), ("2 passed, 0 failed, 1 skipped", 0))
        self.assertEqual(run(log("OK", "EXPECTEDFAIL")), ("2 passed, 0 failed, 0 skipped", 0))
        for bad in ("FAIL", "TIMEOUT", "ERROR", "UNEXPECTEDPASS", "INTERRUPT", "something new"):
            self.assertEqual(run(log("OK", bad)), ("1 passed, 1 failed, 0 skipped", 1), bad)

    def test_several_logs_add_up(self):
        self.assertEqual(run(log("OK", "SKIP"), log("OK", "FAIL")), ("2 passed, 1 failed, 1 skipped", 1))

    def test_nothing_passed_is_no_success(self):
        self.assertEqual(run(log("SKIP")), ("0 passed, 0 failed, 1 skipped", 1))
        self.assertEqual(run(""), ("0 passed, 0 failed, 0 skipped", 1))

    def test_a_log_that_is_cut_or_missing_is_a_failure(self):
        self.assertEqual(run(log("OK"), None), ("1 passed, 1 failed, 0 skipped", 1))
        self.assertEqual(run(log("OK")[:-5])[1], 1)
        self.assertEqual(run('{"name": "t"}\n')[1], 1)


if __name__ == "__main__":
    unittest.main()
