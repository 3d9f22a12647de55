/* SPDX-License-Identifier: MIT
 *
 * The loss of one device: the losses of the targets stay there, only their sum (and the count of right answers) goes
 * home.
 */
#include "nn/loss.h"

#include "gpu/memory.h"
#include "kernels/kernels.h"
#include "sys/exit_codes.h"

static int open_all(struct loss *loss)
{
    GPU_TRY(cudaSetDevice(loss->device));
    TRY(gpu_malloc((void **)&loss->per_target, loss->samples_max * loss->model->targets * sizeof(float),
                   MEMORY_OUTPUTS));
    TRY(gpu_malloc((void **)&loss->sum, sizeof(float), MEMORY_OUTPUTS));
    TRY(gpu_malloc((void **)&loss->correct, sizeof(int32_t), MEMORY_OUTPUTS));
    TRY(gpu_malloc_pinned((void **)&loss->host_sum, sizeof(float)));
    TRY(gpu_malloc_pinned((void **)&loss->host_correct, sizeof(int32_t)));
    *loss->host_sum = 0;
    *loss->host_correct = 0;
    return EXIT_OK;
}

int loss_open(struct loss *loss, const struct model *model, int device, size_t samples_max)
{
    *loss = (struct loss){.model = model, .device = device, .samples_max = samples_max};
    int status = open_all(loss);
    if (status)
        loss_close(loss);
    return status;
}

void loss_close(struct loss *loss)
{
    cudaSetDevice(loss->device);
    if (loss->host_correct)
        cudaFreeHost(loss->host_correct);
    if (loss->host_sum)
        cudaFreeHost(loss->host_sum);
    gpu_free(loss->correct);
    gpu_free(loss->sum);
    gpu_free(loss->per_target);
    *loss = (struct loss){0};
}

int loss_enqueue(struct loss *loss, void *d_logits, const void *logits, const int32_t *labels, size_t samples,
                 float scale, cudaStream_t stream)
{
    const struct model *model = loss->model;
    size_t rows = samples * model->targets;

    GPU_TRY(kernel_softmax_cross_entropy(model->settings.type, loss->per_target, d_logits, logits, labels, rows,
                                         model->classes, scale, loss->loss_scale, stream));
    GPU_TRY(kernel_sum(loss->sum, loss->per_target, rows, stream));
    GPU_TRY(cudaMemcpyAsync(loss->host_sum, loss->sum, sizeof(float), cudaMemcpyDeviceToHost, stream));
    return EXIT_OK;
}

int loss_enqueue_evaluation(struct loss *loss, const void *logits, const int32_t *labels, size_t samples,
                            cudaStream_t stream)
{
    const struct model *model = loss->model;

    TRY(loss_enqueue(loss, NULL, logits, labels, samples, 0, stream));
    GPU_TRY(kernel_count_correct(model->settings.type, loss->correct, logits, labels, samples * model->targets,
                                 model->classes, stream));
    GPU_TRY(cudaMemcpyAsync(loss->host_correct, loss->correct, sizeof(int32_t), cudaMemcpyDeviceToHost, stream));
    return EXIT_OK;
}
