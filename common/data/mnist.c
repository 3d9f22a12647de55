/* SPDX-License-Identifier: MIT
 *
 * MNIST, or any set in its format (Fashion-MNIST, KMNIST): a folder with four IDX files that the user brings, each
 * plain or compressed by gzip.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "data/dataset.h"
#include "data/gzip.h"
#include "data/idx.h"
#include "sys/exit_codes.h"
#include "sys/file.h"
#include "sys/log.h"

#define CLASSES 10
#define WHITE 255

enum part { TRAINING, TEST };

/* The names that are in use: some mirrors write '.' for the last '-': train-images.idx3-ubyte. */
static int name_file(char *path, size_t path_size, const char *folder, const char *stem, int dimensions, int form)
{
    static const char *const separators[] = {"-", "-", ".", "."}, *const endings[] = {"", ".gz", "", ".gz"};
    int length =
        snprintf(path, path_size, "%s/%s%sidx%d-ubyte%s", folder, stem, separators[form], dimensions, endings[form]);

    if ((size_t)length < path_size)
        return EXIT_OK;
    log_error("data: a path of %d bytes found, expected at most %zu: %.60s...", length, path_size - 1, folder);
    return EXIT_BAD_FILE;
}

/* path := the first name that exists. *exists: is there one? If not, path is the first name of all. */
static int find_file(char *path, size_t path_size, const char *folder, const char *stem, int dimensions, bool *exists)
{
    *exists = true;
    for (int form = 0; form < 4; form++) {
        int status = name_file(path, path_size, folder, stem, dimensions, form);
        if (status || access(path, F_OK) == 0)
            return status;
    }
    *exists = false;
    return name_file(path, path_size, folder, stem, dimensions, 0);
}

bool mnist_recognize(const char *folder)
{
    static const struct {
        const char *stem;
        int dimensions;
    } files[] = {{"train-images", 3}, {"train-labels", 1}, {"t10k-images", 3}, {"t10k-labels", 1}};
    char path[1024];

    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        bool exists = false;
        if (find_file(path, sizeof path, folder, files[i].stem, files[i].dimensions, &exists) || exists)
            return true; /* a path that is too long is told when the file is opened */
    }
    return false;
}

/* *memory := what idx points into: the file, or what was unpacked from it. A compressed file is known by how it begins,
 * whatever its name. */
static int read_idx(struct idx *idx, char *path, size_t path_size, const char *folder, const char *stem, int dimensions,
                    void **memory)
{
    size_t bytes = 0;
    bool exists = false;
    int status = find_file(path, path_size, folder, stem, dimensions, &exists);

    if (!status && !exists) {
        log_error("%s: not found, nor with .gz behind it or a '.' in the place of its last '-'", path);
        return EXIT_BAD_FILE;
    }
    if (!status)
        status = file_read(path, IDX_MAX_BYTES, memory, &bytes);
    if (status || !gzip_recognize(*memory, bytes))
        return status ? status : idx_parse(idx, path, *memory, bytes, dimensions);
    void *packed = *memory;
    status = idx_parse_gzip(idx, path, packed, bytes, dimensions, memory);
    free(packed);
    return status;
}

/* One part, training or test: a file of images and one of labels. */
static int read_part(struct dataset *dataset, enum part part, const char *folder, struct idx *images)
{
    const char *prefix = part == TRAINING ? "train" : "t10k";
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
    dataset->block[part] = (struct picture_block){.values = images->values,
                                                  .labels = labels.values,
                                                  .value_stride = images->size[1] * images->size[2],
                                                  .label_stride = 1,
                                                  .count = images->size[0]};
    return idx_check_labels(path, &labels, images, CLASSES);
}

int dataset_open_mnist(struct dataset *dataset, const char *folder)
{
    struct idx train, test;

    int status = read_part(dataset, TRAINING, folder, &train);
    if (status)
        return status;
    status = read_part(dataset, TEST, folder, &test);
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
    dataset->blocks = 2;
    dataset->channels = 1;
    dataset->fit = pictures_fit;
    dataset->gather = pictures_gather;
    pictures_set_pixels(dataset, 0, WHITE, 0, 1);
    return EXIT_OK;
}
