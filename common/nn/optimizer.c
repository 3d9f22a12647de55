/* SPDX-License-Identifier: MIT
 *
 * torch.optim's SGD and AdamW. One launch over the whole flat buffer: the padding between tensors is 0 in parameters
 * and gradients, and both formulas keep 0 at 0.
 */
#include "nn/optimizer.h"

#include "gpu/memory.h"
#include "kernels/kernels.h"
#include "sys/exit_codes.h"

static int open_all(struct optimizer *optimizer, int device)
{
    const struct optimizer_settings *settings = &optimizer->settings;
    cudaStream_t stream;

    GPU_TRY(cudaSetDevice(device));
    if (settings->kind == OPTIMIZER_ADAMW || settings->momentum != 0)
        TRY(gpu_malloc((void **)&optimizer->first, optimizer->flat_bytes, MEMORY_OPTIMIZER));
    if (settings->kind == OPTIMIZER_ADAMW)
        TRY(gpu_malloc((void **)&optimizer->second, optimizer->flat_bytes, MEMORY_OPTIMIZER));
    GPU_TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    int status = optimizer_reset(optimizer, stream);
    cudaStreamDestroy(stream);
    return status;
}

int optimizer_open(struct optimizer *optimizer, const struct optimizer_settings *settings, int device,
                   size_t flat_bytes)
{
    *optimizer = (struct optimizer){.settings = *settings, .flat_bytes = flat_bytes};
    int status = open_all(optimizer, device);
    if (status)
        optimizer_close(optimizer);
    return status;
}

void optimizer_close(struct optimizer *optimizer)
{
    gpu_free(optimizer->second);
    gpu_free(optimizer->first);
    *optimizer = (struct optimizer){0};
}

int optimizer_reset(struct optimizer *optimizer, cudaStream_t stream)
{
    optimizer->updates = 0;
    if (optimizer->first)
        GPU_TRY(cudaMemsetAsync(optimizer->first, 0, optimizer->flat_bytes, stream));
    if (optimizer->second)
        GPU_TRY(cudaMemsetAsync(optimizer->second, 0, optimizer->flat_bytes, stream));
    GPU_TRY(cudaStreamSynchronize(stream));
    return EXIT_OK;
}

int optimizer_step(struct optimizer *optimizer, float *parameters, const float *gradients, cudaStream_t stream)
{
    const struct optimizer_settings *s = &optimizer->settings;
    size_t count = optimizer->flat_bytes / sizeof(float);
    int update = optimizer->updates + 1;

    if (s->kind == OPTIMIZER_SGD)
        GPU_TRY(kernel_sgd(parameters, gradients, optimizer->first, count, s->lr, s->momentum, s->weight_decay,
                           update == 1, stream));
    else
        GPU_TRY(kernel_adamw(parameters, gradients, optimizer->first, optimizer->second, count, s->lr, s->beta1,
                             s->beta2, s->epsilon, s->weight_decay, update, stream));
    optimizer->updates = update;
    return EXIT_OK;
}
