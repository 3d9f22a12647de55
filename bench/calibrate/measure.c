/* SPDX-License-Identifier: MIT
 *
 * Micro-measurements of devices. Device times come from a pair of events round a row of operations that stands behind a
 * long one, so that the host's launches are not in them; host times from the clock round one call. Medians of ROUNDS.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "calibrate.h"
#include "gpu/backend.h"
#include "kernels/kernels.h"
#include "product_peak.h"
#include "sys/clock.h"
#include "sys/exit_codes.h"
#include "sys/fault.h"
#include "sys/log.h"

#define ROW 32 /* operations in a row */
#define SMALL_COPY ((size_t)4096)

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values)
{
    qsort(values, ROUNDS, sizeof(*values), compare);
    return values[ROUNDS / 2];
}

int bench_open(struct bench *bench, int device)
{
    *bench = (struct bench){.device = device};
    GPU_TRY(cudaSetDevice(device));
    GPU_TRY(cudaStreamCreateWithFlags(&bench->stream, cudaStreamNonBlocking));
    GPU_TRY(cudaEventCreateWithFlags(&bench->first, cudaEventDefault));
    GPU_TRY(cudaEventCreateWithFlags(&bench->last, cudaEventDefault));
    GPU_TRY(cublasCreate(&bench->blas));
    GPU_TRY(cublasSetStream(bench->blas, bench->stream));
    float **arrays[] = {&bench->a, &bench->b, &bench->c};
    for (int i = 0; i < 3; i++) {
        GPU_TRY(cudaMalloc((void **)arrays[i], BLOCKER * sizeof(float)));
        GPU_TRY(kernel_random_normal(*arrays[i], BLOCKER, 1, (uint64_t)i + 1, 0.02f, bench->stream));
    }
    GPU_TRY(cudaMallocHost((void **)&bench->host, LARGE_COPY));
    GPU_TRY(cudaStreamSynchronize(bench->stream));
    return gpu_clock_anchor(device, bench->stream);
}

void bench_close(struct bench *bench)
{
    (void)cudaSetDevice(bench->device);
    (void)cudaFree(bench->a);
    (void)cudaFree(bench->b);
    (void)cudaFree(bench->c);
    (void)cudaFreeHost(bench->host);
    (void)cublasDestroy(bench->blas);
    (void)cudaEventDestroy(bench->first);
    (void)cudaEventDestroy(bench->last);
    (void)cudaStreamDestroy(bench->stream);
}

/* ---- operations ----------------------------------------------------------------------------------------------------
 */

static int empty(struct bench *bench)
{
    GPU_TRY(kernel_empty(bench->stream));
    return EXIT_OK;
}

int bench_stream_memory(struct bench *bench)
{
    GPU_TRY(kernel_copy_scale(ELEMENT_F32, bench->b, bench->a, 1, bench->size, bench->stream));
    return EXIT_OK;
}

