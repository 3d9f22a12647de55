/* SPDX-License-Identifier: MIT */
#include "reference_mlp.h"

#include <math.h>
#include <string.h>

static double sample_loss(const struct model *model, double *const *parameters, const float *input, int32_t label)
{
    double x[REFERENCE_WIDEST] = {0}, y[REFERENCE_WIDEST] = {0}, sum = 0;

    for (size_t i = 0; i < model->settings.inputs; i++)
        x[i] = input[i];
    for (size_t layer = 0; layer <= model->settings.depth; layer++) {
        const struct parameter *weight = &model->parameters[2 * layer];
        size_t out = weight->shape[0], in = weight->shape[1];
        for (size_t o = 0; o < out; o++) {
            y[o] = parameters[2 * layer + 1][o];
            for (size_t i = 0; i < in; i++)
                y[o] += parameters[2 * layer][o * in + i] * x[i];
            if (layer < model->settings.depth && y[o] < 0)
                y[o] = 0;
        }
        memcpy(x, y, out * sizeof y[0]);
    }
    for (size_t c = 0; c < model->settings.classes; c++)
        sum += exp(x[c]);
    return log(sum) - x[label];
}

double reference_mlp_loss(const struct model *model, double *const *parameters, const void *input, const int32_t *labels,
                          size_t batch)
{
    const float *pixels = input;
    double sum = 0;

    for (size_t i = 0; i < batch; i++)
        sum += sample_loss(model, parameters, pixels + i * model->settings.inputs, labels[i]);
    return sum / (double)batch;
}
