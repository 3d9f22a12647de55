/* SPDX-License-Identifier: MIT
 *
 *     gbench-VENDOR [--benchmark_filter=RE] [--benchmark_out=FILE]
 *
 * Launch cost, memory rate of each kernel, rate of the mlp's products, and the mlp's floor, on one device (of one core, if soft).
 * An iteration enqueues LAUNCHES launches and waits for them, so the wait is shared by all.
 */
#include <stddef.h>

#include "gbench_shim.h"
#include "kernels/kernels.h"
#include "product_peak.h"
#include "sys/clock.h"
#include "sys/exit_codes.h"
#include "sys/log.h"
#include "workload.h"

#define LAUNCHES 10
#define ELEMENTS ((size_t)1 << 22)  /* 16 MiB a buffer: beyond a core's level 2 cache */
#define BATCH 128
#define WIDTH 1024
#define CLASSES 32768
#define KEYS 256        /* attention as gpt-micro's last block: 64 queries that see 193 to 256 keys, 6 heads of 64 columns */
#define QUERIES 64
#define HEADS 6

static struct bench_device device;
static float *buffers[4];  /* of ELEMENTS floats each */
static int32_t *labels;    /* [BATCH], 0 */
static int impossible;     /* EXIT_CHECK_FAILED: a rate above all that the device can do */

/* ---- kernels --------------------------------------------------------------------------------------------------------------- */

struct kernel {
    const char *name;
    cudaError_t (*launch)(void);
    double bytes;  /* of one launch, each buffer counted once */
};

#define Y buffers[0]
#define N ELEMENTS, device.stream
#define F32 ELEMENT_F32
static cudaError_t fill(void) { return kernel_fill(Y, 1, N); }
static cudaError_t scale(void) { return kernel_scale(F32, Y, 1, N); }
static cudaError_t copy_scale(void) { return kernel_copy_scale(F32, Y, buffers[1], 0.5f, N); }
static cudaError_t add(void) { return kernel_add(F32, Y, buffers[1], N); }
static cudaError_t cast_f32_bf16(void) { return kernel_cast(ELEMENT_BF16, Y, F32, buffers[1], N); }
static cudaError_t cast_bf16_f32(void) { return kernel_cast(F32, Y, ELEMENT_BF16, buffers[1], N); }
static cudaError_t cast_f32_f16(void) { return kernel_cast(ELEMENT_F16, Y, F32, buffers[1], N); }
static cudaError_t cast_f16_f32(void) { return kernel_cast(F32, Y, ELEMENT_F16, buffers[1], N); }
static cudaError_t bias(void) { return kernel_bias(F32, Y, buffers[1], ELEMENTS / WIDTH, WIDTH, device.stream); }
static cudaError_t bias_relu(void) { return kernel_bias_relu(F32, Y, buffers[1], ELEMENTS / WIDTH, WIDTH, device.stream); }
static cudaError_t relu_backward(void) { return kernel_relu_backward(F32, Y, buffers[1], buffers[2], N); }
static cudaError_t gelu_forward(void) { return kernel_gelu_forward(F32, Y, buffers[1], N); }
static cudaError_t gelu_backward(void) { return kernel_gelu_backward(F32, Y, buffers[1], buffers[2], N); }
static cudaError_t sum(void) { return kernel_sum(Y, buffers[1], N); }
static cudaError_t column_sums(void)
{
    return kernel_column_sums(F32, Y, buffers[1], ELEMENTS / WIDTH, WIDTH, 0, device.stream);
}
static cudaError_t softmax(void)
{
    return kernel_softmax_cross_entropy(F32, buffers[3], Y, buffers[1], labels, BATCH, CLASSES, 1, NULL, device.stream);
}
static cudaError_t count_correct(void)
{
    return kernel_count_correct(F32, (int32_t *)(void *)Y, buffers[1], labels, BATCH, CLASSES, device.stream);
}
static cudaError_t sgd(void)
{
    const struct update update = {.p = Y, .g = buffers[1], .n = ELEMENTS};
    return kernel_sgd(&update, buffers[2], 0, 0.9f, 0, 0, 0, device.stream);
}
static cudaError_t sgd_bf16(void)
{
    const struct update update = {
        .p = Y, .working = buffers[3], .type = ELEMENT_BF16, .g = buffers[1], .n = ELEMENTS};
    return kernel_sgd(&update, buffers[2], 0, 0.9f, 0, 0, 0, device.stream);
}
static cudaError_t adamw(void)
{
    const struct update update = {.p = Y, .g = buffers[1], .n = ELEMENTS};
    return kernel_adam(&update, buffers[2], buffers[3], 0, 0.9f, 0.999f, 1e-8f, 0, 1, 1, device.stream);
}
static cudaError_t random_normal(void) { return kernel_random_normal(Y, ELEMENTS, 1, 1, 1, device.stream); }

/* ---- of a transformer, in fp32 and bf16 ---- */

