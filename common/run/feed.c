/* SPDX-License-Identifier: MIT
 *
 * See feed.h.
 */
#include "run/feed.h"

#include <stdlib.h>

#include "gpu/memory.h"
#include "run/schedule.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

static int fill_resident(const struct dataset *dataset, const uint32_t *indices, size_t rows,
                         const struct replica *replica, void *values, int32_t *labels)
{
    size_t bytes = rows * replica->model->input_bytes, label_bytes = rows * replica->model->label_bytes;
    void *host_values = NULL;
    int32_t *host_labels = NULL;
    int status = EXIT_OK;

    if ((status = gpu_malloc_pinned(&host_values, bytes)) ||
        (status = gpu_malloc_pinned((void **)&host_labels, label_bytes)))
        goto done;
    dataset_gather(dataset, indices, rows, host_values, host_labels);
    GPU_GOTO(cudaMemcpyAsync(values, host_values, bytes, cudaMemcpyHostToDevice, replica->compute), status, done);
    GPU_GOTO(cudaMemcpyAsync(labels, host_labels, label_bytes, cudaMemcpyHostToDevice, replica->compute), status, done);
    GPU_GOTO(cudaStreamSynchronize(replica->compute), status, done);
done:
    if (host_labels)
        (void)cudaFreeHost(host_labels);
    if (host_values)
        (void)cudaFreeHost(host_values);
    return status;
}

int feed_make_resident(const struct dataset *dataset, const uint32_t *indices, size_t rows,
                       const struct replica *replica, void **values, int32_t **labels)
{
    GPU_TRY(cudaSetDevice(replica->device));
    TRY(gpu_malloc(values, rows * replica->model->input_bytes, MEMORY_DATA));
    TRY(gpu_malloc((void **)labels, rows * replica->model->label_bytes, MEMORY_DATA));
    return rows ? fill_resident(dataset, indices, rows, replica, *values, *labels) : EXIT_OK;
}

/* The rows that this device sees in an update, in the order in which it sees them: synthetic sample i is row i. */
static int make_resident(struct feed *feed, const struct options *options, int devices, int device)
{
    uint32_t *indices = calloc(feed->rows_max + 1, sizeof *indices);
    size_t row = 0;

    if (!indices) {
        log_error("synthetic data: no memory for %zu indices", feed->rows_max);
        return EXIT_RESOURCE;
    }
    for (int k = 0; k < schedule_micro_batches(options); k++) {
        struct piece piece = schedule_piece(options, k, devices, device);
        for (size_t i = 0; i < piece.count; i++)
            indices[row++] = (uint32_t)(piece.first + i);
    }
    gpu_free(feed->replica->input);
    gpu_free(feed->replica->labels);
    feed->replica->input = NULL;
    feed->replica->labels = NULL;
    int status = feed_make_resident(feed->dataset, indices, feed->rows_max, feed->replica, (void **)&feed->resident,
                                    &feed->resident_labels);
    free(indices);
    return status;
}

int feed_open(struct feed *feed, const struct run *run, struct replica *replica, int devices, int device)
{
    size_t rows = schedule_rows(run->options, devices, device);

    *feed = (struct feed){.dataset = run->dataset, .replica = replica};
    feed->rows_max = rows > replica->batch_max ? rows : replica->batch_max; /* evaluation brings batch_max at once */
    int status = EXIT_OK;
    if (run->dataset->resident) {
        feed->rows_max = rows;
        status = make_resident(feed, run->options, devices, device);
    } else {
        status = gpu_malloc_pinned((void **)&feed->values, feed->rows_max * run->model->input_bytes);
        if (!status)
            status = gpu_malloc_pinned((void **)&feed->labels, feed->rows_max * run->model->label_bytes);
    }
    if (status)
        feed_close(feed);
    return status;
}

void feed_close(struct feed *feed)
{
    if (feed->values)
        (void)cudaFreeHost(feed->values);
    if (feed->labels)
        (void)cudaFreeHost(feed->labels);
    if (feed->resident) { /* the replica only points into it */
        feed->replica->input = NULL;
        feed->replica->labels = NULL;
    }
    gpu_free(feed->resident);
    gpu_free(feed->resident_labels);
    *feed = (struct feed){0};
}

int feed_enqueue(struct feed *feed, const uint32_t *indices, size_t count, bool first)
{
    struct replica *replica = feed->replica;
    size_t at = first ? 0 : feed->rows;

    feed->rows = at + count;
    if (count == 0)
        return EXIT_OK;
    if (feed->rows > feed->rows_max) {
        log_error("feed of device %d: %zu rows found, expected at most %zu", replica->device, feed->rows,
                  feed->rows_max);
        return EXIT_CHECK_FAILED;
    }
    const struct model *model = replica->model;
    if (feed->resident) {
        replica->input = feed->resident + at * model->input_bytes;
        replica->labels = feed->resident_labels + at * model->targets;
        return EXIT_OK;
    }
    char *values = feed->values + at * model->input_bytes;
    int32_t *labels = feed->labels + at * model->targets;
    dataset_gather(feed->dataset, indices, count, values, labels);
    GPU_TRY(
        cudaMemcpyAsync(replica->input, values, count * model->input_bytes, cudaMemcpyHostToDevice, replica->compute));
    GPU_TRY(
        cudaMemcpyAsync(replica->labels, labels, count * model->label_bytes, cudaMemcpyHostToDevice, replica->compute));
    return EXIT_OK;
}
