#!/bin/sh
# SPDX-License-Identifier: MIT
# api_list.sh HEADER LIST: every name that the vendor header maps stands in the list of prototypes.
status=0
for name in $(sed -n 's/^ *#define \(\(cuda\|nccl\|cublas\|cudnn\|CUDNN\|nvtx\|NCCL\|CUDA\|CUBLAS\)[A-Za-z0-9_]*\).*/\1/p' "$1" | sort -u); do
    grep -qw "$name" "$2" || { echo "$name is mapped in $1 but not in $2"; status=1; }
done
exit $status
