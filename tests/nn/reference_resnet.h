/* SPDX-License-Identifier: MIT
 *
 * The residual networks in double, written plainly: the loss alone, in training (each BatchNorm with its batch's statistics), from
 * which gradients follow by finite differences.
 */
#ifndef TESTS_NN_REFERENCE_RESNET_H
#define TESTS_NN_REFERENCE_RESNET_H

#include <stddef.h>
#include <stdint.h>

#include "nn/model.h"

#define REFERENCE_ELEMENTS 8192 /* of any tensor of a batch, at most */

/* Where a loss was taken: a difference between two of them is a derivative only if both lie on the same piece of it. Follows the
 * signs at all ReLUs and the places of all maxima. */
struct reference_path {
    uint64_t hash;
};

/* Mean cross-entropy of the batch. parameters[i]: the elements of the model's parameter i as the device has them; input
 * [batch][height][height][channels]. path: NULL, or filled. */
double reference_resnet_loss(const struct model *model, double *const *parameters, const float *input, const int32_t *labels,
                             size_t batch, struct reference_path *path);

#endif
