/* SPDX-License-Identifier: MIT
 *
 * Which layers a residual network has, under which names.
 *
 *     resnet20   3 stages of `depth` (3) blocks of two 3 x 3 convolutions, width (16), 2 width, 4 width channels,
 *                stride 2 at the beginning of the second and third; a 1 x 1 projection where the shape changes
 *                (He et al. 2015, section 4.2, option B)
 *     resnet50   torchvision's v1.5: 7 x 7 with stride 2, pooling, 4 stages of 3, 4, 6, 3 (or `depth` each) blocks of
 *                1 x 1, 3 x 3 (stride here), 1 x 1 with width (64) x 1, 2, 4, 8 channels inside, 4 times that outside
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/model_types.h"
#include "nn/resnet.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

#define EXPANSION 4 /* resnet50: a block's outer channels over its inner ones */

static const struct model_settings defaults_20 = {.inputs = 3 * 32 * 32, .width = 16, .depth = 3, .classes = 10};
static const struct model_settings defaults_50 = {.inputs = 3 * 224 * 224, .width = 64, .classes = 1000};

static bool is_50(const struct model *model)
{
    return model->type == &model_resnet50;
}

/* ---- the network ------------------------------------------------------------------------------------------------- */

/* A network while it is being made: the shape of what the last unit gives, and the next parameter. */
struct maker {
    struct resnet_network *network;
    size_t channels, height;
    int parameter;
};

/* Adds a unit that reads channels x height and becomes what the next one reads. */
static void add_unit(struct maker *maker, const char *block, const char *convolution, const char *norm, size_t out,
                     size_t kernel, size_t stride)
{
    struct resnet_unit *unit = &maker->network->units[maker->network->unit_count];
    size_t out_height = convolution_out_height(maker->height, kernel, stride);

    *unit = (struct resnet_unit){.weight = maker->parameter, .running = 2 * maker->network->unit_count};
    unit->shape = (struct convolution_shape){maker->channels, out,        kernel,          stride,
                                             maker->height,   out_height, maker->parameter};
    snprintf(unit->name[0], sizeof unit->name[0], "%s%s", block, convolution);
    snprintf(unit->name[1], sizeof unit->name[1], "%s%s", block, norm);
    maker->network->unit_count++;
    maker->parameter += 3;
    maker->channels = out;
    maker->height = out_height;
}

/* Adds the shortcut of a block that began with `begin` and gives what `maker` stands at. */
static void add_shortcut(struct maker *maker, const struct maker *begin, const char *name, const char *what,
                         size_t stride)
{
    struct maker at = *begin;
    char names[2][24];

    snprintf(names[0], sizeof names[0], "%s.0", what);
    snprintf(names[1], sizeof names[1], "%s.1", what);
    maker->network->blocks[maker->network->block_count].shortcut = maker->network->unit_count;
    at.parameter = maker->parameter;
    add_unit(&at, name, names[0], names[1], maker->channels, 1, stride);
    maker->parameter = at.parameter;
}

static void add_block(struct maker *maker, const char *name, size_t inner, size_t stride, bool bottleneck)
{
    struct resnet_network *network = maker->network;
    struct resnet_block *block = &network->blocks[network->block_count];
    const struct maker begin = *maker;
    size_t out = bottleneck ? EXPANSION * inner : inner;

    *block = (struct resnet_block){.first = network->unit_count, .count = bottleneck ? 3 : 2, .shortcut = -1};
    if (bottleneck) {
        add_unit(maker, name, "conv1", "bn1", inner, 1, 1);
        add_unit(maker, name, "conv2", "bn2", inner, 3, stride);
        add_unit(maker, name, "conv3", "bn3", out, 1, 1);
    } else {
        add_unit(maker, name, "conv1", "bn1", inner, 3, stride);
        add_unit(maker, name, "conv2", "bn2", out, 3, 1);
    }
    if (stride != 1 || begin.channels != out)
        add_shortcut(maker, &begin, name, bottleneck ? "downsample" : "short", stride);
    network->block_count++;
}

static void make_20(struct maker *maker, const struct model_settings *s)
{
    char name[40];

    add_unit(maker, "", "conv", "bn", s->width, 3, 1);
    for (size_t i = 0; i < 3 * s->depth; i++) {
        size_t stage = i / s->depth;
        snprintf(name, sizeof name, "blocks.%zu.", i);
        add_block(maker, name, s->width << stage, stage && i % s->depth == 0 ? 2 : 1, false);
    }
}

static void make_50(struct maker *maker, const struct model_settings *s)
{
    static const size_t blocks[] = {3, 4, 6, 3};
    char name[40];

    maker->network->pooled = true;
    maker->network->shortcut_first = true;
    add_unit(maker, "", "conv1", "bn1", s->width, 7, 2);
    maker->height = (maker->height + 1) / 2;
    for (size_t stage = 0; stage < 4; stage++)
        for (size_t i = 0; i < (s->depth ? s->depth : blocks[stage]); i++) {
            snprintf(name, sizeof name, "layer%zu.%zu.", stage + 1, i);
            add_block(maker, name, s->width << stage, stage && i == 0 ? 2 : 1, true);
        }
}

