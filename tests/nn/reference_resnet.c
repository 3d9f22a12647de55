/* SPDX-License-Identifier: MIT */
#include "reference_resnet.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "nn/resnet.h"

/* Of a batch, NHWC. */
struct tensor {
    size_t height, channels;
    double values[REFERENCE_ELEMENTS];
};

struct run {
    struct resnet_network network;
    double *const *parameters;
    size_t batch;
    struct reference_path path;
};

static void follow(struct run *run, size_t choice)
{
    run->path.hash = (run->path.hash ^ choice) * UINT64_C(0x100000001b3);
}

static double *element(struct tensor *t, size_t image, size_t h, size_t w, size_t c)
{
    size_t at = ((image * t->height + h) * t->height + w) * t->channels + c;

    assert(at < REFERENCE_ELEMENTS);
    return &t->values[at];
}

/* One output of a convolution: the window's products, the border 0. */
static double window(struct tensor *x, const struct convolution_shape *s, const double *filter, size_t image, size_t oh, size_t ow)
{
    double sum = 0;

    for (size_t r = 0; r < s->kernel; r++)
        for (size_t q = 0; q < s->kernel; q++) {
            long h = (long)(oh * s->stride + r) - (long)(s->kernel / 2), w = (long)(ow * s->stride + q) - (long)(s->kernel / 2);
            if (h < 0 || w < 0 || h >= (long)s->height || w >= (long)s->height)
                continue;
            for (size_t c = 0; c < s->in; c++)
                sum += filter[(r * s->kernel + q) * s->in + c] * *element(x, image, (size_t)h, (size_t)w, c);
        }
    return sum;
}

static void convolve(const struct run *run, struct tensor *y, struct tensor *x, const struct convolution_shape *s)
{
    const double *filters = run->parameters[s->weight];

    y->height = s->out_height;
    y->channels = s->out;
    for (size_t image = 0; image < run->batch; image++)
        for (size_t h = 0; h < y->height; h++)
            for (size_t w = 0; w < y->height; w++)
                for (size_t o = 0; o < s->out; o++)
                    *element(y, image, h, w, o) = window(x, s, filters + o * s->kernel * s->kernel * s->in, image, h, w);
}

/* x = (x - mean) / sqrt(variance + epsilon) gamma + beta, over the pixels of the batch. */
static void normalise(const struct run *run, struct tensor *x, const double *gamma, const double *beta)
{
    size_t rows = run->batch * x->height * x->height, columns = x->channels;

    for (size_t c = 0; c < columns; c++) {
        double mean = 0, variance = 0;
        for (size_t i = 0; i < rows; i++)
            mean += x->values[i * columns + c] / (double)rows;
        for (size_t i = 0; i < rows; i++) {
            double apart = x->values[i * columns + c] - mean;
            variance += apart * apart / (double)rows;
        }
        for (size_t i = 0; i < rows; i++) {
            double *value = &x->values[i * columns + c];
            *value = (*value - mean) / sqrt(variance + 1e-5) * gamma[c] + beta[c];
        }
    }
}

/* y = BatchNorm(convolution(x)) */
static void unit(const struct run *run, struct tensor *y, struct tensor *x, int index)
{
    const struct resnet_unit *u = &run->network.units[index];

    convolve(run, y, x, &u->shape);
    normalise(run, y, run->parameters[u->weight + 1], run->parameters[u->weight + 2]);
}

static void relu(struct run *run, struct tensor *x)
{
    for (size_t i = 0; i < run->batch * x->height * x->height * x->channels; i++) {
        follow(run, x->values[i] > 0);
        x->values[i] = x->values[i] > 0 ? x->values[i] : 0;
    }
}

/* The largest of the 3 x 3 windows of one image and channel, stride 2, border 1. */
static void pool_plane(struct run *run, struct tensor *y, struct tensor *x, size_t image, size_t c)
{
    for (size_t oh = 0; oh < y->height; oh++)
        for (size_t ow = 0; ow < y->height; ow++) {
            double top = -INFINITY;
            size_t place = 0;
            for (size_t tap = 0; tap < 9; tap++) {
                size_t h = oh * 2 + tap / 3, w = ow * 2 + tap % 3; /* one too large */
                if (h == 0 || w == 0 || h > x->height || w > x->height || *element(x, image, h - 1, w - 1, c) <= top)
                    continue;
                top = *element(x, image, h - 1, w - 1, c);
                place = tap;
            }
            follow(run, place);
            *element(y, image, oh, ow, c) = top;
        }
}

static void pool(struct run *run, struct tensor *y, struct tensor *x)
{
    y->height = (x->height + 1) / 2;
    y->channels = x->channels;
    for (size_t image = 0; image < run->batch; image++)
        for (size_t c = 0; c < x->channels; c++)
            pool_plane(run, y, x, image, c);
}

/* x = ReLU(units(x) + shortcut(x)) */
static void block(struct run *run, struct tensor *x, const struct resnet_block *b)
{
    static struct tensor shortcut, from, to;

    shortcut = from = *x;
    if (b->shortcut >= 0)
        unit(run, &shortcut, x, b->shortcut);
    for (int i = 0; i < b->count; i++) {
        unit(run, &to, &from, b->first + i);
        if (i < b->count - 1)
            relu(run, &to);
        from = to;
    }
    for (size_t i = 0; i < run->batch * from.height * from.height * from.channels; i++)
        from.values[i] += shortcut.values[i];
    relu(run, &from);
    *x = from;
}

/* Average pooling, the classifier, cross-entropy of one image. */
static double image_loss(const struct run *run, const struct model *model, struct tensor *x, size_t image, int32_t label)
{
    const double *weight = run->parameters[run->network.classifier], *bias = run->parameters[run->network.classifier + 1];
    size_t pixels = x->height * x->height;
    double sum = 0, wanted = 0;

    for (size_t k = 0; k < model->classes; k++) {
        double logit = bias[k];
        for (size_t c = 0; c < x->channels; c++)
            for (size_t p = 0; p < pixels; p++)
                logit += weight[k * x->channels + c] * *element(x, image, p / x->height, p % x->height, c) / (double)pixels;
        sum += exp(logit);
        wanted = (int32_t)k == label ? logit : wanted;
    }
    return log(sum) - wanted;
}

double reference_resnet_loss(const struct model *model, double *const *parameters, const float *input, const int32_t *labels,
                             size_t batch, struct reference_path *path)
{
    static struct run run;
    static struct tensor x, y;
    double sum = 0;

    run = (struct run){.parameters = parameters, .batch = batch};
    resnet_network(&run.network, model);
    x.height = run.network.height;
    x.channels = run.network.channels;
    for (size_t i = 0; i < batch * model->input_count; i++)
        x.values[i] = (double)input[i];
    unit(&run, &y, &x, 0);
    relu(&run, &y);
    if (run.network.pooled)
        pool(&run, &x, &y);
    else
        x = y;
    for (int i = 0; i < run.network.block_count; i++)
        block(&run, &x, &run.network.blocks[i]);
    for (size_t i = 0; i < batch; i++)
        sum += image_loss(&run, model, &x, i, labels[i]);
    if (path)
        *path = run.path;
    return sum / (double)batch;
}
