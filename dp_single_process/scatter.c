/* SPDX-License-Identifier: MIT
 *
 * scatter: the batch is cut along its rows by the chunk rule, piece r for device r. From the host: one copy per device
 * on its copy stream, out of the loader's pinned memory, which holds a whole update. Resident (synthetic) data lies on
 * device 0, which sends the pieces on its compute stream and keeps piece 0 where it is; the replicas wait for their
 * piece together with the parameters, which follow on the same stream.
 *
 * Bytes between devices: X (n-1)/n if resident, else 0 (X comes from the host). Labels stay with the loss: on the
 * output device, or with --dp-loss replica they are scattered too.
 */
#include <stdlib.h>

#include "dp.h"
#include "gpu/memory.h"
#include "run/feed.h"
#include "run/schedule.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

/* Moves the labels that feed_make_resident put onto device 0 to the output device, where the loss is. */
static int move_labels(struct dp *dp)
{
    size_t bytes = dp->rows_max * dp->model->label_bytes;
    int32_t *there = NULL;
    cudaStream_t stream = dp_compute(dp, 0);

    if (dp->output == 0 || dp->per_replica_loss)
        return EXIT_OK;
    GPU_TRY(cudaSetDevice(dp->output));
    TRY(gpu_malloc((void **)&there, bytes, MEMORY_DATA));
    GPU_TRY(cudaSetDevice(0));
    GPU_TRY(cudaMemcpyPeerAsync(there, dp->output, dp->resident_labels, 0, bytes, stream));
    GPU_TRY(cudaStreamSynchronize(stream));
    gpu_free(dp->resident_labels);
    dp->resident_labels = there;
    return EXIT_OK;
}

static int open_resident(struct dp *dp)
{
    struct replica *first = &dp->device[0].replica;
    uint32_t *indices = calloc(dp->rows_max + 1, sizeof *indices);

    if (!indices) {
        log_error("scatter: no memory for %zu indices", dp->rows_max);
        return EXIT_RESOURCE;
    }
    for (size_t i = 0; i < dp->rows_max; i++)
        indices[i] = (uint32_t)i;
    gpu_free(first->input); /* piece 0 is read where the whole batch lies */
    gpu_free(first->labels);
    first->input = NULL;
    first->labels = NULL;
    int status =
        feed_make_resident(dp->dataset, indices, dp->rows_max, first, (void **)&dp->resident, &dp->resident_labels);
    free(indices);
    return status ? status : move_labels(dp);
}

int dp_scatter_open(struct dp *dp)
{
    const struct run run = {.options = dp->options, .model = dp->model, .dataset = dp->dataset};

    if (dp->dataset->resident)
        return open_resident(dp);
    /* evaluation brings as much as a micro-batch at once */
    size_t rows = dp->rows_max > dp->gathered_max ? dp->rows_max : dp->gathered_max;
    return loader_open(&dp->loader, &run, rows, 1, 0);
}

void dp_scatter_close(struct dp *dp)
{
    loader_close(dp->loader);
    if (dp->resident) {
        dp->device[0].replica.input = NULL;
        dp->device[0].replica.labels = NULL;
    }
    gpu_free(dp->resident);
    gpu_free(dp->resident_labels);
}

/* ---- from the host ----------------------------------------------------------------------------------------------- */

static int copy_piece(struct dp *dp, const struct dp_pass *pass, int r)
{
    const struct piece *piece = &pass->piece[r];
    struct replica *replica = &dp->device[r].replica;

    GPU_TRY(cudaMemcpyAsync(replica->input, dp->host_values + piece->first * dp->model->input_bytes,
                            piece->count * dp->model->input_bytes, cudaMemcpyHostToDevice, replica->copy));
    if (dp->per_replica_loss)
        GPU_TRY(cudaMemcpyAsync(replica->labels, dp->host_labels + piece->first * dp->model->targets,
                                piece->count * dp->model->label_bytes, cudaMemcpyHostToDevice, replica->copy));
    return EXIT_OK;
}

