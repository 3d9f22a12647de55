# SPDX-License-Identifier: MIT
"""Data for trainers: small pictures in MNIST's files, whose classes anybody can tell."""
import os
import struct


def write_idx(path, sizes, values):
    with open(path, "wb") as file:
        file.write(struct.pack(f">I{len(sizes)}I", 0x800 + len(sizes), *sizes) + bytes(values))


def make_pictures(path, train_count, labels):
    """MNIST's files: sample i shows one bright pixel, its class i % 10; the test set claims `labels`."""
    for prefix, classes in (("train", [i % 10 for i in range(train_count)]), ("t10k", labels)):
        shown = [i % 10 for i in range(len(classes))]
        pixels = [255 * (p == shown[i]) for i in range(len(classes)) for p in range(12)]
        write_idx(os.path.join(path, f"{prefix}-images-idx3-ubyte"), (len(classes), 3, 4), pixels)
        write_idx(os.path.join(path, f"{prefix}-labels-idx1-ubyte"), (len(classes),), classes)
