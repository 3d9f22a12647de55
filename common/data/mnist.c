/* SPDX-License-Identifier: MIT
 *
 * MNIST, or any set in its format (Fashion-MNIST, KMNIST): a folder with four plain IDX files that the user brings.
 */
#include <stdio.h>
#include <unistd.h>

#include "data/dataset.h"
#include "data/idx.h"
#include "sys/exit_codes.h"
#include "sys/file.h"
#include "sys/log.h"

#define CLASSES 10
#define FILE_LIMIT ((size_t)1 << 30) /* bytes; MNIST's largest file has 47 MB, EMNIST's 547 MB */

/* Some mirrors write '.' for the last '-': train-images.idx3-ubyte. The first name is the one to tell if neither
 * exists. */
static int read_idx(struct idx *idx, char *path, size_t path_size, const char *folder, const char *stem, int dimensions,
                    void **memory)
{
    static const char separators[] = "-.";
    size_t bytes = 0;

    for (int i = 1; i >= 0; i--) {
        int length = snprintf(path, path_size, "%s/%s%cidx%d-ubyte", folder, stem, separators[i], dimensions);
        if ((size_t)length >= path_size) {
            log_error("data: a path of %d bytes found, expected at most %zu: %.60s...", length, path_size - 1, folder);
            return EXIT_BAD_FILE;
        }
        if (access(path, F_OK) == 0)
            break;
    }
    int status = file_read(path, FILE_LIMIT, memory, &bytes);
    return status ? status : idx_parse(idx, path, *memory, bytes, dimensions);
}

/* One part, training or test: a file of images and one of labels. */
static int read_part(struct dataset *dataset, enum dataset_part part, const char *folder, const char *prefix,
                     struct idx *images)
{
    char stem[32], path[1024];
    struct idx labels;

    snprintf(stem, sizeof stem, "%s-images", prefix);
    int status = read_idx(images, path, sizeof path, folder, stem, 3, &dataset->memory[2 * part]);
    if (status)
        return status;
    snprintf(stem, sizeof stem, "%s-labels", prefix);
    status = read_idx(&labels, path, sizeof path, folder, stem, 1, &dataset->memory[2 * part + 1]);
    if (status)
        return status;
    dataset->pixels[part] = images->values;
    dataset->labels[part] = labels.values;
    return idx_check_labels(path, &labels, images, CLASSES);
}

int dataset_open_mnist(struct dataset *dataset, const char *folder)
{
    struct idx train, test;

    int status = read_part(dataset, PART_TRAIN, folder, "train", &train);
    if (status)
        return status;
    status = read_part(dataset, PART_TEST, folder, "t10k", &test);
    if (status)
        return status;
    if (test.size[1] != train.size[1] || test.size[2] != train.size[2]) {
        log_error("%s: test images of %zu x %zu found, expected %zu x %zu as in training", folder, test.size[1],
                  test.size[2], train.size[1], train.size[2]);
        return EXIT_BAD_FILE;
    }
    if (train.size[0] + test.size[0] > UINT32_MAX) {
        log_error("%s: %zu images found, expected at most %u", folder, train.size[0] + test.size[0], UINT32_MAX);
        return EXIT_BAD_FILE;
    }
    snprintf(dataset->name, sizeof dataset->name, "mnist");
    dataset->shape = (struct sample_shape){.inputs = train.size[1] * train.size[2], .targets = 1, .classes = CLASSES};
    dataset->train_count = train.size[0];
    dataset->test_count = test.size[0];
    dataset->white = 255;
    return EXIT_OK;
}
