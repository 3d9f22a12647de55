/* SPDX-License-Identifier: MIT
 *
 * One model on one device: its streams, its product handle, its flat buffers, and the ways in and out of them.
 */
#include <stdlib.h>
#include <string.h>

#include "gpu/memory.h"
#include "nn/model.h"
#include "sys/checksum.h"
#include "sys/exit_codes.h"
#include "sys/log.h"
#include "sys/random.h"

#define STAGING_BYTES ((size_t)4 << 20) /* pinned at most by replica_read and replica_write */

static int allocate(struct replica *replica, bool with_gradients)
{
    const struct model *model = replica->model;
    size_t flat = model->flat_bytes, batch = replica->batch_max;

    TRY(gpu_malloc((void **)&replica->parameters, flat, MEMORY_PARAMETERS));
    GPU_TRY(cudaMemsetAsync(replica->parameters, 0, flat, replica->compute));
    if (with_gradients) {
        TRY(gpu_malloc((void **)&replica->gradients, flat, MEMORY_GRADIENTS));
        GPU_TRY(cudaMemsetAsync(replica->gradients, 0, flat, replica->compute));
    }
    TRY(gpu_malloc((void **)&replica->input, batch * model->input_bytes, MEMORY_DATA));
    TRY(gpu_malloc((void **)&replica->labels, batch * sizeof(int32_t), MEMORY_DATA));
    TRY(model->type->open(replica));
    GPU_TRY(cudaStreamSynchronize(replica->compute));
    return EXIT_OK;
}

static int open_all(struct replica *replica, bool with_gradients)
{
    GPU_TRY(cudaSetDevice(replica->device));
    GPU_TRY(cudaStreamCreateWithFlags(&replica->compute, cudaStreamNonBlocking));
    GPU_TRY(cudaStreamCreateWithFlags(&replica->copy, cudaStreamNonBlocking));
    GPU_TRY(cublasCreate(&replica->blas));
    GPU_TRY(cublasSetStream(replica->blas, replica->compute));
    return allocate(replica, with_gradients);
}

int replica_open(struct replica *replica, const struct model *model, int device, size_t batch_max, bool with_gradients)
{
    *replica = (struct replica){.model = model, .device = device, .batch_max = batch_max};
    int status = open_all(replica, with_gradients);
    if (status)
        replica_close(replica);
    return status;
}

/* Also of a replica that was opened in part: what is NULL was not made. */
void replica_close(struct replica *replica)
{
    if (!replica->model)
        return;
    cudaSetDevice(replica->device);
    if (replica->compute)
        cudaStreamSynchronize(replica->compute);
    if (replica->copy)
        cudaStreamSynchronize(replica->copy);
    replica->model->type->close(replica);
    gpu_free(replica->labels);
    gpu_free(replica->input);
    gpu_free(replica->gradients);
    gpu_free(replica->parameters);
    if (replica->blas)
        cublasDestroy(replica->blas);
    if (replica->copy)
        cudaStreamDestroy(replica->copy);
    if (replica->compute)
        cudaStreamDestroy(replica->compute);
    *replica = (struct replica){0};
}

/* ---- in and out: through pinned memory, since the soft GPU refuses pageable copies ---- */

/* Moves flat_bytes piece by piece through `staging`: to the host if host_out is given, else from host_in. */
static int move(struct replica *replica, float *flat_device, char *host_out, const char *host_in, char *staging)
{
    char *device = (char *)flat_device;
    size_t bytes = replica->model->flat_bytes;

    for (size_t at = 0; at < bytes; at += STAGING_BYTES) {
        size_t piece = bytes - at < STAGING_BYTES ? bytes - at : STAGING_BYTES;
        if (host_out) {
            GPU_TRY(cudaMemcpyAsync(staging, device + at, piece, cudaMemcpyDeviceToHost, replica->compute));
        } else {
            memcpy(staging, host_in + at, piece);
            GPU_TRY(cudaMemcpyAsync(device + at, staging, piece, cudaMemcpyHostToDevice, replica->compute));
        }
        GPU_TRY(cudaStreamSynchronize(replica->compute));
        if (host_out)
            memcpy(host_out + at, staging, piece);
    }
    return EXIT_OK;
}

static int move_staged(struct replica *replica, float *flat_device, char *host_out, const char *host_in)
{
    void *staging = NULL;
    size_t bytes = replica->model->flat_bytes;

    GPU_TRY(cudaSetDevice(replica->device));
    TRY(gpu_malloc_pinned(&staging, bytes < STAGING_BYTES ? bytes : STAGING_BYTES));
    int status = move(replica, flat_device, host_out, host_in, staging);
    cudaFreeHost(staging);
    return status;
}

int replica_read(struct replica *replica, const float *flat_device, void *host)
{
    return move_staged(replica, (float *)flat_device, host, NULL);
}

int replica_write(struct replica *replica, float *flat_device, const void *host)
{
    return move_staged(replica, flat_device, NULL, host);
}

/* Host memory for one flat buffer, zeroed; NULL: reported. The caller frees. */
static char *flat_host(const struct replica *replica)
{
    char *flat = calloc(1, replica->model->flat_bytes);

    if (!flat)
        log_error("device %d: no host memory for %zu bytes of parameters", replica->device, replica->model->flat_bytes);
    return flat;
}

int replica_initialize(struct replica *replica, uint64_t seed)
{
    const struct model *model = replica->model;
    char *flat = flat_host(replica);

    if (!flat)
        return EXIT_RESOURCE;
    for (int i = 0; i < model->parameter_count; i++) {
        const struct parameter *p = &model->parameters[i];
        float *values = (float *)(void *)(flat + p->offset);
        for (size_t j = 0; j < p->count; j++)
            values[j] =
                p->initial_bound * (2 * random_uniform(seed, random_stream(RANDOM_INITIAL, (uint32_t)i), j) - 1);
    }
    int status = replica_write(replica, replica->parameters, flat);
    free(flat);
    return status;
}

int replica_checksum(struct replica *replica, uint64_t *sum)
{
    const struct model *model = replica->model;
    char *flat = flat_host(replica);

    if (!flat)
        return EXIT_RESOURCE;
    int status = replica_read(replica, replica->parameters, flat);
    *sum = CHECKSUM_SEED;
    for (int i = 0; i < model->parameter_count; i++)
        *sum = checksum(*sum, flat + model->parameters[i].offset, model->parameters[i].count * sizeof(float));
    free(flat);
    return status;
}