static int copy_labels(struct dp *dp, const struct dp_pass *pass)
{
    GPU_TRY(cudaMemcpyAsync(dp->gathered_labels, dp->host_labels, pass->rows * dp->model->label_bytes,
                            cudaMemcpyHostToDevice, dp->device[dp->output].replica.copy));
    return EXIT_OK;
}

/* What device r gets: its piece, and the labels if the loss is there. The first micro-batch finds the device idle; a
 * later one waits until the one before it has been used. */
static int copy_to_device(struct dp *dp, const struct dp_pass *pass, int r)
{
    struct dp_device *device = &dp->device[r];

    GPU_TRY(cudaSetDevice(r));
    if (!pass->first)
        GPU_TRY(cudaStreamWaitEvent(device->replica.copy, device->consumed, 0));
    if (r < pass->n)
        TRY(copy_piece(dp, pass, r));
    if (r == dp->output && !dp->per_replica_loss)
        TRY(copy_labels(dp, pass));
    GPU_TRY(cudaEventRecord(device->scattered, device->replica.copy));
    GPU_TRY(cudaStreamWaitEvent(device->replica.compute, device->scattered, 0));
    return timeline_mark(&device->timeline, device->replica.compute, PHASE_SCATTER);
}

static int scatter_from_host(struct dp *dp, const struct dp_pass *pass)
{
    void *values = NULL;

    TRY(loader_take(dp->loader, pass->step, pass->indices, pass->rows, pass->first, &values, &dp->host_labels));
    dp->host_values = values;
    for (int r = 0; r < pass->n; r++)
        TRY(copy_to_device(dp, pass, r));
    return dp->output >= pass->n && !dp->per_replica_loss ? copy_to_device(dp, pass, dp->output) : EXIT_OK;
}

/* ---- from device 0 ----------------------------------------------------------------------------------------------- */

static int send_piece(struct dp *dp, const struct dp_pass *pass, int r)
{
    const struct piece *piece = &pass->piece[r];
    struct replica *replica = &dp->device[r].replica;
    size_t at = pass->offset + piece->first;

    GPU_TRY(cudaMemcpyPeerAsync(replica->input, r, dp->resident + at * dp->model->input_bytes, 0,
                                piece->count * dp->model->input_bytes, dp_compute(dp, 0)));
    if (dp->per_replica_loss)
        GPU_TRY(cudaMemcpyPeerAsync(replica->labels, r, dp->resident_labels + at * dp->model->targets, 0,
                                    piece->count * dp->model->label_bytes, dp_compute(dp, 0)));
    return EXIT_OK;
}

static int scatter_from_device(struct dp *dp, const struct dp_pass *pass)
{
    struct dp_device *first = &dp->device[0];

    first->replica.input = dp->resident + pass->offset * dp->model->input_bytes;
    first->replica.labels = dp->resident_labels + pass->offset * dp->model->targets;
    dp->gathered_labels = first->replica.labels;
    GPU_TRY(cudaSetDevice(0));
    for (int r = 1; r < pass->n; r++)
        TRY(send_piece(dp, pass, r));
    return timeline_mark(&first->timeline, first->replica.compute, PHASE_SCATTER);
}

int dp_scatter(struct dp *dp, const struct dp_pass *pass)
{
    phase_begin(PHASE_SCATTER);
    int status = dp->resident ? scatter_from_device(dp, pass) : scatter_from_host(dp, pass);
    (void)nvtxRangePop();
    return status;
}

uint64_t dp_scatter_bytes(const struct dp *dp, const struct dp_pass *pass)
{
    size_t row = dp->model->input_bytes + (dp->per_replica_loss ? dp->model->label_bytes : 0);

    return dp->dataset->resident ? (uint64_t)(pass->rows - pass->piece[0].count) * row : 0;
}