/* Three channels if a third of the inputs is a square, one if all of them are; 0: neither. */
static size_t image_height(size_t inputs, size_t *channels)
{
    for (*channels = 3; *channels; *channels -= 2) {
        size_t pixels = inputs / *channels, height = (size_t)lround(sqrt((double)pixels));
        if (inputs % *channels == 0 && height * height == pixels)
            return height;
        if (*channels == 1)
            break;
    }
    return 0;
}

void resnet_network(struct resnet_network *network, const struct model *model)
{
    struct maker maker = {.network = network};

    memset(network, 0, sizeof *network);
    network->height = image_height(model->settings.inputs, &network->channels);
    maker.channels = network->channels;
    maker.height = network->height;
    if (is_50(model))
        make_50(&maker, &model->settings);
    else
        make_20(&maker, &model->settings);
    network->features = maker.channels;
    network->classifier = maker.parameter;
}

/* ---- the description --------------------------------------------------------------------------------------------- */

/* Initial values: PyTorch's of Conv2d and Linear, uniform up to 1 / sqrt(fan in); in resnet50 torchvision's of
 * convolutions, normal with deviation sqrt(2 / fan out). BatchNorm: weight 1, bias 0, mean 0, variance 1. */
static void describe_unit(struct model *model, const struct resnet_unit *unit)
{
    struct parameter *weight = &model->parameters[unit->weight];
    const struct convolution_shape *s = &unit->shape;
    size_t window = s->kernel * s->kernel;

    *weight = (struct parameter){.shape = {s->out, s->in, s->kernel, s->kernel},
                                 .dims = 4,
                                 .count = s->out * s->in * window,
                                 .initial_value = 1 / sqrtf((float)(s->in * window)),
                                 .channels_last = true};
    if (is_50(model)) {
        weight->initial = INITIAL_NORMAL;
        weight->initial_value = sqrtf(2 / (float)(s->out * window));
    }
    snprintf(weight->name, sizeof weight->name, "%s.weight", unit->name[0]);
    for (int i = 0; i < 2; i++) {
        struct parameter one = {.shape = {s->out}, .dims = 1, .count = s->out, .initial = INITIAL_CONSTANT};
        one.initial_value = i == 0 ? 1 : 0;
        snprintf(one.name, sizeof one.name, "%s.%s", unit->name[1], i ? "bias" : "weight");
        weight[1 + i] = one;
        one.initial_value = i == 0 ? 0 : 1;
        snprintf(one.name, sizeof one.name, "%s.running_%s", unit->name[1], i ? "var" : "mean");
        model->buffers[unit->running + i] = one;
    }
}

static void describe_classifier(struct model *model, const struct resnet_network *network)
{
    size_t in = network->features, out = model->settings.classes;
    float bound = 1 / sqrtf((float)in);
    struct parameter *weight = &model->parameters[network->classifier];

    weight[0] = (struct parameter){
        .name = "fc.weight", .shape = {out, in}, .dims = 2, .count = out * in, .initial_value = bound};
    weight[1] = (struct parameter){.name = "fc.bias", .shape = {out}, .dims = 1, .count = out, .initial_value = bound};
}

static int refuse(const struct model *model, const char *what, size_t found, const char *expected)
{
    log_error("%s: %s %zu found, expected %s", model->type->name, what, found, expected);
    return EXIT_USAGE;
}

static int resolve(struct model *model, const struct model_settings *settings)
{
    const struct model_settings *fallback = is_50(model) ? &defaults_50 : &defaults_20;
    struct model_settings *s = &model->settings;
    size_t channels;

    s->inputs = settings->inputs ? settings->inputs : fallback->inputs;
    s->width = settings->width ? settings->width : fallback->width;
    s->depth = settings->depth ? settings->depth : fallback->depth;
    s->classes = settings->classes ? settings->classes : fallback->classes;
    if (s->width > 1024)
        return refuse(model, "width", s->width, "1 to 1024 channels");
    if (s->depth > 10)
        return refuse(model, "depth", s->depth, "1 to 10 blocks a stage");
    if (s->classes > 1 << 24)
        return refuse(model, "classes", s->classes, "1 to 16777216");
    if (s->inputs > 3 << 20 || image_height(s->inputs, &channels) == 0)
        return refuse(model, "inputs", s->inputs, "h x h or 3 x h x h of at most 1024 x 1024 pixels");
    return EXIT_OK;
}

int resnet_describe(struct model *model, const struct model_settings *settings)
{
    struct resnet_network *network = malloc(sizeof *network);
    int status = resolve(model, settings);

    if (network && !status) {
        resnet_network(network, model);
        model->parameter_count = network->classifier + 2;
        model->buffer_count = 2 * network->unit_count;
        model->parameters = calloc((size_t)model->parameter_count, sizeof *model->parameters);
        model->buffers = calloc((size_t)model->buffer_count, sizeof *model->buffers);
    }
    if (!status && (!network || !model->parameters || !model->buffers)) {
        log_error("%s: no memory for the list of parameters", model->type->name);
        status = EXIT_RESOURCE;
    }
    for (int i = 0; !status && i < network->unit_count; i++)
        describe_unit(model, &network->units[i]);
    if (!status)
        describe_classifier(model, network);
    free(network);
    snprintf(model->text, sizeof model->text, "inputs=%zu width=%zu depth=%zu classes=%zu", model->settings.inputs,
             model->settings.width, model->settings.depth, model->settings.classes);
    model->input_count = model->settings.inputs;
    model->targets = 1;
    model->classes = model->settings.classes;
    return status;
}
