/* SPDX-License-Identifier: MIT
 *
 * What goes on at the same time slows each other: devices that share a memory system, and kernels beside a collective
 * on their own device. Rounds are interleaved (alone, then together), and medians taken of their ratios.
 */
#include <math.h>

#include "bench.h"
#include "calibrate.h"
#include "gpu/backend.h"
#include "kernels/kernels.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

#define PRODUCT_SIZE 512
#define PRODUCT_ROW 8
#define MEMORY_ROW 4
#define REDUCES 7
#define REDUCE_ELEMENTS ((size_t)1 << 20)
#define KERNELS_LONGER 2 /* than the all-reduces beside them, at least */
#define KERNELS_MOST 100
#define SLOWDOWN_MOST 100 /* of a machine file */

_Static_assert((REDUCES + 1) * REDUCE_ELEMENTS <= BLOCKER,
               "each all-reduce has a place of its own behind what products read");

struct room {
    struct bench bench[CALIBRATE_DEVICES];
    int devices;
    /* of the all-reduces */
    ncclComm_t comm[CALIBRATE_DEVICES];
    cudaStream_t stream[CALIBRATE_DEVICES];
    cudaEvent_t end; /* on device 0 */
};

/* ---- devices -------------------------------------------------------------------------------------------------------
 */

/* Holds the device's stream back, so that what follows is there when it begins. */
static int hold(struct bench *bench)
{
    GPU_TRY(cudaSetDevice(bench->device));
    GPU_TRY(kernel_copy_scale(ELEMENT_F32, bench->c, bench->b, 1, BLOCKER, bench->stream));
    return EXIT_OK;
}

static int between(cudaEvent_t first, cudaEvent_t last, double *seconds)
{
    double begin = 0, end = 0;
    TRY(gpu_event_time(first, &begin));
    TRY(gpu_event_time(last, &end));
    *seconds = end - begin;
    return EXIT_OK;
}

/* Device seconds of a row on device 0 while devices 1 to busy - 1 are at rows twice as long that began before. */
static int row_time(struct room *room, int busy, operation *run, int row, double *seconds)
{
    for (int d = busy - 1; d >= 0; d--) {
        struct bench *bench = &room->bench[d];
        TRY(hold(bench));
        GPU_TRY(cudaEventRecord(bench->first, bench->stream));
        for (int i = 0; i < (d ? 2 * row : row); i++)
            TRY(run(bench));
        GPU_TRY(cudaEventRecord(bench->last, bench->stream));
    }
    for (int d = 0; d < busy; d++)
        GPU_TRY(cudaStreamSynchronize(room->bench[d].stream));
    return between(room->bench[0].first, room->bench[0].last, seconds);
}

/* factors[busy]: how many times as long a row takes while so many devices are at it; 2 to room->devices. */
static int measure_crowd(struct room *room, operation *run, size_t size, int row, double *factors)
{
    for (int d = 0; d < room->devices; d++)
        room->bench[d].size = size;
    for (int busy = 2; busy <= room->devices; busy++) {
        double ratios[ROUNDS], alone = 0, together = 0;
        TRY(row_time(room, busy, run, 1, &together)); /* caches, primitives */
        for (int round = 0; round < ROUNDS; round++) {
            TRY(row_time(room, 1, run, row, &alone));
            TRY(row_time(room, busy, run, row, &together));
            ratios[round] = together / fmax(alone, 1e-9);
        }
        factors[busy] = fmax(bench_median(ratios), 1);
    }
    return EXIT_OK;
}

/* ---- kernels beside a collective -----------------------------------------------------------------------------------
 */

/* Each in a place of its own that no cache holds, as collectives.c measures them: what holds the streams back has gone
 * through the caches. */
static int all_reduce(struct room *room, int place)
{
    int status = EXIT_OK;
    GPU_TRY(ncclGroupStart());
    for (int d = 0; d < room->devices && !status; d++) {
        float *vector = room->bench[d].a + (1 + (size_t)place) * REDUCE_ELEMENTS;
        ncclResult_t error =
            ncclAllReduce(vector, vector, REDUCE_ELEMENTS, ncclFloat32, ncclMax, room->comm[d], room->stream[d]);
        if (error != ncclSuccess) {
            log_error("ncclAllReduce on device %d: %s", d, ncclGetErrorString(error));
            status = EXIT_RESOURCE;
        }
    }
    GPU_TRY(ncclGroupEnd());
    return status;
}

