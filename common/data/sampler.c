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

static int make_order(struct sampler *sampler)
{
    sampler->order = malloc(sampler->samples * sizeof *sampler->order);
    if (!sampler->order) {
        log_error("sampler: no memory for the order of %zu samples", sampler->samples);
        return EXIT_RESOURCE;
    }
    shuffle(sampler, 0);
    return EXIT_OK;
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
    if (samples % global_batch)
        log_info("%zu of %zu samples are left out of each epoch: the last batch of %zu would not be whole",
                 samples % global_batch, samples, global_batch);
    return make_order(sampler);
}

/* ---- distributed ------------------------------------------------------------------------------------------------- */

size_t distributed_share(size_t samples, int ranks, bool drop_last)
{
    return drop_last ? samples / (size_t)ranks : ceil_divide(samples, (size_t)ranks);
}

size_t distributed_place(size_t samples, int ranks, int rank, size_t i)
{
    return ((size_t)rank + i * (size_t)ranks) % samples;
}

int distributed_check_batch(size_t global_batch, int devices, int accumulate)
{
    size_t unit = (size_t)devices * (size_t)accumulate, below = global_batch / unit * unit;

    if (global_batch % unit == 0)
        return EXIT_OK;
    if (below)
        log_error("--sampler distributed: a global batch of %zu found, expected a multiple of %zu (%d devices x %d "
                  "micro-batches): the nearest are %zu and %zu",
                  global_batch, unit, devices, accumulate, below, below + unit);
    else
        log_error("--sampler distributed: a global batch of %zu found, expected a multiple of %zu (%d devices x %d "
                  "micro-batches): the nearest is %zu",
                  global_batch, unit, devices, accumulate, unit);
    return EXIT_USAGE;
}

static int check_share(const struct sampler *sampler, bool drop_last)
{
    size_t each = sampler->global_batch / (size_t)sampler->devices;
    size_t least = drop_last ? sampler->global_batch : (each - 1) * (size_t)sampler->devices + 1;

    if (each && sampler->share >= each)
        return EXIT_OK;
    log_error("--sampler distributed: a global batch of %zu found, %zu for each of %d devices, which get %zu of %zu "
              "samples in an epoch%s: expected %s%zu, or at least %zu samples",
              sampler->global_batch, each, sampler->devices, sampler->share, sampler->samples,
              drop_last ? " (--drop-last)" : "", sampler->share ? "at most " : "",
              sampler->share * (size_t)sampler->devices, least);
    return EXIT_USAGE;
}

/* What an epoch repeats or leaves out. */
static void tell_epoch(const struct sampler *sampler)
{
    size_t whole = sampler->share * (size_t)sampler->devices, each = sampler->global_batch / (size_t)sampler->devices;

    if (whole > sampler->samples)
        log_info("%zu samples are repeated in each epoch, so that each of %d devices gets %zu of %zu",
                 whole - sampler->samples, sampler->devices, sampler->share, sampler->samples);
    if (whole < sampler->samples)
        log_info("%zu of %zu samples are left out of each epoch, so that each of %d devices gets %zu",
                 sampler->samples - whole, sampler->samples, sampler->devices, sampler->share);
    if (sampler->share % each)
        log_info("the last %zu samples of each device are left out of each epoch: its last batch of %zu would not be "
                 "whole",
                 sampler->share % each, each);
}

int sampler_open_distributed(struct sampler *sampler, size_t samples, const struct distributed_settings *settings)
{
    *sampler = (struct sampler){.samples = samples,
                                .global_batch = settings->global_batch,
                                .seed = settings->seed,
                                .kind = SAMPLER_DISTRIBUTED,
                                .devices = settings->devices,
                                .accumulate = settings->accumulate};
    if (samples == 0 || samples > UINT32_MAX) {
        log_error("--sampler distributed: %zu training samples found, expected 1 to %u to deal out (synthetic data is "
                  "one batch and has none)",
                  samples, UINT32_MAX);
        return EXIT_USAGE;
    }
    sampler->share = distributed_share(samples, settings->devices, settings->drop_last);
    int status = distributed_check_batch(settings->global_batch, settings->devices, settings->accumulate);
    if (!status)
        status = check_share(sampler, settings->drop_last);
    if (status)
        return status;
    tell_epoch(sampler);
    return make_order(sampler);
}

/* Row (k, r, i) of the batch, i of device r's rows in micro-batch k, is rank r's next sample. `batch` of the epoch. */
static void fill_distributed(const struct sampler *sampler, size_t batch, uint32_t *indices)
{
    size_t each = sampler->global_batch / (size_t)sampler->devices, rows = each / (size_t)sampler->accumulate;
    size_t row = 0;

    for (int k = 0; k < sampler->accumulate; k++) {
        for (int r = 0; r < sampler->devices; r++) {
            size_t first = batch * each + (size_t)k * rows;
            for (size_t i = 0; i < rows; i++)
                indices[row++] = sampler->order[distributed_place(sampler->samples, sampler->devices, r, first + i)];
        }
    }
}

/* ---- both -------------------------------------------------------------------------------------------------------- */

void sampler_close(struct sampler *sampler)
{
    free(sampler->order);
    *sampler = (struct sampler){0};
}

size_t sampler_steps_per_epoch(const struct sampler *sampler)
{
    if (sampler->kind == SAMPLER_DISTRIBUTED)
        return sampler->share / (sampler->global_batch / (size_t)sampler->devices);
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
    if (sampler->kind == SAMPLER_DISTRIBUTED)
        fill_distributed(sampler, step % steps, indices);
    else
        memcpy(indices, sampler->order + (step % steps) * sampler->global_batch,
               sampler->global_batch * sizeof *indices);
}
