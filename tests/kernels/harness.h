/* SPDX-License-Identifier: MIT
 *
 * The harness of the kernel tests: one program for each vendor, so that the same cases run on soft GPUs and on real ones.
 * It needs no test library: it is carried to machines that have none.
 *
 * A case makes its inputs from fixed random numbers, runs a kernel on buffers that stand between guard bytes, and checks the
 * result against a reference in double. Each checked result can be written to a file (--dump) and compared with a file that
 * another backend wrote (--compare, within the case's tolerance) or another number of cores (--identical, bit for bit).
 */
#ifndef TESTS_KERNELS_HARNESS_H
#define TESTS_KERNELS_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/gpu.h"

struct test_case {
    const char *name;
    void (*run)(const void *argument);
    const void *argument;
};

/* A list that ends with a NULL name. */
extern const struct test_case elementwise_cases[], matrix_cases[], softmax_cases[], optimizer_cases[], control_cases[],
    product_cases[], attention_cases[], layer_cases[], lstm_cases[], batch_norm_cases[], convolution_cases[],
    im2col_cases[];

extern cudaStream_t test_stream;

/* Sizes that a vector width, a pack, a warp and a block do and don't divide; the last one fills several parts. */
extern const size_t test_sizes[];
extern const size_t test_size_count;

/* ---- device buffers between guards ------------------------------------------------------------------------------------- */

/* A device copy of host[bytes]; the pointer is a multiple of 256 plus `offset` (0 or 4: not fit for packs). */
void *test_device(const void *host, size_t bytes, size_t offset);

/* Checks the guards of all buffers and frees them; at the end of a case it is done anyway. */
void test_release(void);

/* Waits for the stream and reads a buffer that test_device gave, whole. */
void test_read(void *host, const void *device, size_t bytes);

/* A launch failed: the case fails. */
void test_launch(int error, const char *what);
#define LAUNCH(call) test_launch((int)(call), #call)

/* ---- inputs and checks -------------------------------------------------------------------------------------------------- */

/* malloc and calloc that end the program when memory is short; free is the case's. */
void *test_memory(size_t bytes);

/* Normal random numbers; `sequence` names them. */
void test_random(float *x, size_t n, uint32_t sequence);

/* NaN, infinities, zeros, denormals and the largest numbers, spread over x (if n is at least 31). */
void test_specials(float *x, size_t n);

/* Compares NaN first (both or none), then infinities and signs of it, then |got - expected| <= relative |expected| +
 * absolute. The first difference is printed with its place; the label names it in dumps. */
void test_floats(const char *label, const float *got, const double *expected, size_t n, double relative, double absolute);
/* Equality of every byte. */
void test_bytes(const char *label, const void *got, const void *expected, size_t bytes);

void test_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
