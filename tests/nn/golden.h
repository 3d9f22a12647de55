/* SPDX-License-Identifier: MIT
 *
 * The numbers of a golden file (golden_mlp.txt, golden_gpt.txt, ...) by name.
 */
#ifndef TESTS_NN_GOLDEN_H
#define TESTS_NN_GOLDEN_H

#include <stddef.h>

#define GOLDEN_TENSORS 512

struct golden {
    struct golden_tensor {
        char name[64];
        size_t count;
        float *values;
    } tensors[GOLDEN_TENSORS];
    int count;
};

/* Fails the test if the file is not what its script (golden_mlp.py, ...) writes. */
void golden_open(struct golden *golden, const char *path);
void golden_close(struct golden *golden);
/* prefix and name together; fails the test if there is none, or not of this count. */
const float *golden_values(const struct golden *golden, const char *prefix, const char *name, size_t count);

#endif
