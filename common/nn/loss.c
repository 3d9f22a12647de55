/* SPDX-License-Identifier: MIT
 *
 * The loss of one device: the per-sample losses stay there, only their sum (and the count of right answers) goes home.
 */
#include "nn/loss.h"

#include "gpu/memory.h"
#include "kernels/kernels.h"
#include "sys/exit_codes.h"

static int open_all(struct loss *loss)
{
    GPU_TRY(cudaSetDevice(loss->device));
    TRY(gpu_malloc((void **)&loss->per_sample, loss->rows_max * sizeof(float), MEMORY_OUTPUTS));
    TRY(gpu_malloc((void **)&loss->sum, sizeof(float), MEMORY_OUTPUTS));
    TRY(gpu_malloc((void **)&loss->correct, sizeof(int32_t), MEMORY_OUTPUTS));
    TRY(gpu_malloc_pinned((void **)&loss->host_sum, sizeof(float)));
    TRY(gpu_malloc_pinned((void **)&loss->host_correct, sizeof(int32_t)));
    *loss->host_sum = 0;
    *loss->host_correct = 0;
    return EXIT_OK;
}

int loss_open(struct loss *loss, int device, size_t rows_max)
{
    *loss = (struct loss){.device = device, .rows_max = rows_max};
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
    gpu_free(loss->per_sample);
    *loss = (struct loss){0};
}

int loss_enqueue(struct loss *loss, float *d_logits, const float *logits, const int32_t *labels, size_t rows,
                 size_t classes, float scale, cudaStream_t stream)
{
    GPU_TRY(kernel_softmax_cross_entropy(loss->per_sample, d_logits, logits, labels, rows, classes, scale, stream));
    GPU_TRY(kernel_sum(loss->sum, loss->per_sample, rows, stream));
    GPU_TRY(cudaMemcpyAsync(loss->host_sum, loss->sum, sizeof(float), cudaMemcpyDeviceToHost, stream));
    return EXIT_OK;
}

int loss_enqueue_evaluation(struct loss *loss, const float *logits, const int32_t *labels, size_t rows, size_t classes,
                            cudaStream_t stream)
{
    TRY(loss_enqueue(loss, NULL, logits, labels, rows, classes, 0, stream));
    GPU_TRY(kernel_count_correct(loss->correct, logits, labels, rows, classes, stream));
    GPU_TRY(cudaMemcpyAsync(loss->host_correct, loss->correct, sizeof(int32_t), cudaMemcpyDeviceToHost, stream));
    return EXIT_OK;
}
