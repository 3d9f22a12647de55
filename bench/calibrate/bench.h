/* SPDX-License-Identifier: MIT
 *
 * What the measurements share: a device with a stream, arrays and events.
 */
#ifndef CALIBRATE_BENCH_H
#define CALIBRATE_BENCH_H

#include <stddef.h>

#include "gpu/gpu.h"

#define ROUNDS 9                  /* of each measurement */
#define BLOCKER ((size_t)8 << 20) /* elements of an array, and of the kernel that holds a row back */
#define STREAM_ELEMENTS ((size_t)4 << 20)
#define LARGE_COPY ((size_t)16 << 20)

struct bench {
    int device, peer;
    cudaStream_t stream;
    cublasHandle_t blas;
    cudaEvent_t first, last;
    float *a, *b, *c;
    char *host, *remote; /* pinned; on the peer */
    size_t size;         /* of the operation measured */
};

typedef int operation(struct bench *bench);

/* measure.c. Makes `device` the current one; 0 or an exit code (reported). */
int bench_open(struct bench *bench, int device);
void bench_close(struct bench *bench); /* also what was opened in part */

int bench_stream_memory(struct bench *bench); /* reads `size` floats of a, writes b */
int bench_product(struct bench *bench);       /* c = a b, squares of `size` */

/* Of ROUNDS values; sorts them. */
double bench_median(double *values);

#endif
