/* SPDX-License-Identifier: MIT
 *
 * Samples in host memory: digits (shipped), MNIST's and CIFAR's files, the bytes of a text, synthetic.
 *
 * Pictures and texts stay the bytes that their file holds and become floats or tokens when they are gathered: a data
 * set takes no more memory than its files (unpacked, if they are compressed).
 */
#ifndef DATA_DATASET_H
#define DATA_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DATASET_CHANNELS 3
#define DATASET_BLOCKS 6 /* CIFAR-10 has six files */

/* What one sample is. */
struct sample_shape {
    size_t inputs;  /* floats, or tokens (int32) */
    size_t targets; /* labels: 1, or one a token */
    size_t classes; /* values that a label can have */
    bool tokens;
};

/* Pictures that lie one after the other, as in a file. Sample i: channels x (inputs / channels) bytes at
 * values + i x value_stride, its label the byte at labels + i x label_stride. */
struct picture_block {
    const uint8_t *values, *labels;
    size_t value_stride, label_stride; /* bytes from a sample to the next */
    size_t count;                      /* samples */
};

struct dataset {
    char name[64];
    struct sample_shape shape; /* of each sample; text, synthetic: by dataset_fit */
    size_t train_count;        /* samples 0 .. train_count-1; 0 for synthetic, which has a sample for every index */
    size_t test_count;         /* samples train_count .. train_count+test_count-1; 0 for synthetic */
    bool resident;             /* synthetic: one global batch, made once, resident on the device; no copies in a step */
    void *memory[DATASET_BLOCKS]; /* what the samples lie in: owned */

    /* pictures */
    struct picture_block block[DATASET_BLOCKS]; /* training first; samples are numbered through them */
    int blocks;
    size_t channels;                    /* 1, or 3: in the file one plane after the other, gathered side by side */
    float pixel[DATASET_CHANNELS][256]; /* what a byte of this channel becomes */

    /* text */
    const uint8_t *text;
    size_t text_bytes;

    uint64_t seed; /* synthetic */

    int (*fit)(struct dataset *dataset, const struct sample_shape *wanted);
    void (*gather)(const struct dataset *dataset, const uint32_t *indices, size_t count, void *values, int32_t *labels);
};

/* what: "digits", "synthetic", the path of a folder (MNIST's four IDX files, plain or gzip; CIFAR-10's or CIFAR-100's
 * binary files), or of a file, whose bytes are tokens. Bad files: EXIT_BAD_FILE with place, found and expected; nothing
 * kept. Compressed files in a build without zlib: EXIT_RESOURCE. Text and synthetic data have a shape only after
 * dataset_fit. */
int dataset_open(struct dataset *dataset, const char *what, uint64_t seed);

/* The shape that a model wants: synthetic data takes it, text takes its length; pictures have their own, and if the
 * model can't be trained on it that is EXIT_USAGE, with both. */
int dataset_fit(struct dataset *dataset, const struct sample_shape *wanted);
void dataset_close(struct dataset *dataset);

/* values[count][inputs] (floats or tokens), labels[count][targets] := the samples with these indices, which lie below
 * train_count + test_count. Pictures: [height][width][channels]. Synthetic: normal values (or uniform tokens) and
 * labels by index, any index. Reads only: several threads may gather at once. */
void dataset_gather(const struct dataset *dataset, const uint32_t *indices, size_t count, void *values,
                    int32_t *labels);

/* ---- the kinds, one file each; dataset_open chooses. On failure dataset_open closes what they have begun ---- */

int dataset_open_digits(struct dataset *dataset);
int dataset_open_mnist(struct dataset *dataset, const char *folder);
bool mnist_recognize(const char *folder); /* does it hold one of MNIST's files, under any of their names? */
int dataset_open_text(struct dataset *dataset, const char *path);
void dataset_open_synthetic(struct dataset *dataset, uint64_t seed);

/* ---- pictures.c: what digits, MNIST and CIFAR share ---- */

int pictures_fit(struct dataset *dataset, const struct sample_shape *wanted);
void pictures_gather(const struct dataset *dataset, const uint32_t *indices, size_t count, void *values,
                     int32_t *labels);
/* A byte p of this channel becomes (p / white - mean) / deviation. */
void pictures_set_pixels(struct dataset *dataset, size_t channel, float white, float mean, float deviation);

#endif
