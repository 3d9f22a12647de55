/* SPDX-License-Identifier: MIT
 *
 * Which samples a global batch holds, and which of them a device gets. One rule for DP and DDP: the chunk rule
 * (torch.chunk): pieces of ceil(B / N), the last ones short or absent. DP's piece r = DDP's rank r's share.
 */
#ifndef DATA_SAMPLER_H
#define DATA_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

struct piece {
    size_t first, count; /* rows of the global batch */
};

/* Piece r of B rows on N >= 1 devices; count 0 for the devices that get none. */
struct piece chunk_piece(size_t rows, int devices, int r);
int chunk_devices_used(size_t rows, int devices);

struct sampler {
    size_t samples; /* training samples; 0: synthetic */
    size_t global_batch;
    uint64_t seed;
    uint32_t epoch;  /* of `order` */
    uint32_t *order; /* [samples] permutation of this epoch; NULL for synthetic */
};

/* samples = dataset->train_count. 0 (synthetic): every step gets the samples 0 .. global_batch-1, which are resident.
 * A global batch of 0, or larger than the data (no whole batch would be left): EXIT_USAGE with both numbers. */
int sampler_open(struct sampler *sampler, size_t samples, size_t global_batch, uint64_t seed);
void sampler_close(struct sampler *sampler);
/* Whole batches; the rest of an epoch is dropped (said). Synthetic: 1. */
size_t sampler_steps_per_epoch(const struct sampler *sampler);
/* indices[global_batch] of step `step` (0-based over the whole run), from which the epoch follows. No state, a cache.
 */
void sampler_batch(struct sampler *sampler, uint64_t step, uint32_t *indices);

#endif
