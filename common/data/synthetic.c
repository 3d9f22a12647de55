/* SPDX-License-Identifier: MIT
 *
 * Synthetic data: sample i is the same on every rank and every machine, made from the seed and i alone.
 */
#include <stdio.h>

#include "data/dataset.h"
#include "sys/exit_codes.h"
#include "sys/log.h"
#include "sys/random.h"

static int fit(struct dataset *dataset, const struct sample_shape *wanted)
{
    if (wanted->inputs == 0 || wanted->targets == 0 || wanted->classes == 0 || wanted->classes > INT32_MAX) {
        log_error("synthetic data: %zu inputs, %zu labels of %zu classes found, expected at least 1 of each, at most "
                  "%d classes",
                  wanted->inputs, wanted->targets, wanted->classes, INT32_MAX);
        return EXIT_USAGE;
    }
    dataset->shape = *wanted;
    return EXIT_OK;
}

/* Tokens are drawn from as many values as there are classes. */
static void gather_one(const struct dataset *dataset, uint32_t index, void *values, size_t at)
{
    const struct sample_shape *shape = &dataset->shape;
    uint64_t first = (uint64_t)index * shape->inputs, stream = random_stream(RANDOM_DATA, 0);
    float *floats = (float *)values + at;
    int32_t *tokens = (int32_t *)values + at;

    for (size_t j = 0; j < shape->inputs && !shape->tokens; j++)
        floats[j] = random_normal(dataset->seed, stream, first + j);
    for (size_t j = 0; j < shape->inputs && shape->tokens; j++)
        tokens[j] = (int32_t)(random_u32(dataset->seed, stream, first + j) % shape->classes);
}

static void gather(const struct dataset *dataset, const uint32_t *indices, size_t count, void *values, int32_t *labels)
{
    const struct sample_shape *shape = &dataset->shape;

    for (size_t i = 0; i < count; i++) {
        gather_one(dataset, indices[i], values, i * shape->inputs);
        for (size_t j = 0; j < shape->targets; j++) {
            uint64_t element = (uint64_t)indices[i] * shape->targets + j;
            uint32_t drawn = random_u32(dataset->seed, random_stream(RANDOM_LABEL, 0), element);
            labels[i * shape->targets + j] = (int32_t)(drawn % shape->classes);
        }
    }
}

void dataset_open_synthetic(struct dataset *dataset, uint64_t seed)
{
    snprintf(dataset->name, sizeof dataset->name, "synthetic");
    dataset->resident = true;
    dataset->seed = seed;
    dataset->fit = fit;
    dataset->gather = gather;
}
