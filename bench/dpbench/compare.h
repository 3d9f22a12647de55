/* SPDX-License-Identifier: MIT
 *
 * Did two runs train the same model? (design: equivalence in the same run.) Bit for bit where that is promised: soft
 * GPUs, fp32 or bf16, N a power of two, equal shards, no accumulation. Else the gradients of step 1 within 1e-5 (bf16
 * 2^-5, fp16 2^-8) of each tensor's largest element, and the final loss within 1 %.
 */
#ifndef DPBENCH_COMPARE_H
#define DPBENCH_COMPARE_H

#include <stdbool.h>
#include <stddef.h>

#include "record.h"

#define GRADIENT_TOLERANCE 1e-5 /* fp32 */
/* Four units in the last place of the largest element; one is usual (docs/models.md). */
#define GRADIENT_TOLERANCE_BF16 0x1p-5
#define GRADIENT_TOLERANCE_FP16 0x1p-8
#define LOSS_TOLERANCE 0.01

enum equality { EQUAL_NA, EQUAL_NO, EQUAL_TOLERANCE, EQUAL_BIT };
const char *equality_name(enum equality equal); /* "na", "no", "tolerance", "bit" */

struct comparison {
    enum equality equal;
    double gradient; /* largest max|a-b| / max|b| over the tensors; NAN: not compared; INFINITY: a NaN or an infinity */
    double loss;     /* |a-b| / |b| of the last loss; NAN: not compared */
    char reason[300]; /* why `no` or `na` */
};

/* Is equality of bits promised for a run with this header? */
bool compare_promises_bits(const cJSON *header);

/* Largest relative difference of the tensors in two safetensors files with the same names and shapes. NaN and
 * infinities are looked for first: *worst = INFINITY. tensor[tensor_size] names the worst. 0 or EXIT_BAD_FILE
 * (reported). */
int compare_gradients(const char *path, const char *path_reference, double *worst, char *tensor, size_t tensor_size);

/* One verdict for two runs and their files of gradients (NULL: none). The rule needs both records' header and summary.
 */
void compare_runs(const struct record *record, const char *gradients, const struct record *reference,
                  const char *gradients_reference, bool bits_promised, struct comparison *comparison);

#endif
