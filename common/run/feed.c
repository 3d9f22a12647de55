/* SPDX-License-Identifier: MIT
 *
 * See feed.h.
 */
#include "run/feed.h"

#include <stdlib.h>

#include "gpu/backend.h"
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
    if (gpu_executes()) /* nobody reads what a shape-only run would draw: 38 million values for resnet50 on 8 devices */
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
    return rows && gpu_executes() ? fill_resident(dataset, indices, rows, replica, *values, *labels) : EXIT_OK;
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

static int open_parts(struct feed *feed, const struct run *run, int devices, int device)
{
    if (run->dataset->resident)
        return make_resident(feed, run->options, devices, device);
    GPU_TRY(cudaSetDevice(feed->replica->device));
    GPU_TRY(cudaEventCreateWithFlags(&feed->copied, cudaEventDisableTiming));
    GPU_TRY(cudaEventCreateWithFlags(&feed->consumed, cudaEventDisableTiming));
    return loader_open(&feed->loader, run, feed->rows_max, devices, device);
}

int feed_open(struct feed *feed, const struct run *run, struct replica *replica, int devices, int device)
{
    size_t rows = schedule_rows(run->options, devices, device);

    *feed = (struct feed){.dataset = run->dataset, .replica = replica, .rows_max = rows};
    if (!run->dataset->resident && rows < replica->batch_max)
        feed->rows_max = replica->batch_max; /* evaluation brings that many at once */
    int status = open_parts(feed, run, devices, device);
    if (status)
        feed_close(feed);
    return status;
}

void feed_close(struct feed *feed)
{
    loader_close(feed->loader);
    if (feed->copied)
        (void)cudaEventDestroy(feed->copied);
    if (feed->consumed)
        (void)cudaEventDestroy(feed->consumed);
    if (feed->resident) { /* the replica only points into it */
        feed->replica->input = NULL;
        feed->replica->labels = NULL;
    }
    gpu_free(feed->resident);
    gpu_free(feed->resident_labels);
    *feed = (struct feed){0};
}

void feed_announce(struct feed *feed, uint64_t step, const uint32_t *indices)
{
    if (feed->loader)
        loader_announce(feed->loader, step, indices);
}

void feed_release(struct feed *feed)
{
    if (feed->loader)
        loader_release(feed->loader);
}

static int take_resident(struct feed *feed, size_t count, bool first)
{
    const struct model *model = feed->replica->model;
    size_t at = first ? 0 : feed->rows;

    feed->rows = at + count;
    if (feed->rows > feed->rows_max) {
        log_error("feed of device %d: %zu rows found, expected at most %zu", feed->replica->device, feed->rows,
                  feed->rows_max);
        return EXIT_CHECK_FAILED;
    }
    if (count) {
        feed->replica->input = feed->resident + at * model->input_bytes;
        feed->replica->labels = feed->resident_labels + at * model->targets;
    }
    return EXIT_OK;
}

/* The first micro-batch finds the device idle; a later one is copied when all work on the one before has been done. */
static int copy_rows(struct feed *feed, const void *values, const int32_t *labels, size_t count, bool first)
{
    struct replica *replica = feed->replica;
    cudaStream_t compute = replica->compute, copy = replica->copy;

    if (!first) {
        GPU_TRY(cudaEventRecord(feed->consumed, compute));
        GPU_TRY(cudaStreamWaitEvent(copy, feed->consumed, 0));
    }
    GPU_TRY(cudaMemcpyAsync(replica->input, values, count * replica->model->input_bytes, cudaMemcpyHostToDevice, copy));
    GPU_TRY(
        cudaMemcpyAsync(replica->labels, labels, count * replica->model->label_bytes, cudaMemcpyHostToDevice, copy));
    GPU_TRY(cudaEventRecord(feed->copied, copy));
    GPU_TRY(cudaStreamWaitEvent(compute, feed->copied, 0));
    return EXIT_OK;
}

int feed_enqueue(struct feed *feed, uint64_t step, const uint32_t *indices, size_t count, bool first)
{
    void *values = NULL;
    int32_t *labels = NULL;

    if (!feed->loader)
        return take_resident(feed, count, first);
    TRY(loader_take(feed->loader, step, indices, count, first, &values, &labels));
    return count ? copy_rows(feed, values, labels, count, first) : EXIT_OK;
}
