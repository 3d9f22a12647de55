# SPDX-License-Identifier: MIT
"""fidelity.py prints the table of docs/fidelity.md: test_fidelity.py FIDELITY_PY BUILD_FOLDER FIDELITY_MD. Errors may differ by one
point (another version's record); rows, published figures and readings may not."""
import re
import subprocess
import sys

FIDELITY, BUILD, PAGE = sys.argv[1:4]
HINT = "run bench/fidelity/fidelity.py and put its table into docs/fidelity.md"


def rows(text):
    """{(number, ladder, what, published): (error, reading)} of each row of the table."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.split("\n") if line.startswith("|")]
    found = {}
    for number, (ladder, what, _, published, error, reading) in enumerate(row for row in cells if len(row) == 6):
        if number > 1:  # head and rule; "the same, ..." is said of the row before: numbers keep the order
            found[number, ladder, what, published] = float(error.split()[0]), reading.split(":")[0]
    return found


def orders(text):
    """[which two rows, right or WRONG]: their times are in the table."""
    return re.findall(r"^- (.*): published .*: (right|WRONG)$", text, re.M)


def summary(text):
    return re.search(r"^\d+ predictions: \d+ within 5 %, \d+ within 15 %", text, re.M).group(0)


printed = subprocess.run([sys.executable, FIDELITY, BUILD], check=True, capture_output=True, text=True).stdout
with open(PAGE) as file:
    page = file.read()
ours, theirs = rows(printed), rows(page)
assert list(ours) == list(theirs), (set(ours) ^ set(theirs), HINT)
for key, (error, reading) in ours.items():
    assert reading == theirs[key][1], (key, reading, theirs[key][1], HINT)
    assert abs(error - theirs[key][0]) <= 1, (key, error, theirs[key][0], HINT)
assert orders(printed) == orders(page) and orders(page), (orders(printed), orders(page), HINT)
counted = [error for error, reading in ours.values() if reading == "predicted"]
assert summary(page).startswith(f"{len(counted)} predictions: "), (summary(page), len(counted), HINT)
published = [key[1:] for key, (_, reading) in ours.items() if reading == "predicted"]
assert len(set(published)) == len(published), published  # no figure is counted twice
