/* SPDX-License-Identifier: MIT
 *
 * CIFAR-10 and CIFAR-100 (A. Krizhevsky, 2009), binary version: files of records, one after the other, without a
 * header. A record is a label (CIFAR-100: two, coarse then fine) and 3 planes, red, green, blue, of 32 x 32 bytes.
 *
 * With no header, a file that was cut after a record looks whole. So the number of records is part of the format.
 */
#ifndef DATA_CIFAR_H
#define DATA_CIFAR_H

#include <stddef.h>

#include "data/dataset.h"

#define CIFAR_CHANNELS 3
#define CIFAR_SIDE 32
#define CIFAR_PIXELS (CIFAR_CHANNELS * CIFAR_SIDE * CIFAR_SIDE)

struct cifar_format {
    const char *name;
    const char *files[DATASET_BLOCKS + 1]; /* NULL at the end; the last one is the test set */
    size_t records[DATASET_BLOCKS];        /* of each file */
    size_t label_bytes;                    /* the last of them is the class */
    unsigned classes;
    float mean[CIFAR_CHANNELS], deviation[CIFAR_CHANNELS]; /* of pixel / 255 over the training set */
};

extern const struct cifar_format cifar10, cifar100;

/* The format of which this folder holds a file; NULL: of none. */
const struct cifar_format *cifar_recognize(const char *folder);

/* Checks a file of `bytes` bytes at `data`, which must hold `records` records: EXIT_BAD_FILE (reported with place,
 * found and expected) if not. */
int cifar_check(const struct cifar_format *format, const char *name, const void *data, size_t bytes, size_t records);

/* Samples are [32][32][3] floats: (pixel / 255 - mean) / deviation of the channel. */
int dataset_open_cifar(struct dataset *dataset, const char *folder, const struct cifar_format *format);

#endif
