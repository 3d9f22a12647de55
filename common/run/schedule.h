/* SPDX-License-Identifier: MIT
 *
 * How the global batch of an update is cut: into micro-batches (--accumulate), and each of them over the devices, both
 * by the chunk rule. All strategies cut alike, so device r of DP and rank r of DDP see the same rows in the same order.
 */
#ifndef RUN_SCHEDULE_H
#define RUN_SCHEDULE_H

#include <stddef.h>

#include "data/sampler.h"
#include "run/options.h"

/* Micro-batches that hold samples: at most --accumulate, 0 for a global batch of 0. */
int schedule_micro_batches(const struct options *options);

/* Rows of the global batch in micro-batch k. */
struct piece schedule_micro_batch(const struct options *options, int k);

/* Rows of the global batch that device `device` gets of micro-batch k (first counts from the global batch's start). */
struct piece schedule_piece(const struct options *options, int k, int devices, int device);

/* Rows of the whole update on this device. */
size_t schedule_rows(const struct options *options, int devices, int device);

/* The most rows that any device gets in one micro-batch; at least 1, so that evaluation has room. */
size_t schedule_batch_max(const struct options *options, int devices);

/* The sampler that --sampler names, for data with so many training samples (0: synthetic). sampler_close by the caller.
 */
int schedule_open_sampler(struct sampler *sampler, size_t samples, const struct options *options);

/* What besides data, seed and global batch the order of the samples depends on, as the options that say it:
 * "--sampler chunk", "--sampler distributed --gpus 4 --drop-last". A resumed run must have the same. */
void schedule_sampler_text(char *text, size_t size, const struct options *options);

#endif
