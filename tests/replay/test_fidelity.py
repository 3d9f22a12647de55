# SPDX-License-Identifier: MIT
"""fidelity.py prints what docs/fidelity.md says: test_fidelity.py FIDELITY_PY BUILD_FOLDER FIDELITY_MD CUDNN. The replay gives the same bits
everywhere, so each row, each order and the last line must be there to the last digit. CUDNN is no: another build than the page's,
whose convolutions are other launches; there resnet50's errors may differ by a point, and the count that they are in is not compared."""
import re
import subprocess
import sys

FIDELITY, BUILD, PAGE, CUDNN = sys.argv[1:5]
HINT = "run bench/fidelity/fidelity.py and put what it prints into docs/fidelity.md"


def rows(text):
    """The cells of each row of the table; head and rule are not of it."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.split("\n") if line.startswith("|")]
    return [row for row in cells if len(row) == 6][2:]


def orders(text):
    return re.findall(r"^- .*: published .*: (?:right|WRONG)$", text, re.M)


def summary(text):
    return re.findall(r"^\d+ predictions: .*$", text, re.M)


def same(our, their):
    if our == their or CUDNN == "yes" or "resnet50" not in our[0]:
        return our == their
    named = [[cell.split(":")[0] for cell in (row[0], row[1], row[3], row[5])] for row in (our, their)]
    return named[0] == named[1] and abs(float(our[4].split()[0]) - float(their[4].split()[0])) <= 1


printed = subprocess.run([sys.executable, FIDELITY, BUILD], check=True, capture_output=True, text=True).stdout
with open(PAGE, encoding="utf-8") as file:
    page = file.read()
for what in (rows, orders, summary) if CUDNN == "yes" else (rows, orders):
    ours, theirs = what(printed), what(page)
    assert ours, (what.__name__, printed)
    for our, their in zip(ours, theirs):
        assert same(our, their), (our, their, HINT)
    assert len(ours) == len(theirs), (len(ours), len(theirs), HINT)
predicted = [(ladder, what, figure) for ladder, what, _, figure, _, reading in rows(printed) if reading == "predicted"]
assert summary(printed)[0].startswith(f"{len(predicted)} predictions: "), (summary(printed), len(predicted))
assert len(set(predicted)) == len(predicted), predicted  # no figure is counted twice
