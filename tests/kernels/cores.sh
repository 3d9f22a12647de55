#!/bin/sh
# SPDX-License-Identifier: MIT
# cores.sh PROGRAM: all results must be the same to the bit on a device of 1 core and one of 2.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$1" --cores 1 --dump "$folder/results"
"$1" --cores 2 --identical "$folder/results"
