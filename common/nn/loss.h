/* SPDX-License-Identifier: MIT
 *
 * Softmax cross-entropy over the logits of one device, with its sum read back to the host.
 */
#ifndef NN_LOSS_H
#define NN_LOSS_H

#include <stddef.h>
#include <stdint.h>

#include "gpu/gpu.h"

struct loss {
    int device;
    size_t rows_max;
    float *per_sample; /* device [rows_max] */
    float *sum;        /* device [1] */
    int32_t *correct;  /* device [1] */
    float *host_sum;   /* pinned [1]: valid once the stream is idle */
    int32_t *host_correct;
};

int loss_open(struct loss *loss, int device, size_t rows_max);
void loss_close(struct loss *loss);

/* Enqueues: losses, their sum to loss->sum and loss->host_sum, and d_logits = scale (softmax - onehot) (NULL: none). */
int loss_enqueue(struct loss *loss, float *d_logits, const float *logits, const int32_t *labels, size_t rows,
                 size_t classes, float scale, cudaStream_t stream);
/* Enqueues the count of correct rows to loss->host_correct (and the loss sum, without gradient). */
int loss_enqueue_evaluation(struct loss *loss, const float *logits, const int32_t *labels, size_t rows, size_t classes,
                            cudaStream_t stream);

#endif
