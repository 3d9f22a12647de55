/* SPDX-License-Identifier: MIT
 *
 * Which gradients travel together: PyTorch's bucket assignment, tensor for tensor
 * (compute_bucket_assignment_by_size in torch/csrc/distributed/c10d/reducer.cpp).
 */
#ifndef DDP_BUCKET_H
#define DDP_BUCKET_H

#include <stddef.h>

#define BUCKET_FIRST_LIMIT ((size_t)1 << 20) /* bytes: small, so that the first all-reduce starts early */

/* Buckets in the order in which they are reduced. Bucket b holds the tensors
 * tensors[first[b]] .. tensors[first[b + 1] - 1], one behind the other. */
struct bucket_layout {
    int buckets;
    int *first;    /* [buckets + 1] */
    int *tensors;  /* [tensor count]: tensor indices in bucket order */
    size_t *bytes; /* [buckets] */
};

/* Walks the tensors in `order` (NULL: 0, 1, 2, ...) with one open bucket per type: a tensor is appended FIRST, then the
 * bucket is closed if it has reached its limit, so buckets overshoot. The n-th bucket of a type closes at limits[n],
 * later ones at the last limit. What is open at the end follows in the order of the first tensors. bytes[count],
 * types[count] (NULL: all alike), limits[limit_count >= 1] in bytes. Returns 0, or EXIT_RESOURCE (reported) without
 * memory; then *layout is empty. Free with bucket_layout_free. */
int bucket_assign(struct bucket_layout *layout, const size_t *bytes, const int *types, const int *order, int count,
                  const size_t *limits, int limit_count);

void bucket_layout_free(struct bucket_layout *layout); /* an empty (zeroed) layout is allowed */

#endif
