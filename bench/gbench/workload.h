/* SPDX-License-Identifier: MIT
 *
 * What is measured, apart from how: a device with a stream and a handle, the products and the update of one step of the mlp,
 * and the cost of a launch. Used by floor.c (plain) and benchmarks.c (Google Benchmark).
 */
#ifndef BENCH_WORKLOAD_H
#define BENCH_WORKLOAD_H

#include <stddef.h>

#include "gpu/gpu.h"

struct bench_device {
    cudaStream_t stream;
    cublasHandle_t blas;
};

/* Device 0 (of one core, if it is a soft GPU), ready for use. Returns 0 or an exit code (reported). */
int bench_open(struct bench_device *device);
void bench_close(struct bench_device *device);

/* Device memory of normal random numbers; NULL: reported. Freed by cudaFree. */
float *bench_floats(const struct bench_device *device, size_t n);

/* Row-major C [rows][columns] = op(A) op(B), sums of length k. */
int bench_product(const struct bench_device *device, float *c, const float *a, cublasOperation_t op_a, const float *b,
                  cublasOperation_t op_b, size_t rows, size_t columns, size_t k);

/* Median host time of one of `launches` launches of the empty kernel, in microseconds, into *microseconds. */
int bench_launch_cost(const struct bench_device *device, int launches, double *microseconds);

/* The mlp 784 - 1024 x 4 - 10 reduced to what no implementation can leave out: its products and SGD with momentum. */
#define FLOOR_LAYERS 5
struct mlp_floor {
    size_t batch, parameters;
    size_t width[FLOOR_LAYERS + 1];
    float *weights, *gradients, *momentum;        /* flat */
    size_t offset[FLOOR_LAYERS];                  /* of each layer's weight in them, elements */
    float *activation[FLOOR_LAYERS + 1];          /* [batch][width] */
    float *gradient[FLOOR_LAYERS + 1];            /* of the activations; [0] is NULL */
};

int mlp_floor_open(struct mlp_floor *floor, const struct bench_device *device, size_t batch);
void mlp_floor_close(struct mlp_floor *floor);
double mlp_floor_flops(const struct mlp_floor *floor);  /* of the products of one step */
/* Each enqueues its part of one step. Return 0 or an exit code (reported). */
int mlp_floor_products(const struct mlp_floor *floor, const struct bench_device *device);
int mlp_floor_sgd(const struct mlp_floor *floor, const struct bench_device *device);

#endif