#define SCORES ELEMENTS / KEYS, KEYS, QUERIES, KEYS - QUERIES, 0.125f, device.stream
#define TOKENS (ELEMENTS / KEYS / (HEADS * 64) * KEYS)  /* a whole number of samples of KEYS tokens */
#define SEEN ((KEYS - 0.5 * (QUERIES - 1)) / KEYS)      /* the share of the scores that is read */
#define BF16 ELEMENT_BF16
static cudaError_t softmax_forward(enum element_type type)
{
    return kernel_causal_softmax_forward(type, Y, buffers[2], buffers[3], SCORES);
}
static cudaError_t softmax_backward(enum element_type type)
{
    return kernel_causal_softmax_backward(type, Y, buffers[1], buffers[2], buffers[3], SCORES);
}
static cudaError_t heads_merge(enum element_type type)
{
    return kernel_heads_merge(type, Y, buffers[1], TOKENS / KEYS, KEYS, HEADS, 64, 1, device.stream);
}
static cudaError_t layernorm(enum element_type type)
{
    float *gamma = buffers[2], *statistics = buffers[3];
    return kernel_layernorm_forward(type, Y, statistics, statistics + ELEMENTS / WIDTH, buffers[1], NULL, NULL, gamma, gamma,
                                    ELEMENTS / WIDTH, WIDTH, 1e-5f, device.stream);
}
static cudaError_t causal_softmax_forward(void) { return softmax_forward(F32); }
static cudaError_t causal_softmax_forward_bf16(void) { return softmax_forward(BF16); }
static cudaError_t causal_softmax_backward(void) { return softmax_backward(F32); }
static cudaError_t causal_softmax_backward_bf16(void) { return softmax_backward(BF16); }
static cudaError_t heads_merge_f32(void) { return heads_merge(F32); }
static cudaError_t heads_merge_bf16(void) { return heads_merge(BF16); }
static cudaError_t layernorm_forward(void) { return layernorm(F32); }
static cudaError_t layernorm_forward_bf16(void) { return layernorm(BF16); }
static cudaError_t gelu_forward_bf16(void) { return kernel_gelu_forward(BF16, Y, buffers[1], N); }
static cudaError_t gelu_backward_bf16(void) { return kernel_gelu_backward(BF16, Y, buffers[1], buffers[2], N); }

static const struct kernel kernels[] = {
    {"fill", fill, 4.0 * ELEMENTS},
    {"scale", scale, 8.0 * ELEMENTS},
    {"copy_scale", copy_scale, 8.0 * ELEMENTS},
    {"add", add, 12.0 * ELEMENTS},
    {"cast_f32_bf16", cast_f32_bf16, 6.0 * ELEMENTS},
    {"cast_bf16_f32", cast_bf16_f32, 6.0 * ELEMENTS},
    {"cast_f32_f16", cast_f32_f16, 6.0 * ELEMENTS},
    {"cast_f16_f32", cast_f16_f32, 6.0 * ELEMENTS},
    {"bias", bias, 8.0 * ELEMENTS},
    {"bias_relu", bias_relu, 8.0 * ELEMENTS},
    {"relu_backward", relu_backward, 12.0 * ELEMENTS},
    {"gelu_forward", gelu_forward, 8.0 * ELEMENTS},
    {"gelu_backward", gelu_backward, 12.0 * ELEMENTS},
    {"sum", sum, 4.0 * ELEMENTS},
    {"column_sums", column_sums, 4.0 * ELEMENTS},
    {"softmax_cross_entropy", softmax, 8.0 * BATCH * CLASSES},
    {"count_correct", count_correct, 4.0 * BATCH * CLASSES},
    {"random_normal", random_normal, 4.0 * ELEMENTS},
    {"adamw", adamw, 28.0 * ELEMENTS},
    {"sgd_momentum", sgd, 20.0 * ELEMENTS},
    {"sgd_bf16", sgd_bf16, 20.0 * ELEMENTS},
    {"causal_softmax_forward", causal_softmax_forward, 4.0 * (SEEN + 1) * ELEMENTS},
    {"causal_softmax_forward_bf16", causal_softmax_forward_bf16, 2.0 * (SEEN + 1) * ELEMENTS},
    {"causal_softmax_backward", causal_softmax_backward, 8.0 * (SEEN + 1) * ELEMENTS},
    {"causal_softmax_backward_bf16", causal_softmax_backward_bf16, 4.0 * (SEEN + 1) * ELEMENTS},
    {"heads_merge", heads_merge_f32, 8.0 * TOKENS * HEADS * 64},
    {"heads_merge_bf16", heads_merge_bf16, 4.0 * TOKENS * HEADS * 64},
    {"layernorm_forward", layernorm_forward, 8.0 * ELEMENTS},
    {"layernorm_forward_bf16", layernorm_forward_bf16, 4.0 * ELEMENTS},
    {"gelu_forward_bf16", gelu_forward_bf16, 4.0 * ELEMENTS},
    {"gelu_backward_bf16", gelu_backward_bf16, 6.0 * ELEMENTS},
};