/* Seconds on device 0 of `kernels` products and `reduces` all-reduces that begin together, until both have ended. */
static int beside_time(struct room *room, int kernels, int reduces, double *seconds)
{
    double products = 0, collectives = 0;
    for (int d = room->devices - 1; d >= 0; d--) {
        struct bench *bench = &room->bench[d];
        TRY(hold(bench));
        GPU_TRY(cudaEventRecord(bench->first, bench->stream));
        GPU_TRY(cudaStreamWaitEvent(room->stream[d], bench->first, 0));
        for (int i = 0; i < kernels; i++)
            TRY(bench_product(bench));
        GPU_TRY(cudaEventRecord(bench->last, bench->stream));
    }
    for (int i = 0; i < reduces; i++)
        TRY(all_reduce(room, i));
    GPU_TRY(cudaSetDevice(0));
    GPU_TRY(cudaEventRecord(room->end, room->stream[0]));
    for (int d = 0; d < room->devices; d++) {
        GPU_TRY(cudaStreamSynchronize(room->bench[d].stream));
        GPU_TRY(cudaStreamSynchronize(room->stream[d]));
    }
    TRY(between(room->bench[0].first, room->bench[0].last, &products));
    TRY(between(room->bench[0].first, room->end, &collectives));
    *seconds = reduces ? fmax(products, collectives) : products;
    return EXIT_OK;
}

/* With collectives of C seconds in which kernels are `slowdown` times as slow, C (1 - 1 / slowdown) of their work is
 * left over: the time by which both together take longer than the kernels alone. */
static double slowdown_of(double collectives, double longer)
{
    double kept = collectives - fmax(longer, 0);
    return kept > collectives / SLOWDOWN_MOST ? collectives / kept : SLOWDOWN_MOST;
}

static int measure_beside(struct room *room, double *slowdown)
{
    double values[ROUNDS], collectives = 0, kernels = 0, both = 0;
    for (int d = 0; d < room->devices; d++)
        room->bench[d].size = PRODUCT_SIZE;
    TRY(beside_time(room, 1, 1, &both)); /* buffers, primitives */
    TRY(beside_time(room, PRODUCT_ROW, 0, &kernels));
    TRY(beside_time(room, 0, REDUCES, &collectives));
    int count = (int)fmin(ceil(KERNELS_LONGER * collectives * PRODUCT_ROW / fmax(kernels, 1e-6)), KERNELS_MOST);
    for (int round = 0; round < ROUNDS; round++) {
        TRY(beside_time(room, count, 0, &kernels));
        TRY(beside_time(room, 0, REDUCES, &collectives));
        TRY(beside_time(room, count, REDUCES, &both));
        values[round] = slowdown_of(collectives, both - kernels);
    }
    *slowdown = bench_median(values);
    return EXIT_OK;
}

/* ---- all -----------------------------------------------------------------------------------------------------------
 */

static int open_collectives(struct room *room)
{
    int list[CALIBRATE_DEVICES];
    for (int d = 0; d < room->devices; d++) {
        list[d] = d;
        GPU_TRY(cudaSetDevice(d));
        GPU_TRY(cudaStreamCreateWithFlags(&room->stream[d], cudaStreamNonBlocking));
    }
    GPU_TRY(cudaSetDevice(0));
    GPU_TRY(cudaEventCreateWithFlags(&room->end, cudaEventDefault));
    GPU_TRY(ncclCommInitAll(room->comm, room->devices, list));
    return EXIT_OK;
}

static void close_collectives(struct room *room)
{
    for (int d = 0; d < room->devices; d++) {
        (void)cudaSetDevice(d);
        if (room->comm[d])
            (void)ncclCommDestroy(room->comm[d]);
        (void)cudaStreamDestroy(room->stream[d]);
    }
    (void)cudaEventDestroy(room->end);
}

int measure_together(struct figures *figures)
{
    static struct room room;
    int status = EXIT_OK, opened = 0;
    if (figures->devices < 2)
        return EXIT_OK;
    room = (struct room){.devices = figures->devices};
    while (opened < room.devices && !status)
        status = bench_open(&room.bench[opened], opened), opened++;
    if (!status)
        status = measure_crowd(&room, bench_product, PRODUCT_SIZE, PRODUCT_ROW, figures->crowd_products);
    if (!status)
        status = measure_crowd(&room, bench_stream_memory, STREAM_ELEMENTS, MEMORY_ROW, figures->crowd_memory);
    if (!status) {
        status = open_collectives(&room);
        if (!status)
            status = measure_beside(&room, &figures->slowdown);
        close_collectives(&room);
    }
    while (opened)
        bench_close(&room.bench[--opened]);
    return status;
}
