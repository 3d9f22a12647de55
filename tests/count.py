#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts the results in meson's testlog.json (one JSON object a line) and prints "N passed, N failed, N skipped".

    count.py TESTLOG...

Exit code 0 only if at least one test passed and none failed. Whatever is neither OK, an expected failure nor a skip counts
as failed, so that a result that a later meson invents can't pass unseen; a log that is missing or cut is one failure.
"""
import json
import sys


def count(paths):
    passed = failed = skipped = 0
    for path in paths:
        try:
            with open(path, encoding="utf-8") as log:
                results = [json.loads(line)["result"] for line in log if line.strip()]
        except (OSError, ValueError, KeyError, TypeError) as error:
            print("%s: %s" % (path, error), file=sys.stderr)
            results = ["ERROR"]
        for result in results:
            if result in ("OK", "EXPECTEDFAIL"):
                passed += 1
            elif result == "SKIP":
                skipped += 1
            else:
                failed += 1
    return passed, failed, skipped


if __name__ == "__main__":
    totals = count(sys.argv[1:])
    print("%d passed, %d failed, %d skipped" % totals)
    sys.exit(0 if totals[0] > 0 and totals[1] == 0 else 1)
