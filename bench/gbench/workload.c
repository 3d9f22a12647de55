/* SPDX-License-Identifier: MIT */
#include "workload.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/backend.h"
#include "kernels/kernels.h"
#include "sys/clock.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

int bench_open(struct bench_device *device)
{
    memset(device, 0, sizeof *device);
    const struct gpu_settings settings = {.cores_per_device = 1, .devices_used = 1, .collective_limit_s = 30};
    int devices = 0;
    TRY(gpu_configure(&settings));
    TRY(gpu_device_count(&devices));
    GPU_TRY(cudaSetDevice(0));
    GPU_TRY(cudaStreamCreateWithFlags(&device->stream, cudaStreamNonBlocking));
    GPU_TRY(cublasCreate(&device->blas));
    GPU_TRY(cublasSetStream(device->blas, device->stream));
    return 0;
}

void bench_close(struct bench_device *device)
{
    if (device->blas)
        cublasDestroy(device->blas);
    if (device->stream)
        cudaStreamDestroy(device->stream);
}

static int allocate(const struct bench_device *device, float **memory, size_t n)
{
    GPU_TRY(cudaMalloc((void **)memory, n * sizeof **memory));
    GPU_TRY(kernel_random_normal(*memory, n, 1, 1, 0.02f, device->stream));
    GPU_TRY(cudaStreamSynchronize(device->stream));
    return 0;
}

float *bench_floats(const struct bench_device *device, size_t n)
{
    float *memory = NULL;
    return allocate(device, &memory, n) ? NULL : memory;
}

int bench_product(const struct bench_device *device, float *c, const float *a, cublasOperation_t op_a, const float *b,
                  cublasOperation_t op_b, size_t rows, size_t columns, size_t k)
{
    /* Row-major C is column-major C^T = op(B)^T op(A)^T. */
    static const float one = 1, zero = 0;
    const int lda = (int)(op_a == CUBLAS_OP_N ? k : rows), ldb = (int)(op_b == CUBLAS_OP_N ? columns : k);
    GPU_TRY(cublasGemmEx(device->blas, op_b, op_a, (int)columns, (int)rows, (int)k, &one, b, CUDA_R_32F, ldb, a, CUDA_R_32F, lda,
                         &zero, c, CUDA_R_32F, (int)columns, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    return 0;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int bench_launch_cost(const struct bench_device *device, int launches, double *microseconds)
{
    double *times = malloc((size_t)launches * sizeof *times);
    if (!times) {
        log_error("no memory for %d times", launches);
        return EXIT_RESOURCE;
    }
    int status = 0;
    for (int i = 0; i < launches && !status; i++) {
        const uint64_t start = clock_nanoseconds();
        status = GPU_STATUS(kernel_empty(device->stream));
        times[i] = (double)(clock_nanoseconds() - start) * 1e-3;
    }
    if (!status)
        status = GPU_STATUS(cudaStreamSynchronize(device->stream));
    qsort(times, (size_t)launches, sizeof *times, compare_doubles);
    *microseconds = times[launches / 2];
    free(times);
    return status;
}

/* ---- the mlp's floor ---------------------------------------------------------------------------------------------------- */

int mlp_floor_open(struct mlp_floor *floor, const struct bench_device *device, size_t batch)
{
    const size_t widths[FLOOR_LAYERS + 1] = {784, 1024, 1024, 1024, 1024, 10};
    memset(floor, 0, sizeof *floor);
    floor->batch = batch;
    memcpy(floor->width, widths, sizeof widths);
    for (int layer = 0; layer < FLOOR_LAYERS; layer++) {
        floor->offset[layer] = floor->parameters;
        floor->parameters += widths[layer] * widths[layer + 1] + (widths[layer + 1] + 63) / 64 * 64; /* weight, bias */
    }
    TRY(allocate(device, &floor->weights, floor->parameters));
    TRY(allocate(device, &floor->gradients, floor->parameters));
    TRY(allocate(device, &floor->momentum, floor->parameters));
    for (int layer = 0; layer <= FLOOR_LAYERS; layer++) {
        TRY(allocate(device, &floor->activation[layer], batch * widths[layer]));
        if (layer > 0)
            TRY(allocate(device, &floor->gradient[layer], batch * widths[layer]));
    }
    return 0;
}

void mlp_floor_close(struct mlp_floor *floor)
{
    cudaFree(floor->weights);
    cudaFree(floor->gradients);
    cudaFree(floor->momentum);
    for (int layer = 0; layer <= FLOOR_LAYERS; layer++) {
        cudaFree(floor->activation[layer]);
        cudaFree(floor->gradient[layer]);
    }
}

/* Forward, weight gradients, and input gradients of all layers but the first: 2 FLOPs each. */
double mlp_floor_flops(const struct mlp_floor *floor)
{
    double products = 0;
    for (int layer = 0; layer < FLOOR_LAYERS; layer++)
        products += (layer == 0 ? 2.0 : 3.0) * (double)(floor->width[layer] * floor->width[layer + 1]);
    return 2.0 * (double)floor->batch * products;
}

int mlp_floor_products(const struct mlp_floor *floor, const struct bench_device *device)
{
    for (int l = 0; l < FLOOR_LAYERS; l++)
        TRY(bench_product(device, floor->activation[l + 1], floor->activation[l], CUBLAS_OP_N, floor->weights + floor->offset[l],
                          CUBLAS_OP_T, floor->batch, floor->width[l + 1], floor->width[l]));
    for (int l = FLOOR_LAYERS - 1; l >= 0; l--) {
        TRY(bench_product(device, floor->gradients + floor->offset[l], floor->gradient[l + 1], CUBLAS_OP_T, floor->activation[l],
                          CUBLAS_OP_N, floor->width[l + 1], floor->width[l], floor->batch));
        if (l > 0)
            TRY(bench_product(device, floor->gradient[l], floor->gradient[l + 1], CUBLAS_OP_N, floor->weights + floor->offset[l],
                              CUBLAS_OP_N, floor->batch, floor->width[l], floor->width[l + 1]));
    }
    return 0;
}

int mlp_floor_sgd(const struct mlp_floor *floor, const struct bench_device *device)
{
    /* A learning rate of 0: the same work, and the numbers stay what they are. */
    const struct update update = {.p = floor->weights, .g = floor->gradients, .n = floor->parameters};
    GPU_TRY(kernel_sgd(&update, floor->momentum, 0, 0.9f, 0, 0, 0, device->stream));
    return 0;
}
