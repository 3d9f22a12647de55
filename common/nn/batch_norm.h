/* SPDX-License-Identifier: MIT
 *
 * The BatchNorm layer, torch.nn.BatchNorm2d's rules: momentum 0.1, epsilon 1e-5, affine. rows = pixels of the batch.
 * With replica->sync the statistics are those of all devices' batches (SyncBatchNorm); then a device without rows calls
 * too.
 */
#ifndef NN_BATCH_NORM_H
#define NN_BATCH_NORM_H

#include "nn/layers.h"

struct batch_norm {
    size_t channels;
    int weight;   /* parameter; weight + 1 is the bias */
    int running;  /* buffer: the mean; running + 1 is the variance */
    float *saved; /* device [2 channels + 1]: from forward for backward */
};

/* Device memory that all BatchNorms of a model use in turn. */
struct batch_norm_room {
    float *partials;   /* batch_norm_partials(...) floats: the most of all */
    float *statistics; /* [2 channels + 1]: this device's */
    float *sums;       /* [2 channels] */
};

/* Floats that a batch of up to `rows` rows needs. */
size_t batch_norm_partials(size_t rows, size_t channels);

/* y = normalised x; then + residual (if not NULL) and ReLU, or ReLU alone, if relu. y may be x. In training the running
 * statistics move. */
int batch_norm_forward(const struct replica *replica, const struct batch_norm_room *room, const struct batch_norm *norm,
                       void *y, const void *x, const void *residual, bool relu, size_t rows, bool training);

/* What stands behind the normalisation: nothing; a ReLU, seen again from x; a ReLU seen from its output `y`, and the
 * gradient is the sum of g and `other` (may be NULL), which g becomes, masked. */
enum batch_norm_gate { GATE_NONE, GATE_INPUT, GATE_OUTPUT };

struct batch_norm_gradient {
    enum batch_norm_gate gate;
    void *g;           /* the gradient of the output; written only with GATE_OUTPUT */
    const void *other; /* GATE_OUTPUT */
    const void *y;     /* GATE_OUTPUT */
};

/* Gradients of weight and bias, ready in PyTorch's order, weight first; then dx, which may be x. */
int batch_norm_backward(const struct backward *pass, const struct batch_norm_room *room, const struct batch_norm *norm,
                        void *dx, const void *x, const struct batch_norm_gradient *gradient, size_t rows);

#endif
