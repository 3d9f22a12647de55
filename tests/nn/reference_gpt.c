/* SPDX-License-Identifier: MIT */
#include "reference_gpt.h"

#include <math.h>
#include <string.h>

typedef double rows[REFERENCE_TOKENS][REFERENCE_WIDEST];

/* The model and where the next parameters are: weight, bias, weight, bias ... in the order of registration. */
struct cursor {
    const struct model_settings *s;
    double *const *next;
};

/* y = LayerNorm(x). */
static void norm(struct cursor *at, rows y, rows x)
{
    const double *gamma = at->next[0], *beta = at->next[1];
    size_t c = at->s->width;

    at->next += 2;
    for (size_t t = 0; t < at->s->block; t++) {
        double mean = 0, variance = 0;
        for (size_t i = 0; i < c; i++)
            mean += x[t][i] / (double)c;
        for (size_t i = 0; i < c; i++)
            variance += (x[t][i] - mean) * (x[t][i] - mean) / (double)c;
        for (size_t i = 0; i < c; i++)
            y[t][i] = (x[t][i] - mean) / sqrt(variance + 1e-5) * gamma[i] + beta[i];
    }
}

/* y [out] = W x + b. */
static void linear(struct cursor *at, rows y, rows x, size_t out, size_t in)
{
    const double *weight = at->next[0], *bias = at->next[1];

    at->next += 2;
    for (size_t t = 0; t < at->s->block; t++) {
        for (size_t o = 0; o < out; o++) {
            y[t][o] = bias[o];
            for (size_t i = 0; i < in; i++)
                y[t][o] += weight[o * in + i] * x[t][i];
        }
    }
}

/* One head of one token: y[width of a head] from qkv [3][heads][width of a head]. */
static void attend(const struct model_settings *s, double *y, rows qkv, size_t head, size_t t)
{
    size_t d = s->width / s->heads, q = head * d, k = s->width + q, v = 2 * s->width + q;
    double p[REFERENCE_TOKENS], sum = 0;

    for (size_t u = 0; u <= t; u++) {
        double score = 0;
        for (size_t i = 0; i < d; i++)
            score += qkv[t][q + i] * qkv[u][k + i];
        p[u] = exp(score / sqrt((double)d));
        sum += p[u];
    }
    for (size_t i = 0; i < d; i++) {
        y[i] = 0;
        for (size_t u = 0; u <= t; u++)
            y[i] += p[u] / sum * qkv[u][v + i];
    }
}

static void add(const struct model_settings *s, rows x, rows y)
{
    for (size_t t = 0; t < s->block; t++)
        for (size_t i = 0; i < s->width; i++)
            x[t][i] += y[t][i];
}

static void layer(struct cursor *at, rows x)
{
    static rows a, b;
    const struct model_settings *s = at->s;

    norm(at, a, x);
    linear(at, b, a, 3 * s->width, s->width);
    for (size_t t = 0; t < s->block; t++)
        for (size_t head = 0; head < s->heads; head++)
            attend(s, a[t] + head * (s->width / s->heads), b, head, t);
    linear(at, b, a, s->width, s->width);
    add(s, x, b);
    norm(at, a, x);
    linear(at, b, a, 4 * s->width, s->width);
    for (size_t t = 0; t < s->block; t++)
        for (size_t i = 0; i < 4 * s->width; i++)
            b[t][i] *= 0.5 * (1 + tanh(0.79788456080286535588 * (b[t][i] + 0.044715 * b[t][i] * b[t][i] * b[t][i])));
    linear(at, a, b, s->width, 4 * s->width);
    add(s, x, a);
}

static double token_loss(const struct model_settings *s, const double *table, const double *x, int32_t label)
{
    double sum = 0, chosen = 0;

    for (size_t v = 0; v < s->vocabulary; v++) {
        double logit = 0;
        for (size_t i = 0; i < s->width; i++)
            logit += table[v * s->width + i] * x[i];
        sum += exp(logit);
        if ((int32_t)v == label)
            chosen = logit;
    }
    return log(sum) - chosen;
}

double reference_gpt_loss(const struct model *model, double *const *parameters, const void *input, const int32_t *labels,
                          size_t batch)
{
    static rows x, y;
    const struct model_settings *s = &model->settings;
    const int32_t *tokens = input;
    double sum = 0;

    for (size_t b = 0; b < batch; b++) {
        struct cursor at = {s, parameters + 2};
        for (size_t t = 0; t < s->block; t++)
            for (size_t i = 0; i < s->width; i++)
                x[t][i] = parameters[0][(size_t)tokens[b * s->block + t] * s->width + i] + parameters[1][t * s->width + i];
        for (size_t l = 0; l < s->layers; l++)
            layer(&at, x);
        norm(&at, y, x);
        for (size_t t = 0; t < s->block; t++)
            sum += token_loss(s, parameters[0], y[t], labels[b * s->block + t]);
    }
    return sum / ((double)batch * (double)s->block);
}
