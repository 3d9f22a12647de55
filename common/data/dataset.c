/* SPDX-License-Identifier: MIT
 *
 * The one door to all data: opening by name, fitting to a model, gathering rows, closing. The kinds are in digits.c,
 * mnist.c, cifar.c, text.c, synthetic.c.
 */
#include "data/dataset.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/cifar.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

static int open_folder(struct dataset *dataset, const char *folder)
{
    const struct cifar_format *cifar = cifar_recognize(folder);

    if (cifar)
        return dataset_open_cifar(dataset, folder, cifar);
    if (mnist_recognize(folder))
        return dataset_open_mnist(dataset, folder);
    if (access(folder, X_OK) != 0)
        log_error("data '%s': the folder can't be looked into: %s", folder, strerror(errno));
    else
        log_error("data '%s': none of the expected files found in the folder: MNIST's (train-images-idx3-ubyte, "
                  "train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte, plain or .gz), CIFAR-10's "
                  "(data_batch_1.bin to data_batch_5.bin, test_batch.bin) or CIFAR-100's (train.bin, test.bin)",
                  folder);
    return EXIT_BAD_FILE;
}

static int open_by_name(struct dataset *dataset, const char *what, uint64_t seed)
{
    struct stat status;

    if (strcmp(what, "digits") == 0)
        return dataset_open_digits(dataset);
    if (strcmp(what, "synthetic") == 0) {
        dataset_open_synthetic(dataset, seed);
        return EXIT_OK;
    }
    bool exists = stat(what, &status) == 0;
    if (exists && S_ISDIR(status.st_mode))
        return open_folder(dataset, what);
    if (exists && S_ISREG(status.st_mode))
        return dataset_open_text(dataset, what);
    log_error(
        "data '%s': found %s of this name, expected digits, synthetic, a folder with MNIST's or CIFAR's files, or "
        "a file of text",
        what, exists ? "something that is no file and no folder" : "nothing");
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
    return dataset->fit(dataset, wanted);
}

void dataset_gather(const struct dataset *dataset, const uint32_t *indices, size_t count, void *values, int32_t *labels)
{
    dataset->gather(dataset, indices, count, values, labels);
}
