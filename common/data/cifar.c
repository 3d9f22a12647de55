/* SPDX-License-Identifier: MIT
 *
 * See cifar.h. Means and deviations are the usual ones (they were computed over the training sets, and stand in most
 * public training scripts).
 */
#include "data/cifar.h"

#include <stdio.h>
#include <unistd.h>

#include "sys/exit_codes.h"
#include "sys/file.h"
#include "sys/log.h"

#define WHITE 255
#define FILE_LIMIT ((size_t)1 << 30) /* bytes; the largest file, CIFAR-100's, has 154 MB */

const struct cifar_format cifar10 = {
    .name = "cifar10",
    .files = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin",
              "test_batch.bin"},
    .records = {10000, 10000, 10000, 10000, 10000, 10000},
    .label_bytes = 1,
    .classes = 10,
    .mean = {0.4914F, 0.4822F, 0.4465F},
    .deviation = {0.2470F, 0.2435F, 0.2616F},
};

const struct cifar_format cifar100 = {
    .name = "cifar100",
    .files = {"train.bin", "test.bin"},
    .records = {50000, 10000},
    .label_bytes = 2,
    .classes = 100,
    .mean = {0.5071F, 0.4865F, 0.4409F},
    .deviation = {0.2673F, 0.2564F, 0.2762F},
};

static int make_path(char *path, size_t size, const char *folder, const char *file)
{
    int length = snprintf(path, size, "%s/%s", folder, file);

    if ((size_t)length < size)
        return EXIT_OK;
    log_error("data: a path of %d bytes found, expected at most %zu: %.60s...", length, size - 1, folder);
    return EXIT_BAD_FILE;
}

const struct cifar_format *cifar_recognize(const char *folder)
{
    static const struct cifar_format *const formats[] = {&cifar10, &cifar100};
    char path[1024];

    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        for (const char *const *file = formats[i]->files; *file; file++)
            if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, *file) < sizeof path && access(path, F_OK) == 0)
                return formats[i];
    return NULL;
}

static size_t record_bytes(const struct cifar_format *format)
{
    return format->label_bytes + CIFAR_PIXELS;
}

int cifar_check(const struct cifar_format *format, const char *name, const void *data, size_t bytes, size_t records)
{
    const uint8_t *file = data;
    size_t record = record_bytes(format);

    if (bytes != records * record) {
        log_error("%s: %zu bytes found, expected %zu: %zu records of %zu bytes (%s)", name, bytes, records * record,
                  records, record, format->name);
        return EXIT_BAD_FILE;
    }
    for (size_t i = 0; i < records; i++) {
        size_t at = i * record + format->label_bytes - 1;
        if (file[at] >= format->classes) {
            log_error("%s: byte %zu: label %u found, expected 0 to %u", name, at, file[at], format->classes - 1);
            return EXIT_BAD_FILE;
        }
    }
    return EXIT_OK;
}

static int read_file(struct dataset *dataset, int i, const char *folder, const struct cifar_format *format)
{
    char path[1024];
    size_t bytes = 0;

    int status = make_path(path, sizeof path, folder, format->files[i]);
    if (!status)
        status = file_read(path, FILE_LIMIT, &dataset->memory[i], &bytes);
    if (!status)
        status = cifar_check(format, path, dataset->memory[i], bytes, format->records[i]);
    if (status)
        return status;
    const uint8_t *records = dataset->memory[i];
    dataset->block[i] = (struct picture_block){.values = records + format->label_bytes,
                                               .labels = records + format->label_bytes - 1,
                                               .value_stride = record_bytes(format),
                                               .label_stride = record_bytes(format),
                                               .count = format->records[i]};
    return EXIT_OK;
}

int dataset_open_cifar(struct dataset *dataset, const char *folder, const struct cifar_format *format)
{
    for (int i = 0; format->files[i]; i++) {
        int status = read_file(dataset, i, folder, format);
        if (status)
            return status;
        dataset->blocks = i + 1;
        dataset->train_count += format->records[i];
    }
    dataset->test_count = format->records[dataset->blocks - 1];
    dataset->train_count -= dataset->test_count;
    snprintf(dataset->name, sizeof dataset->name, "%s", format->name);
    dataset->shape = (struct sample_shape){.inputs = CIFAR_PIXELS, .targets = 1, .classes = format->classes};
    dataset->channels = CIFAR_CHANNELS;
    dataset->fit = pictures_fit;
    dataset->gather = pictures_gather;
    for (size_t c = 0; c < CIFAR_CHANNELS; c++)
        pictures_set_pixels(dataset, c, WHITE, format->mean[c], format->deviation[c]);
    return EXIT_OK;
}
