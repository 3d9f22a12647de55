#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the two IDX files of this folder from scikit-learn's copy of the UCI optical digits (digits.csv.gz).

    python3 make_digits.py /usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz
"""
import gzip
import struct
import sys

with gzip.open(sys.argv[1], "rt") as source:
    rows = [[int(float(field)) for field in line.split(",")] for line in source]
assert len(rows) == 1797 and all(len(row) == 65 for row in rows)
assert all(0 <= value <= 16 for row in rows for value in row[:64]) and all(0 <= row[64] <= 9 for row in rows)

with open("digits-images-idx3-ubyte", "wb") as images:
    images.write(struct.pack(">IIII", 0x00000803, len(rows), 8, 8))
    images.write(bytes(value for row in rows for value in row[:64]))
with open("digits-labels-idx1-ubyte", "wb") as labels:
    labels.write(struct.pack(">II", 0x00000801, len(rows)))
    labels.write(bytes(row[64] for row in rows))
