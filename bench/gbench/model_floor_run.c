/* SPDX-License-Identifier: MIT */
#include "model_floor.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/backend.h"
#include "gpu/memory.h"
#include "kernels/kernels.h"
#include "run/strategy.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

#define MEMORY_FLOATS ((size_t)1 << 24) /* 64 MiB a buffer: beyond the caches */

/* What a trial holds: the reference strategy (single), as the trainer runs it, and what the two rates are measured on. */
struct held {
    struct options options;
    struct world world;
    struct dataset dataset;
    struct model model;
    struct run run;
    void *state; /* of strategy_single */
    uint32_t *indices;
    float *memory[2];          /* MEMORY_FLOATS each */
    void *square;              /* three matrices of the model's type */
};

static int parse(struct options *options, const struct floor_trial *trial)
{
    char batch[16];
    snprintf(batch, sizeof batch, "%d", trial->batch);
    /* options keep pointers to their words, but none to the batch's */
    char *words[] = {"model-floor-soft", "--strategy", "single", "--device", "soft", "--data", "synthetic", "--model",
                     (char *)(uintptr_t)trial->model, "--precision", (char *)(uintptr_t)trial->precision, "--global-batch", batch};
    const int status = options_parse(options, "dp-train", (int)(sizeof words / sizeof words[0]), words);
    return status < 0 ? EXIT_USAGE : status;
}

static int open_buffers(struct held *held)
{
    const size_t entries = 3 * (size_t)FLOOR_SQUARE * FLOOR_SQUARE;
    const enum element_type type = held->model.settings.type;
    cudaStream_t stream = strategy_single.replica(held->state, 0)->compute;

    for (int i = 0; i < 2; i++) {
        TRY(gpu_malloc((void **)&held->memory[i], MEMORY_FLOATS * sizeof(float), MEMORY_DATA));
        GPU_TRY(kernel_fill(held->memory[i], 1, MEMORY_FLOATS, stream));
    }
    TRY(gpu_malloc(&held->square, entries * element_size(type), MEMORY_DATA));
    GPU_TRY(kernel_random_normal(held->memory[0], entries, 1, 1, 0.02f, stream));
    GPU_TRY(kernel_cast(type, held->square, ELEMENT_F32, held->memory[0], entries, stream));
    return GPU_STATUS(cudaStreamSynchronize(stream));
}

static int open_held(struct held *held, const struct floor_trial *trial)
{
    TRY(parse(&held->options, trial));
    held->world = world_alone();
    TRY(engine_open_data(&held->options, &held->dataset, &held->model));
    held->run = (struct run){&held->options, &held->world, &held->model, &held->dataset};
    TRY(strategy_single.open(&held->state, &held->run));
    held->indices = calloc((size_t)trial->batch, sizeof *held->indices);
    if (!held->indices) {
        log_error("no memory for %d indices", trial->batch);
        return EXIT_RESOURCE;
    }
    for (int i = 0; i < trial->batch; i++)
        held->indices[i] = (uint32_t)i;
    return open_buffers(held);
}

static void close_held(struct held *held)
{
    if (held->state)
        strategy_single.close(held->state, false);
    for (int i = 0; i < 2; i++)
        gpu_free(held->memory[i]);
    gpu_free(held->square);
    free(held->indices);
    if (held->model.type)
        model_close(&held->model);
    dataset_close(&held->dataset);
}

/* A whole step, as the engine has it done. */
static int run_step(const struct held *held, uint64_t step)
{
    const size_t count = held->options.global_batch;
    const struct batch batch = {held->indices, count, 1 / (float)(count * held->model.targets), true, true, step};
    struct step_result result;

    TRY(strategy_single.step(held->state, &batch));
    return strategy_single.finish(held->state, &result);
}

static int run_square(const struct held *held, const struct replica *replica)
{
    static const float one = 1, zero = 0;
    const enum element_type element = held->model.settings.type;
    const cudaDataType_t type = element_blas_type(element);
    const int n = FLOOR_SQUARE;
    const size_t bytes = (size_t)n * (size_t)n * element_size(element);
    char *a = held->square, *b = a + bytes, *c = b + bytes;

    GPU_TRY(cublasGemmEx(replica->blas, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, type, n, b, type, n, &zero, c, type, n,
                         CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    return GPU_STATUS(cudaStreamSynchronize(replica->compute));
}

static int run_memory(const struct held *held, const struct replica *replica)
{
    GPU_TRY(kernel_copy_scale(ELEMENT_F32, held->memory[0], held->memory[1], 1, MEMORY_FLOATS, replica->compute));
    return GPU_STATUS(cudaStreamSynchronize(replica->compute));
}

static int run_part(const struct held *held, enum floor_part part, uint64_t step)
{
    const struct replica *replica = strategy_single.replica(held->state, 0);

    if (part == PART_MEMORY)
        return run_memory(held, replica);
    if (part == PART_SQUARE)
        return run_square(held, replica);
    softProductsAlone(part == PART_PRODUCTS);
    const int status = run_step(held, step);
    softProductsAlone(false);
    return status;
}

static int run_rounds(const struct held *held, const struct floor_trial *trial, int warm_up)
{
    for (int round = -warm_up; round < trial->rounds; round++) {
        for (enum floor_part part = 0; part < PARTS; part++) {
            if (round >= 0)
                gpu_record_note("step_begin", "", floor_number(trial->number, round, part));
            TRY(run_part(held, part, (uint64_t)(round + warm_up)));
            if (round >= 0)
                gpu_record_note("step_end", "", floor_number(trial->number, round, part));
        }
    }
    return 0;
}

int floor_run(const struct floor_trial *trial, int warm_up)
{
    struct held *held = calloc(1, sizeof *held);

    if (!held) {
        log_error("no memory");
        return EXIT_RESOURCE;
    }
    int status = open_held(held, trial);
    if (!status)
        status = run_rounds(held, trial, warm_up);
    close_held(held);
    free(held);
    return status;
}
