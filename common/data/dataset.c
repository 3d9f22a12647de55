/* SPDX-License-Identifier: MIT
 *
 * The one door to all data: opening by name, gathering rows, closing. The kinds are in digits.c, mnist.c, synthetic.c.
 */
#include "data/dataset.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sys/exit_codes.h"
#include "sys/log.h"

static int open_by_name(struct dataset *dataset, const char *what, uint64_t seed)
{
    struct stat status;

    if (strcmp(what, "digits") == 0)
        return dataset_open_digits(dataset);
    if (strcmp(what, "synthetic") == 0) {
        dataset_open_synthetic(dataset, seed);
        return EXIT_OK;
    }
    if (stat(what, &status) == 0 && S_ISDIR(status.st_mode))
        return dataset_open_mnist(dataset, what);
    log_error("data '%s': found no folder of this name, expected digits, synthetic or a folder with MNIST's IDX files",
              what);
    return EXIT_BAD_FILE;
}

int dataset_open(struct dataset *dataset, const char *what, uint64_t seed)
{
    *dataset = (struct dataset){0};
    int status = open_by_name(dataset, what, seed);
    if (status)
        dataset_close(dataset);
    return status;
}

void dataset_close(struct dataset *dataset)
{
    for (size_t i = 0; i < sizeof dataset->memory / sizeof dataset->memory[0]; i++)
        free(dataset->memory[i]);
    *dataset = (struct dataset){0};
}

int dataset_fit(struct dataset *dataset, const struct sample_shape *wanted)
{
    const struct sample_shape *own = &dataset->shape;

    if (dataset->resident)
        return dataset_fit_synthetic(dataset, wanted);
    if (own->tokens == wanted->tokens && own->inputs == wanted->inputs && own->targets == wanted->targets &&
        own->classes <= wanted->classes)
        return EXIT_OK;
    log_error(
        "data %s: a sample has %zu %s and %zu of %zu classes, the model wants %zu %s and %zu of at least that many, "
        "found %zu",
        dataset->name, own->inputs, own->tokens ? "tokens" : "floats", own->targets, own->classes, wanted->inputs,
        wanted->tokens ? "tokens" : "floats", wanted->targets, wanted->classes);
    return EXIT_USAGE;
}

void dataset_gather(const struct dataset *dataset, const uint32_t *indices, size_t count, void *values, int32_t *labels)
{
    if (dataset->resident) {
        dataset_gather_synthetic(dataset, indices, count, values, labels);
        return;
    }
    size_t inputs = dataset->shape.inputs;
    float *floats = values;
    for (size_t i = 0; i < count; i++) {
        enum dataset_part part = indices[i] < dataset->train_count ? PART_TRAIN : PART_TEST;
        size_t row = indices[i] - (part == PART_TEST ? dataset->train_count : 0);
        const uint8_t *pixels = dataset->pixels[part] + row * inputs;
        for (size_t j = 0; j < inputs; j++)
            floats[i * inputs + j] = (float)pixels[j] / dataset->white;
        labels[i] = dataset->labels[part][row];
    }
}
