/* SPDX-License-Identifier: MIT
 *
 * The order of samples follows from (seed, step) alone, so a resumed run goes on with the batch that comes next, and
 * every rank draws the same global batch without a word to the others.
 */
#include "data/sampler.h"

#include <stdlib.h>
#include <string.h>

#include "sys/exit_codes.h"
#include "sys/log.h"
#include "sys/random.h"

static size_t ceil_divide(size_t a, size_t b)
{
    return a / b + (a % b != 0);
}

struct piece chunk_piece(size_t rows, int devices, int r)
{
    size_t size = ceil_divide(rows, (size_t)devices);
    size_t first = size * (size_t)r;

    if (first >= rows)
        return (struct piece){.first = rows, .count = 0};
    return (struct piece){.first = first, .count = rows - first < size ? rows - first : size};
}

int chunk_devices_used(size_t rows, int devices)
{
    return rows == 0 ? 0 : (int)ceil_divide(rows, ceil_divide(rows, (size_t)devices));
}

static void shuffle(struct sampler *sampler, uint32_t epoch)
{
    random_permutation(sampler->order, sampler->samples, sampler->seed, random_stream(RANDOM_SHUFFLE, epoch));
    sampler->epoch = epoch;
}

int sampler_open(struct sampler *sampler, size_t samples, size_t global_batch, uint64_t seed)
{
    *sampler = (struct sampler){.samples = samples, .global_batch = global_batch, .seed = seed};
    size_t most = samples ? samples : UINT32_MAX;
    if (global_batch < 1 || global_batch > most || samples > UINT32_MAX) {
        log_error("global batch: %zu found, expected 1 to %zu (the data has %zu training samples)", global_batch, most,
                  samples);
        return EXIT_USAGE;
    }
    if (samples == 0)
        return EXIT_OK;
    sampler->order = malloc(samples * sizeof *sampler->order);
    if (!sampler->order) {
        log_error("sampler: no memory for the order of %zu samples", samples);
        return EXIT_RESOURCE;
    }
    shuffle(sampler, 0);
    if (samples % global_batch)
        log_info("%zu of %zu samples are left out of each epoch: the last batch of %zu would not be whole",
                 samples % global_batch, samples, global_batch);
    return EXIT_OK;
}

void sampler_close(struct sampler *sampler)
{
    free(sampler->order);
    *sampler = (struct sampler){0};
}

size_t sampler_steps_per_epoch(const struct sampler *sampler)
{
    return sampler->samples ? sampler->samples / sampler->global_batch : 1;
}

void sampler_batch(struct sampler *sampler, uint64_t step, uint32_t *indices)
{
    if (!sampler->order) {
        for (size_t i = 0; i < sampler->global_batch; i++)
            indices[i] = (uint32_t)i;
        return;
    }
    uint64_t steps = sampler_steps_per_epoch(sampler);
    uint32_t epoch = (uint32_t)(step / steps);
    if (epoch != sampler->epoch)
        shuffle(sampler, epoch);
    memcpy(indices, sampler->order + (step % steps) * sampler->global_batch, sampler->global_batch * sizeof *indices);
}
