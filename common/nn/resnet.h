/* SPDX-License-Identifier: MIT
 *
 * What a residual network is made of: units (convolution, BatchNorm) in registration order, and blocks of them. Made
 * from the model's settings by resnet_network, for describing the model and for running it.
 */
#ifndef NN_RESNET_H
#define NN_RESNET_H

#include "nn/batch_norm.h"
#include "nn/convolution.h"

#define RESNET_UNITS_MAX 128
#define RESNET_BLOCKS_MAX 48

struct resnet_unit {
    char name[2][40]; /* "blocks.3.conv1", "blocks.3.bn1" */
    struct convolution_shape shape;
    int weight;  /* parameter of the convolution; the BatchNorm's are weight + 1 and weight + 2 */
    int running; /* buffer */
};

/* y = ReLU(units(x) + shortcut(x)), each unit but the last with a ReLU of its own; no shortcut unit: x itself. */
struct resnet_block {
    int first, count; /* units */
    int shortcut;     /* unit; -1: none */
};

struct resnet_network {
    size_t channels, height; /* of the input */
    bool pooled;             /* unit 0 is followed by a maximum pooling: 3 x 3, stride 2 */
    bool shortcut_first;     /* in the backward pass, as autograd goes: it was the last in the forward pass */
    int unit_count, block_count;
    struct resnet_unit units[RESNET_UNITS_MAX]; /* 0: the stem */
    struct resnet_block blocks[RESNET_BLOCKS_MAX];
    size_t features; /* of the classifier, parameter classifier (and its bias) */
    int classifier;
};

/* The network that model->settings (resolved) stand for. */
void resnet_network(struct resnet_network *network, const struct model *model);

/* Of struct model_type. */
int resnet_describe(struct model *model, const struct model_settings *settings);

#endif
