/* SPDX-License-Identifier: MIT */
#include "reference_lstm.h"

#include <math.h>

#include "nn/lstm.h"

static double dot(const double *a, const double *b, size_t count)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Row `row` of W_ih x + b_ih + W_hh h + b_hh. */
static double gate_input(const struct model *model, double *const *p, size_t row, const double *x, const double *h)
{
    size_t in = model->parameters[LSTM_EMBEDDING].shape[1], width = model->settings.width;

    return dot(p[LSTM_WEIGHT_IH] + row * in, x, in) + p[LSTM_BIAS_IH][row] + dot(p[LSTM_WEIGHT_HH] + row * width, h, width) +
           p[LSTM_BIAS_HH][row];
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* h and c of one sample: one step on, in place. */
static void step(const struct model *model, double *const *p, double *h, double *c, const double *x)
{
    size_t width = model->settings.width;
    double next[REFERENCE_LSTM_WIDEST];

    for (size_t k = 0; k < width; k++) {
        double i = sigmoid(gate_input(model, p, k, x, h)), f = sigmoid(gate_input(model, p, width + k, x, h));
        double g = tanh(gate_input(model, p, 2 * width + k, x, h)), o = sigmoid(gate_input(model, p, 3 * width + k, x, h));
        c[k] = f * c[k] + i * g;
        next[k] = o * tanh(c[k]);
    }
    for (size_t k = 0; k < width; k++)
        h[k] = next[k];
}

static double cross_entropy(const struct model *model, double *const *p, const double *h, int32_t label)
{
    size_t width = model->settings.width;
    double sum = 0, chosen = 0;

    for (size_t v = 0; v < model->settings.vocabulary; v++) {
        double logit = dot(p[LSTM_HEAD] + v * width, h, width) + p[LSTM_HEAD_BIAS][v];
        sum += exp(logit);
        if (v == (size_t)label)
            chosen = logit;
    }
    return log(sum) - chosen;
}

double reference_lstm_loss(const struct model *model, double *const *parameters, const void *input, const int32_t *labels,
                           size_t batch)
{
    size_t block = model->settings.block, in = model->parameters[LSTM_EMBEDDING].shape[1];
    const int32_t *tokens = input;
    double loss = 0;

    for (size_t sample = 0; sample < batch; sample++) {
        double h[REFERENCE_LSTM_WIDEST] = {0}, c[REFERENCE_LSTM_WIDEST] = {0};
        for (size_t at = sample * block; at < (sample + 1) * block; at++) {
            step(model, parameters, h, c, parameters[LSTM_EMBEDDING] + (size_t)tokens[at] * in);
            loss += cross_entropy(model, parameters, h, labels[at]);
        }
    }
    return loss / (double)(batch * block);
}
