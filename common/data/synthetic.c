/* SPDX-License-Identifier: MIT
 *
 * Synthetic data: sample i is the same on every rank and every machine, made from the seed and i alone.
 */
#include <stdio.h>

#include "data/dataset.h"
#include "sys/exit_codes.h"
#include "sys/log.h"
#include "sys/random.h"

int dataset_open_synthetic(struct dataset *dataset, size_t inputs, size_t classes, uint64_t seed)
{
    if (inputs == 0 || classes == 0 || classes > INT32_MAX) {
        log_error("synthetic data: %zu inputs and %zu classes found, expected at least 1 of each, at most %d classes",
                  inputs, classes, INT32_MAX);
        return EXIT_USAGE;
    }
    snprintf(dataset->name, sizeof dataset->name, "synthetic");
    dataset->inputs = inputs;
    dataset->classes = classes;
    dataset->resident = true;
    dataset->seed = seed;
    return EXIT_OK;
}

void dataset_gather_synthetic(const struct dataset *dataset, const uint32_t *indices, size_t count, float *values,
                              int32_t *labels)
{
    size_t inputs = dataset->inputs;

    for (size_t i = 0; i < count; i++) {
        uint64_t first = (uint64_t)indices[i] * inputs;
        for (size_t j = 0; j < inputs; j++)
            values[i * inputs + j] = random_normal(dataset->seed, random_stream(RANDOM_DATA, 0), first + j);
        labels[i] = (int32_t)(random_u32(dataset->seed, random_stream(RANDOM_LABEL, 0), indices[i]) % dataset->classes);
    }
}
