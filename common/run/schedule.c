/* SPDX-License-Identifier: MIT
 *
 * See schedule.h. With K micro-batches and B rows: ceil(B / K) rows each, the last one short.
 */
#include "run/schedule.h"

#include <stdio.h>

int schedule_micro_batches(const struct options *options)
{
    return chunk_devices_used(options->global_batch, options->accumulate);
}

struct piece schedule_micro_batch(const struct options *options, int k)
{
    return chunk_piece(options->global_batch, options->accumulate, k);
}

struct piece schedule_piece(const struct options *options, int k, int devices, int device)
{
    struct piece micro = schedule_micro_batch(options, k);
    struct piece piece = chunk_piece(micro.count, devices, device);

    return (struct piece){.first = micro.first + piece.first, .count = piece.count};
}

size_t schedule_rows(const struct options *options, int devices, int device)
{
    size_t rows = 0;

    for (int k = 0; k < schedule_micro_batches(options); k++)
        rows += schedule_piece(options, k, devices, device).count;
    return rows;
}

size_t schedule_batch_max(const struct options *options, int devices)
{
    size_t most = schedule_piece(options, 0, devices, 0).count; /* the first piece is the largest */

    return most ? most : 1;
}

int schedule_open_sampler(struct sampler *sampler, size_t samples, const struct options *options)
{
    const struct distributed_settings settings = {.global_batch = options->global_batch,
                                                  .devices = options->gpus,
                                                  .accumulate = options->accumulate,
                                                  .drop_last = options->drop_last,
                                                  .seed = options->seed};

    if (options->sampler == SAMPLER_DISTRIBUTED)
        return sampler_open_distributed(sampler, samples, &settings);
    return sampler_open(sampler, samples, options->global_batch, options->seed);
}

void schedule_sampler_text(char *text, size_t size, const struct options *options)
{
    if (options->sampler == SAMPLER_CHUNK)
        snprintf(text, size, "--sampler chunk");
    else
        snprintf(text, size, "--sampler distributed --gpus %d%s", options->gpus,
                 options->drop_last ? " --drop-last" : "");
}
