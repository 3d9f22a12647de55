/* SPDX-License-Identifier: MIT
 *
 * Softmax cross-entropy over the logits of one device, with its sum read back to the host.
 */
#ifndef NN_LOSS_H
#define NN_LOSS_H

#include <stddef.h>
#include <stdint.h>

#include "nn/model.h"

struct loss {
    const struct model *model;
    int device;
    size_t samples_max; /* 0: closed */
    const float *loss_scale; /* device: d_logits is multiplied by it too (fp16); NULL: not. Set by the caller after open */
    float *per_target;  /* device [samples_max][targets] */
    float *sum;         /* device [1] */
    int32_t *correct;   /* device [1] */
    float *host_sum;    /* pinned [1]: valid once the stream is idle */
    int32_t *host_correct;
};

int loss_open(struct loss *loss, const struct model *model, int device, size_t samples_max);
void loss_close(struct loss *loss);

/* Enqueues: losses of all targets of the samples, their sum to loss->sum and loss->host_sum, and
 * d_logits = scale (softmax - onehot) (NULL: none). */
int loss_enqueue(struct loss *loss, void *d_logits, const void *logits, const int32_t *labels, size_t samples,
                 float scale, cudaStream_t stream);
/* Enqueues the count of correct targets to loss->host_correct (and the loss sum, without gradient). */
int loss_enqueue_evaluation(struct loss *loss, const void *logits, const int32_t *labels, size_t samples,
                            cudaStream_t stream);

#endif