int bench_product(struct bench *bench)
{
    static const float one = 1, zero = 0;
    int n = (int)bench->size;
    GPU_TRY(cublasGemmEx(bench->blas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, bench->a, CUDA_R_32F, n, bench->b,
                         CUDA_R_32F, n, &zero, bench->c, CUDA_R_32F, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    return EXIT_OK;
}

static int copy_up(struct bench *bench)
{
    GPU_TRY(cudaMemcpyAsync(bench->host, bench->a, bench->size, cudaMemcpyDeviceToHost, bench->stream));
    return EXIT_OK;
}

static int copy_down(struct bench *bench)
{
    GPU_TRY(cudaMemcpyAsync(bench->a, bench->host, bench->size, cudaMemcpyHostToDevice, bench->stream));
    return EXIT_OK;
}

static int copy_peer(struct bench *bench)
{
    GPU_TRY(cudaMemcpyPeerAsync(bench->remote, bench->peer, bench->a, bench->device, bench->size, bench->stream));
    return EXIT_OK;
}

static int record(struct bench *bench)
{
    GPU_TRY(cudaEventRecord(bench->first, bench->stream));
    return EXIT_OK;
}

static int synchronize(struct bench *bench)
{
    GPU_TRY(cudaStreamSynchronize(bench->stream));
    return EXIT_OK;
}

/* ---- how long -------------------------------------------------------------------------------------------------------
 */

/* Device seconds of one operation in a row of them. */
static int device_time(struct bench *bench, operation *run, int row, double *seconds)
{
    double values[ROUNDS];
    TRY(run(bench)); /* caches, primitives */
    for (int round = 0; round < ROUNDS; round++) {
        double first = 0, last = 0;
        GPU_TRY(kernel_copy_scale(ELEMENT_F32, bench->c, bench->b, 1, BLOCKER, bench->stream));
        GPU_TRY(cudaEventRecord(bench->first, bench->stream));
        for (int i = 0; i < row; i++)
            TRY(run(bench));
        GPU_TRY(cudaEventRecord(bench->last, bench->stream));
        GPU_TRY(cudaStreamSynchronize(bench->stream));
        TRY(gpu_event_time(bench->first, &first));
        TRY(gpu_event_time(bench->last, &last));
        values[round] = (last - first) / row;
    }
    *seconds = bench_median(values);
    return EXIT_OK;
}

/* Host seconds of one call in a row of them, while the device is held back. */
static int host_time(struct bench *bench, operation *run, bool held, double *seconds)
{
    double values[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        if (held)
            GPU_TRY(kernel_copy_scale(ELEMENT_F32, bench->c, bench->b, 1, BLOCKER, bench->stream));
        double start = clock_seconds();
        for (int i = 0; i < ROW; i++)
            TRY(run(bench));
        values[round] = (clock_seconds() - start) / ROW;
        GPU_TRY(cudaStreamSynchronize(bench->stream));
    }
    *seconds = bench_median(values);
    return EXIT_OK;
}

/* From the return of a call that enqueues on an idle stream to the moment its task is done; the task takes no time. */
static int start_time(struct bench *bench, double *seconds)
{
    double values[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        double happened = 0;
        GPU_TRY(cudaEventRecord(bench->first, bench->stream));
        double returned = clock_seconds();
        GPU_TRY(cudaStreamSynchronize(bench->stream));
        TRY(gpu_event_time(bench->first, &happened));
        values[round] = happened > returned ? happened - returned : 0;
    }
    *seconds = bench_median(values);
    return EXIT_OK;
}

/* Two sizes give latency and rate. */
static int link_time(struct bench *bench, operation *run, struct link_figure *link)
{
    double small = 0, large = 0;
    bench->size = SMALL_COPY;
    TRY(device_time(bench, run, ROW, &small));
    bench->size = LARGE_COPY;
    TRY(device_time(bench, run, 2, &large));
    link->bytes_per_s = (double)(LARGE_COPY - SMALL_COPY) / (large > small ? large - small : 1e-9);
    link->latency_s = fmax(small - (double)SMALL_COPY / link->bytes_per_s, 0);
    return EXIT_OK;
}

/* ---- all
 * ------------------------------------------------------------------------------------------------------------- */

/* The fault "launch-time" reads the host's clock round the launches, as people do. */
static int product_time(struct bench *bench, double *seconds)
{
    if (fault_planted("launch-time", bench->device, 0))
        return host_time(bench, bench_product, true, seconds);
    return device_time(bench, bench_product, bench->size > 512 ? 2 : 8, seconds);
}

/* Rates of squares, less an empty kernel. Where a small one ends so soon that what is left would be a rate above all
 * that the device can do, the two can't be told apart: no figure. */
static int measure_products(struct bench *bench, struct figures *figures, size_t largest)
{
    struct product_units units;
    TRY(product_units_read(&units, bench->device));
    const double peak = product_peak(&units, ELEMENT_F32);
    for (size_t n = 32; n <= largest && figures->product_count < CALIBRATE_SIZES; n *= 2) {
        const double flops = 2.0 * (double)n * (double)n * (double)n;
        char what[64];
        double seconds = 0;
        bench->size = n;
        TRY(product_time(bench, &seconds));
        snprintf(what, sizeof(what), "product of %zu x %zu by %zu x %zu", n, n, n, n);
        TRY(product_rate_check(what, flops, seconds, ELEMENT_F32, bench->device));
        seconds -= figures->kernel_s;
        if (flops > seconds * peak) {
            log_warning("%s: takes no longer than an empty kernel: left out", what);
            continue;
        }
        figures->product_size[figures->product_count] = (double)n;
        figures->product_flops_per_s[figures->product_count++] = flops / seconds;
    }
    return EXIT_OK;
}

static int measure_host(struct bench *bench, struct figures *figures)
{
    bench->size = SMALL_COPY;
    TRY(host_time(bench, empty, true, &figures->launch_s));
    TRY(host_time(bench, record, true, &figures->event_s));
    TRY(host_time(bench, copy_up, true, &figures->copy_call_s));
    TRY(host_time(bench, synchronize, false, &figures->sync_s));
    return start_time(bench, &figures->start_s);
}

static int measure_pairs(struct bench *bench, struct figures *figures)
{
    for (int to = 0; to < figures->devices; to++) {
        if (to == bench->device)
            continue;
        int can = 0;
        GPU_TRY(cudaDeviceCanAccessPeer(&can, bench->device, to));
        if (!can)
            continue;
        GPU_TRY(cudaSetDevice(to));
        GPU_TRY(cudaMalloc((void **)&bench->remote, LARGE_COPY));
        GPU_TRY(cudaSetDevice(bench->device));
        GPU_TRY(cudaDeviceEnablePeerAccess(to, 0));
        bench->peer = to;
        TRY(link_time(bench, copy_peer, &figures->pair[bench->device][to]));
        GPU_TRY(cudaSetDevice(to));
        GPU_TRY(cudaFree(bench->remote));
        GPU_TRY(cudaSetDevice(bench->device));
    }
    return EXIT_OK;
}

static int measure_first(struct bench *bench, struct figures *figures)
{
    double seconds = 0;
    bool soft = gpu_backend_name()[0] == 's';
    TRY(measure_host(bench, figures));
    TRY(device_time(bench, empty, ROW, &figures->kernel_s));
    bench->size = STREAM_ELEMENTS;
    TRY(device_time(bench, bench_stream_memory, 4, &seconds));
    figures->memory_bytes_per_s = 8.0 * (double)STREAM_ELEMENTS / fmax(seconds - figures->kernel_s, 1e-9);
    TRY(measure_products(bench, figures, soft ? 1024 : 2048));
    TRY(link_time(bench, copy_up, &figures->host_up));
    return link_time(bench, copy_down, &figures->host_down);
}

int measure_devices(struct figures *figures)
{
    struct cudaDeviceProp properties;
    char cores[64];
    GPU_TRY(cudaGetDeviceProperties(&properties, 0));
    figures->memory_bytes = (double)properties.totalGlobalMem;
    TRY(gpu_device_describe(0, figures->device_name, sizeof(figures->device_name), cores, sizeof(cores)));
    for (int device = 0; device < figures->devices; device++) {
        struct bench bench;
        int status = bench_open(&bench, device);
        if (!status && device == 0)
            status = measure_first(&bench, figures);
        if (!status)
            status = measure_pairs(&bench, figures);
        bench_close(&bench);
        TRY(status);
    }
    return EXIT_OK;
}
