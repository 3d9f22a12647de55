#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""docs/trials.md names tests that exist: test_trials.py SOURCE_ROOT."""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
missing, named = [], 0
for line in (root / "docs" / "trials.md").read_text(encoding="utf-8").splitlines():
    cells = re.fullmatch(r"\| (\d+) \| (.*) \| (.*) \|", line)
    for place in cells.group(3).split("; ") if cells else []:
        file, tests = place.split(": ")
        path = root / file
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        for test in tests.split(", "):
            named += 1
            if not re.search(rf"^(def|static (void|int)) {test}\(", text, re.MULTILINE):
                missing.append(f"{cells.group(1)}: no test {test} in {file}")
print(*missing, f"{named} tests named, {len(missing)} missing", sep="\n")
sys.exit(1 if missing or not named else 0)
