/* SPDX-License-Identifier: MIT
 *
 * Samples in host memory: rows of floats and a label each. digits (shipped), MNIST IDX files, synthetic.
 *
 * Pictures stay the bytes that their file holds and become floats when they are gathered: a data set takes no more
 * memory than its files.
 */
#ifndef DATA_DATASET_H
#define DATA_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dataset_part { PART_TRAIN, PART_TEST, DATASET_PARTS };

/* What one sample is. */
struct sample_shape {
    size_t inputs;  /* floats, or tokens (int32) */
    size_t targets; /* labels: 1, or one a token */
    size_t classes; /* values that a label can have */
    bool tokens;
};

struct dataset {
    char name[64];
    struct sample_shape shape; /* of each sample; synthetic: by dataset_fit */
    size_t train_count;        /* samples 0 .. train_count-1; 0 for synthetic, which has a sample for every index */
    size_t test_count;         /* samples train_count .. train_count+test_count-1; 0 for synthetic */
    const uint8_t *pixels[DATASET_PARTS]; /* [count][inputs]; NULL for synthetic */
    const uint8_t *labels[DATASET_PARTS]; /* [count] */
    float white;                          /* the pixel value that becomes 1.0 */
    void *memory[4];                      /* what pixels and labels lie in: owned */
    bool resident; /* synthetic: one global batch, made once, resident on the device; no copies in a step */
    uint64_t seed; /* synthetic */
};

/* what: "digits", "synthetic", or the path of a folder with MNIST's four IDX files (plain). Bad files: EXIT_BAD_FILE
 * with place, found and expected; nothing kept. Synthetic data has a shape only after dataset_fit. */
int dataset_open(struct dataset *dataset, const char *what, uint64_t seed);

/* The shape that a model wants: synthetic data takes it; other data has its own, and if the model can't be trained on
 * it that is EXIT_USAGE, with both. */
int dataset_fit(struct dataset *dataset, const struct sample_shape *wanted);
void dataset_close(struct dataset *dataset);

/* values[count][inputs] (floats or tokens), labels[count][targets] := the samples with these indices, which lie below
 * train_count + test_count. Synthetic: normal values (or uniform tokens) and labels by index, any index. */
void dataset_gather(const struct dataset *dataset, const uint32_t *indices, size_t count, void *values,
                    int32_t *labels);

/* ---- the kinds, one file each; dataset_open chooses ---- */

int dataset_open_digits(struct dataset *dataset);
int dataset_open_mnist(struct dataset *dataset, const char *folder);
void dataset_open_synthetic(struct dataset *dataset, uint64_t seed);
int dataset_fit_synthetic(struct dataset *dataset, const struct sample_shape *wanted);
void dataset_gather_synthetic(const struct dataset *dataset, const uint32_t *indices, size_t count, void *values,
                              int32_t *labels);

#endif
