/* SPDX-License-Identifier: MIT
 *
 * Samples in host memory: rows of floats and a label each. digits (shipped), MNIST IDX files, synthetic.
 */
#ifndef DATA_DATASET_H
#define DATA_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dataset {
    char name[64];
    size_t inputs;           /* floats a sample */
    size_t classes;
    size_t train_count;      /* samples 0 .. train_count-1 */
    size_t test_count;       /* samples train_count .. train_count+test_count-1 */
    float *values;           /* [train+test][inputs]; NULL for synthetic */
    int32_t *labels;         /* [train+test]; NULL for synthetic */
    bool resident;           /* synthetic: one global batch, made once, resident on the device; no copies in a step */
    uint64_t seed;           /* synthetic */
};

/* what: "digits", "synthetic", or the path of a folder with MNIST's four IDX files (plain).
 * inputs, classes: for synthetic (0: EXIT_USAGE). Bad files: EXIT_BAD_FILE with place, found and expected; nothing kept. */
int dataset_open(struct dataset *dataset, const char *what, size_t inputs, size_t classes, uint64_t seed);
void dataset_close(struct dataset *dataset);

/* values[count][inputs], labels[count] := the samples with these indices. Synthetic: normal values and labels by index. */
void dataset_gather(const struct dataset *dataset, const uint32_t *indices, size_t count, float *values, int32_t *labels);

#endif
