/* SPDX-License-Identifier: MIT
 *
 * SGD (momentum, weight decay) and AdamW over flat buffers: torch.optim's formulas, one launch an update.
 */
#ifndef NN_OPTIMIZER_H
#define NN_OPTIMIZER_H

#include <stddef.h>

#include "gpu/gpu.h"

enum optimizer_kind { OPTIMIZER_SGD, OPTIMIZER_ADAMW };

struct optimizer_settings {
    enum optimizer_kind kind;
    float lr, momentum, weight_decay, beta1, beta2, epsilon;
};

struct optimizer {
    struct optimizer_settings settings;
    size_t flat_bytes;
    float *first, *second; /* momentum or m; v: device, flat_bytes each, MEMORY_OPTIMIZER; NULL if not needed */
    int updates;           /* updates done: t */
};

int optimizer_open(struct optimizer *optimizer, const struct optimizer_settings *settings, int device,
                   size_t flat_bytes);
void optimizer_close(struct optimizer *optimizer);
int optimizer_reset(struct optimizer *optimizer, cudaStream_t stream); /* state as after open; synchronous */
int optimizer_step(struct optimizer *optimizer, float *parameters, const float *gradients, cudaStream_t stream);

#endif
