/* SPDX-License-Identifier: MIT
 *
 * One model on one device: its streams, its product handle, its flat buffers, and the ways in and out of them.
 */
#include <stdlib.h>
#include <string.h>

#include "gpu/backend.h"
#include "gpu/memory.h"
#include "kernels/kernels.h"
#include "nn/layers.h"
#include "sys/checksum.h"
#include "sys/exit_codes.h"
#include "sys/log.h"
#include "sys/random.h"

#define STAGING_BYTES ((size_t)4 << 20) /* pinned at most by replica_read and replica_write */

static int allocate(struct replica *replica, bool with_gradients)
{
    const struct model *model = replica->model;
    size_t flat = model->flat_bytes, batch = replica->batch_max;

    TRY(gpu_malloc(&replica->parameters, flat, MEMORY_PARAMETERS));
    GPU_TRY(cudaMemsetAsync(replica->parameters, 0, flat, replica->compute));
    replica->masters = model->settings.type == ELEMENT_F32 ? replica->parameters : NULL;
    if (with_gradients) {
        TRY(gpu_malloc(&replica->gradients, flat, MEMORY_GRADIENTS));
        GPU_TRY(cudaMemsetAsync(replica->gradients, 0, flat, replica->compute));
    }
    if (model->buffer_bytes)
        TRY(gpu_malloc((void **)&replica->buffers, model->buffer_bytes, MEMORY_PARAMETERS));
    TRY(gpu_malloc(&replica->input, batch * model->input_bytes, MEMORY_DATA));
    TRY(gpu_malloc((void **)&replica->labels, batch * model->label_bytes, MEMORY_DATA));
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

int replica_hold_masters(struct replica *replica)
{
    size_t bytes = replica->model->float_bytes;

    if (replica->masters)
        return EXIT_OK;
    GPU_TRY(cudaSetDevice(replica->device));
    TRY(gpu_malloc((void **)&replica->masters, bytes, MEMORY_PARAMETERS));
    GPU_TRY(cudaMemsetAsync(replica->masters, 0, bytes, replica->compute));
    return EXIT_OK;
}

int replica_hold_sums(struct replica *replica, int micro_batches)
{
    if (replica_type(replica) == ELEMENT_F32 || micro_batches < 2)
        return EXIT_OK;
    GPU_TRY(cudaSetDevice(replica->device));
    return gpu_malloc((void **)&replica->sums, replica->model->float_bytes, MEMORY_GRADIENTS);
}

int replica_add_to_sums(struct replica *replica, bool first)
{
    GPU_TRY(kernel_accumulate(replica_type(replica), replica->sums, replica->gradients, first,
                              replica->model->flat_elements, replica->compute));
    return EXIT_OK;
}

int replica_refresh(struct replica *replica)
{
    if (replica_type(replica) == ELEMENT_F32)
        return EXIT_OK;
    GPU_TRY(cudaSetDevice(replica->device));
    GPU_TRY(kernel_cast(replica_type(replica), replica->parameters, ELEMENT_F32, replica->masters,
                        replica->model->flat_elements, replica->compute));
    return EXIT_OK;
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
    gpu_free(replica->buffers);
    gpu_free(replica->sums);
    gpu_free(replica->gradients);
    if (replica->masters != replica->parameters)
        gpu_free(replica->masters);
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

/* Moves bytes piece by piece through `staging`: to the host if host_out is given, else from host_in. */
static int move(struct replica *replica, void *on_device, size_t bytes, char *host_out, const char *host_in,
                char *staging)
{
    char *device = on_device;

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

static int move_staged(struct replica *replica, void *on_device, size_t bytes, char *host_out, const char *host_in)
{
    void *staging = NULL;

    if (bytes == 0)
        return EXIT_OK;
    GPU_TRY(cudaSetDevice(replica->device));
    TRY(gpu_malloc_pinned(&staging, bytes < STAGING_BYTES ? bytes : STAGING_BYTES));
    int status = move(replica, on_device, bytes, host_out, host_in, staging);
    cudaFreeHost(staging);
    return status;
}

int replica_read(struct replica *replica, const void *flat_device, void *host)
{
    return move_staged(replica, (void *)(uintptr_t)flat_device, replica->model->flat_bytes, host, NULL);
}

int replica_write(struct replica *replica, void *flat_device, const void *host)
{
    return move_staged(replica, flat_device, replica->model->flat_bytes, NULL, host);
}

int replica_read_floats(struct replica *replica, const float *flat_device, float *host, size_t bytes)
{
    return move_staged(replica, (void *)(uintptr_t)flat_device, bytes, (char *)host, NULL);
}

int replica_write_floats(struct replica *replica, float *flat_device, const float *host, size_t bytes)
{
    return move_staged(replica, flat_device, bytes, NULL, (const char *)host);
}

/* Zeroed host memory; NULL: reported. The caller frees. */
static void *flat_host(const struct replica *replica, size_t bytes)
{
    void *flat = calloc(1, bytes + 1); /* never of 0 bytes */

    if (!flat)
        log_error("device %d: no host memory for %zu bytes of parameters", replica->device, bytes);
    return flat;
}

/* The initial values of tensors[count] in their places of flat. */
static void fill_initial(const struct parameter *tensors, int count, uint64_t seed, float *flat)
{
    for (int i = 0; i < count; i++) {
        const struct parameter *p = &tensors[i];
        float *values = flat + p->first;
        uint64_t stream = random_stream(RANDOM_INITIAL, (uint32_t)i);
        for (size_t j = 0; j < p->count; j++) {
            float x = p->initial == INITIAL_UNIFORM  ? 2 * random_uniform(seed, stream, j) - 1
                      : p->initial == INITIAL_NORMAL ? random_normal(seed, stream, j)
                                                     : 1;
            values[j] = p->initial_value * x;
        }
    }
}

/* Through the masters; a replica that holds none (one that never updates) has them for this moment. */
static int write_parameters(struct replica *replica, const float *flat)
{
    bool holds = replica->masters != NULL;

    TRY(replica_hold_masters(replica));
    int status = replica_write_floats(replica, replica->masters, flat, replica->model->float_bytes);
    if (!status)
        status = replica_refresh(replica);
    if (!status)
        status = GPU_STATUS(cudaStreamSynchronize(replica->compute));
    if (!holds) {
        gpu_free(replica->masters);
        replica->masters = NULL;
    }
    return status;
}

int replica_initialize(struct replica *replica, uint64_t seed)
{
    const struct model *model = replica->model;

    if (!gpu_executes())
        return EXIT_OK;
    float *flat = flat_host(replica, model->float_bytes), *buffers = flat_host(replica, model->buffer_bytes);
    int status = flat && buffers ? EXIT_OK : EXIT_RESOURCE;

    if (!status) {
        fill_initial(model->parameters, model->parameter_count, seed, flat);
        fill_initial(model->buffers, model->buffer_count, seed, buffers);
        status = write_parameters(replica, flat);
    }
    if (!status)
        status = move_staged(replica, replica->buffers, model->buffer_bytes, NULL, (const char *)buffers);
    free(buffers);
    free(flat);
    return status;
}

int replica_checksum(struct replica *replica, uint64_t *sum)
{
    const struct model *model = replica->model;
    size_t element = replica->masters ? sizeof(float) : element_size(model->settings.type);
    char *flat = flat_host(replica, model->float_bytes);

    if (!flat)
        return EXIT_RESOURCE;
    int status = replica->masters ? replica_read_floats(replica, replica->masters, (float *)(void *)flat, model->float_bytes)
                                  : replica_read(replica, replica->parameters, flat);
    *sum = CHECKSUM_SEED;
    for (int i = 0; i < model->parameter_count; i++)
        *sum = checksum(*sum, flat + model->parameters[i].first * element, model->parameters[i].count * element);
    free(flat);
    return status;
}
