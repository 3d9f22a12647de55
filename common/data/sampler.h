/* SPDX-License-Identifier: MIT
 *
 * Which samples a global batch holds, and which of them a device gets. One rule for DP and DDP: the chunk rule
 * (torch.chunk): pieces of ceil(B / N), the last ones short or absent. DP's piece r = DDP's rank r's share.
 *
 * What lies in the batch follows the chunk sampler (the next B samples of the epoch's permutation) or the distributed
 * one (torch.utils.data.DistributedSampler: the permutation is dealt out to the devices in turn).
 */
#ifndef DATA_SAMPLER_H
#define DATA_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sampler_kind { SAMPLER_CHUNK, SAMPLER_DISTRIBUTED };

struct piece {
    size_t first, count; /* rows of the global batch */
};

/* Piece r of B rows on N >= 1 devices; count 0 for the devices that get none. */
struct piece chunk_piece(size_t rows, int devices, int r);
int chunk_devices_used(size_t rows, int devices);

/* DistributedSampler: how many samples each of W ranks gets of L in an epoch: ceil(L / W), filled up by repeating the
 * permutation from its start; drop_last: floor(L / W), the rest is left out. */
size_t distributed_share(size_t samples, int ranks, bool drop_last);
/* Its sample i of rank r is the permutation's element at this place: (r + i W) modulo L. */
size_t distributed_place(size_t samples, int ranks, int rank, size_t i);

/* With the distributed sampler all devices get equally many rows of each micro-batch: EXIT_USAGE, with the nearest
 * global batches that do, if this one can't be cut so. */
int distributed_check_batch(size_t global_batch, int devices, int accumulate);

struct sampler {
    size_t samples; /* training samples; 0: synthetic */
    size_t global_batch;
    uint64_t seed;
    uint32_t epoch;  /* of `order` */
    uint32_t *order; /* [samples] permutation of this epoch; NULL for synthetic */
    enum sampler_kind kind;
    /* distributed */
    int devices, accumulate;
    size_t share; /* samples of a device in an epoch */
};

struct distributed_settings {
    size_t global_batch;
    int devices, accumulate; /* how the batch will be cut */
    bool drop_last;
    uint64_t seed;
};

/* samples = dataset->train_count. 0 (synthetic): every step gets the samples 0 .. global_batch-1, which are resident.
 * A global batch of 0, or larger than the data (no whole batch would be left): EXIT_USAGE with both numbers. */
int sampler_open(struct sampler *sampler, size_t samples, size_t global_batch, uint64_t seed);
/* Rows are arranged so that the chunk rule gives device r the samples of rank r in rank r's order. Refused (EXIT_USAGE,
 * with the least that works) if a device would not get a whole batch in an epoch; synthetic data, which has no order.
 */
int sampler_open_distributed(struct sampler *sampler, size_t samples, const struct distributed_settings *settings);
void sampler_close(struct sampler *sampler);
/* Whole batches; the rest of an epoch is dropped (said). Synthetic: 1. */
size_t sampler_steps_per_epoch(const struct sampler *sampler);
/* indices[global_batch] of step `step` (0-based over the whole run), from which the epoch follows. No state, a cache.
 */
void sampler_batch(struct sampler *sampler, uint64_t step, uint32_t *indices);

#endif