static void run_kernel(struct gbench_state *state, const void *argument)
{
    const struct kernel *kernel = argument;
    while (gbench_keep_running(state)) {
        cudaError_t error = cudaSuccess;
        for (int i = 0; i < LAUNCHES && error == cudaSuccess; i++)
            error = kernel->launch();
        if (error == cudaSuccess)
            error = cudaStreamSynchronize(device.stream);
        if (error != cudaSuccess)
            gbench_fail(state, cudaGetErrorString(error));
    }
    gbench_set_rate(state, "bytes", LAUNCHES * kernel->bytes);
}

/* ---- products --------------------------------------------------------------------------------------------------------------- */

struct product {
    const char *name;
    cublasOperation_t op_a, op_b;
    size_t rows, columns, k;
};

static const struct product products[] = {
    {"product/forward 128x1024x1024", CUBLAS_OP_N, CUBLAS_OP_T, BATCH, WIDTH, WIDTH},
    {"product/weight_gradient 1024x1024x128", CUBLAS_OP_T, CUBLAS_OP_N, WIDTH, WIDTH, BATCH},
    {"product/input_gradient 128x1024x1024", CUBLAS_OP_N, CUBLAS_OP_N, BATCH, WIDTH, WIDTH},
    {"product/forward 128x1024x784", CUBLAS_OP_N, CUBLAS_OP_T, BATCH, WIDTH, 784},
    {"product/forward 128x10x1024", CUBLAS_OP_N, CUBLAS_OP_T, BATCH, 10, WIDTH},
    {"product/forward 32x1024x1024", CUBLAS_OP_N, CUBLAS_OP_T, 32, WIDTH, WIDTH},
    {"product/square 1024x1024x1024", CUBLAS_OP_N, CUBLAS_OP_N, WIDTH, WIDTH, WIDTH},
};

static void run_product(struct gbench_state *state, const void *argument)
{
    const struct product *p = argument;
    const double flops = LAUNCHES * 2.0 * (double)(p->rows * p->columns * p->k), start = clock_seconds();
    double iterations = 0;
    for (; gbench_keep_running(state); iterations++) {
        int status = 0;
        for (int i = 0; i < LAUNCHES && !status; i++)
            status = bench_product(&device, Y, buffers[1], p->op_a, buffers[2], p->op_b, p->rows, p->columns, p->k);
        if (status || cudaStreamSynchronize(device.stream) != cudaSuccess)
            gbench_fail(state, "the product failed");
    }
    if (product_rate_check(p->name, flops * iterations, clock_seconds() - start, ELEMENT_F32, 0)) {
        impossible = EXIT_CHECK_FAILED;
        gbench_fail(state, "a rate that no device reaches");
    }
    gbench_set_rate(state, "FLOP", flops);
}

/* ---- launch cost and the mlp's floor ----------------------------------------------------------------------------------------- */

static void run_launch(struct gbench_state *state, const void *argument)
{
    (void)argument;
    double microseconds = 0;
    while (gbench_keep_running(state))
        if (bench_launch_cost(&device, 10000, &microseconds))
            gbench_fail(state, "the empty kernel failed");
    gbench_set_figure(state, "us_per_launch", microseconds);
}

static void run_floor(struct gbench_state *state, const void *argument)
{
    (void)argument;
    struct mlp_floor floor;
    if (mlp_floor_open(&floor, &device, BATCH))
        gbench_fail(state, "no memory for the mlp");
    while (gbench_keep_running(state))
        if (mlp_floor_products(&floor, &device) || mlp_floor_sgd(&floor, &device) || cudaStreamSynchronize(device.stream) != cudaSuccess)
            gbench_fail(state, "a product or the update failed");
    gbench_set_rate(state, "samples", BATCH);
    mlp_floor_close(&floor);
}

static int open_all(void)
{
    TRY(bench_open(&device));
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++) {
        buffers[i] = bench_floats(&device, ELEMENTS);
        if (!buffers[i])
            return EXIT_RESOURCE;
    }
    GPU_TRY(cudaMalloc((void **)&labels, BATCH * sizeof *labels));
    GPU_TRY(cudaMemsetAsync(labels, 0, BATCH * sizeof *labels, device.stream));
    GPU_TRY(cudaStreamSynchronize(device.stream));
    return 0;
}

static void close_all(void)
{
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++)
        cudaFree(buffers[i]);
    cudaFree(labels);
    bench_close(&device);
}

int main(int argc, char **argv)
{
    log_set_program("gbench-" GPU_VENDOR_NAME);
    TRY(open_all());
    gbench_register("launch", run_launch, NULL);
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0]; i++)
        gbench_register(kernels[i].name, run_kernel, &kernels[i]);
    for (size_t i = 0; i < sizeof products / sizeof products[0]; i++)
        gbench_register(products[i].name, run_product, &products[i]);
    gbench_register("mlp_floor", run_floor, NULL);
    const int status = gbench_run(argc, argv);
    close_all();
    return status ? status : impossible;
}
