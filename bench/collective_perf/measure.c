/* SPDX-License-Identifier: MIT
 *
 * The engine: what one rank does for each size, out of place and in place.
 */
#include "perf.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/backend.h"
#include "sys/clock.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

/* Where a rank's input and output lie: in place a gathering rank's input is its piece of the output, a scattering
 * rank's output its piece of the input. */
struct placement {
    unsigned char *send, *receive;
    size_t in_bytes, out_bytes;
};

static size_t buffer_bytes(const struct perf_options *options)
{
    const size_t most = options->pool > options->largest ? options->pool : options->largest;
    return most ? most : 1;
}

/* The next call's buffers: behind the last one's, as far as they fit. */
static struct placement place(struct perf_rank *rank, size_t count, bool in_place)
{
    const struct operation *operation = rank->options->operation;
    const size_t piece = count * perf_type_bytes(rank->options->type), whole = operation_bytes(rank->options, count);
    const size_t at = rank->next + whole <= rank->options->pool ? rank->next : 0;
    struct placement placement = {.send = rank->send + at, .receive = rank->receive + at};
    rank->next = at + (whole + 255) / 256 * 256; /* cudaMalloc's alignment */
    placement.in_bytes = operation->scatters ? whole : piece;
    placement.out_bytes = operation->gathers ? whole : piece;
    if (in_place) {
        placement.send = placement.receive + (operation->gathers ? piece * (size_t)rank->rank : 0);
        placement.receive += (operation->scatters ? piece * (size_t)rank->rank : 0);
    }
    return placement;
}

static int call(const struct perf_rank *rank, const struct placement *placement, size_t count)
{
    const struct perf_options *options = rank->options;
    GPU_TRY(options->operation->call(placement->send, placement->receive, count, options, rank->comm, rank->stream));
    return EXIT_OK;
}

static int calls(struct perf_rank *rank, size_t count, bool in_place, int times)
{
    for (int i = 0; i < times; i++) {
        const struct placement placement = place(rank, count, in_place);
        TRY(call(rank, &placement, count));
    }
    GPU_TRY(cudaStreamSynchronize(rank->stream));
    return EXIT_OK;
}

/* Fresh input, one call, and the output's bits against the expected ones. */
static int verify(struct perf_rank *rank, const struct placement *placement, size_t count, uint64_t *wrong)
{
    const struct perf_options *options = rank->options;
    const bool has_output = !options->operation->reduces || !options->operation->rooted || rank->rank == options->root;
    const size_t bytes = perf_type_bytes(options->type);
    *wrong = 0;
    if (!options->check)
        return EXIT_OK;
    verify_input(rank->host, options, rank->rank, count);
    GPU_TRY(cudaMemsetAsync(placement->receive, 0xff, placement->out_bytes, rank->stream));
    GPU_TRY(cudaMemcpyAsync(placement->send, rank->host, placement->in_bytes, cudaMemcpyHostToDevice, rank->stream));
    TRY(call(rank, placement, count));
    GPU_TRY(
        cudaMemcpyAsync(rank->host, placement->receive, placement->out_bytes, cudaMemcpyDeviceToHost, rank->stream));
    GPU_TRY(cudaStreamSynchronize(rank->stream));
    verify_expected(rank->expected, options, rank->rank, count);
    if (has_output)
        *wrong = verify_wrong(rank->host, rank->expected, placement->out_bytes / bytes, bytes);
    return EXIT_OK;
}

/* The mean over the iterations of one round; the best round. Timed are enqueueing and waiting: a stream of calls. */
static int measure(struct perf_rank *rank, size_t count, bool in_place, struct measurement *result)
{
    const struct perf_options *options = rank->options;
    const struct placement placement = place(rank, count, in_place);
    struct measurement sum;
    uint64_t wrong;
    TRY(verify(rank, &placement, count, &wrong));
    GPU_TRY(cudaMemsetAsync(rank->send, 0, buffer_bytes(options), rank->stream));
    GPU_TRY(cudaMemsetAsync(rank->receive, 0, buffer_bytes(options), rank->stream));
    TRY(calls(rank, count, in_place, options->warmup));
    *result = (struct measurement){.in_place = in_place};
    for (int round = 0; round < options->rounds; round++) {
        TRY(board_meet(rank->board, options->ranks));
        const double start = clock_seconds();
        TRY(calls(rank, count, in_place, options->iterations));
        const double us = (clock_seconds() - start) * 1e6 / options->iterations;
        TRY(board_sum(rank->board, rank, us, round == 0 ? wrong : 0, &sum));
        result->wrong += sum.wrong;
        if (round == 0 || sum.us / options->ranks < result->us)
            result->us = sum.us / options->ranks;
    }
    return EXIT_OK;
}

static int open_rank(struct perf_rank *rank)
{
    const struct perf_options *options = rank->options;
    const size_t bytes = buffer_bytes(options);
    char name[64], cores[96];
    GPU_TRY(cudaSetDevice(rank->device));
    GPU_TRY(cudaStreamCreateWithFlags(&rank->stream, cudaStreamNonBlocking));
    GPU_TRY(cudaMalloc((void **)&rank->send, bytes));
    GPU_TRY(cudaMalloc((void **)&rank->receive, bytes));
    if (options->check) {
        GPU_TRY(cudaMallocHost((void **)&rank->host, options->largest));
        rank->expected = malloc(options->largest);
        if (!rank->expected) {
            log_error("no host memory: %zu bytes to check results with", options->largest);
            return EXIT_RESOURCE;
        }
    }
    if (rank->rank == 0)
        GPU_TRY(ncclGetUniqueId(board_id(rank->board)));
    TRY(board_meet(rank->board, options->ranks));
    GPU_TRY(ncclCommInitRank(&rank->comm, options->ranks, *board_id(rank->board), rank->rank));
    TRY(gpu_device_describe(rank->device, name, sizeof name, cores, sizeof cores)); /* cores: now that a stream runs */
    board_describe(rank->board, rank->rank, rank->device, name, cores);
    return board_meet(rank->board, options->ranks);
}

static int measure_sizes(struct perf_rank *rank)
{
    const struct perf_options *options = rank->options;
    if (rank->rank == 0)
        report_header(options, board_facts(rank->board));
    for (size_t bytes = options->smallest; bytes <= options->largest;
         bytes = options->step ? bytes + options->step : bytes * options->factor) {
        struct measurement both[2];
        const size_t count = operation_count(options, bytes);
        for (int in_place = 0; in_place < 2; in_place++)
            TRY(measure(rank, count, in_place, &both[in_place]));
        if (rank->rank == 0) {
            report_size(options, count, both);
            board_add_wrong(rank->board, both[0].wrong + both[1].wrong);
        }
    }
    return EXIT_OK;
}

/* In an orderly end ranks meet before the first one frees: cudaFree waits for its device, and would for a slower rank.
 */
static int close_rank(struct perf_rank *rank)
{
    TRY(board_meet(rank->board, rank->options->ranks));
    GPU_TRY(ncclCommDestroy(rank->comm));
    GPU_TRY(cudaFree(rank->send));
    GPU_TRY(cudaFree(rank->receive));
    if (rank->host)
        GPU_TRY(cudaFreeHost(rank->host));
    free(rank->expected);
    GPU_TRY(cudaStreamDestroy(rank->stream));
    return EXIT_OK;
}

int perf_run_rank(struct perf_rank *rank)
{
    int status = open_rank(rank);
    if (!status)
        status = measure_sizes(rank);
    if (!status)
        status = close_rank(rank);
    if (status)
        board_fail(rank->board);
    return status;
}
