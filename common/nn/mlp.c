/* SPDX-License-Identifier: MIT
 *
 * The multilayer perceptron: depth x (Linear(width), ReLU), Linear(classes), as nn.Sequential of PyTorch with its
 * names.
 *
 * Layer l of 0 .. depth computes y = x W^T + b, then ReLU but for the last:
 *
 *     x [batch][in]   W [out][in]   b [out]   y [batch][out], row-major
 *
 * Products are the only big work: bias and ReLU go over an output once, right behind its product, while it is in the
 * cache. Parameter 2 l is layer l's weight, 2 l + 1 its bias.
 */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpu/memory.h"
#include "kernels/kernels.h"
#include "nn/layers.h"
#include "nn/model_types.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

#define DEPTH_MAX 1000           /* layers: keeps the list of parameters short */
#define SIZE_MAX_LAYER (1 << 24) /* inputs, width, classes: their products with a batch stay far below SIZE_MAX */

static const struct model_settings defaults = {.inputs = 784, .width = 1024, .depth = 4, .classes = 10};

/* ---- description ---- */

static size_t layer_inputs(const struct model *model, size_t layer)
{
    return layer == 0 ? model->settings.inputs : model->settings.width;
}

static size_t layer_outputs(const struct model *model, size_t layer)
{
    return layer == model->settings.depth ? model->settings.classes : model->settings.width;
}

static int resolve(size_t *resolved, const char *name, size_t given, size_t fallback, size_t most)
{
    *resolved = given ? given : fallback;
    if (*resolved <= most)
        return EXIT_OK;
    log_error("mlp: %s %zu found, expected 1 to %zu", name, *resolved, most);
    return EXIT_USAGE;
}

/* nn.Sequential counts the ReLUs too: layer l is "net.2l". */
static void describe_layer(struct model *model, size_t layer)
{
    size_t in = layer_inputs(model, layer), out = layer_outputs(model, layer);
    float bound = 1 / sqrtf((float)in);
    struct parameter *weight = &model->parameters[2 * layer], *bias = weight + 1;

    *weight = (struct parameter){.shape = {out, in}, .dims = 2, .count = out * in, .initial_value = bound};
    *bias = (struct parameter){.shape = {out}, .dims = 1, .count = out, .initial_value = bound};
    snprintf(weight->name, sizeof weight->name, "net.%zu.weight", 2 * layer);
    snprintf(bias->name, sizeof bias->name, "net.%zu.bias", 2 * layer);
}

static int mlp_describe(struct model *model, const struct model_settings *settings)
{
    struct model_settings *s = &model->settings;

    TRY(resolve(&s->inputs, "inputs", settings->inputs, defaults.inputs, SIZE_MAX_LAYER));
    TRY(resolve(&s->width, "width", settings->width, defaults.width, SIZE_MAX_LAYER));
    TRY(resolve(&s->depth, "depth", settings->depth, defaults.depth, DEPTH_MAX));
    TRY(resolve(&s->classes, "classes", settings->classes, defaults.classes, SIZE_MAX_LAYER));

    model->parameter_count = 2 * ((int)s->depth + 1);
    model->parameters = calloc((size_t)model->parameter_count, sizeof *model->parameters);
    if (!model->parameters) {
        log_error("mlp: no memory for the list of %d parameters", model->parameter_count);
        return EXIT_RESOURCE;
    }
    for (size_t layer = 0; layer <= s->depth; layer++)
        describe_layer(model, layer);
    snprintf(model->text, sizeof model->text, "inputs=%zu width=%zu depth=%zu classes=%zu", s->inputs, s->width, s->depth,
             s->classes);
    model->input_count = s->inputs;
    model->targets = 1;
    model->classes = s->classes;
    return EXIT_OK;
}

/* ---- activations ---- */

/* depth + 1 blocks [batch_max][width]: block l holds the output of hidden layer l. In the backward pass the gradient of
 * layer l's input takes block l, whose own content nobody needs any more; so there is one block more than hidden
 * layers, and no others for gradients. A forward pass is good for one backward pass. Behind them, in 16 bit, stands the
 * input in the model's type. */

static void *block(const struct replica *replica, size_t layer)
{
    size_t elements = layer * replica->batch_max * replica->model->settings.width;

    return (char *)replica->state + elements * element_size(replica_type(replica));
}

/* What layer 0 reads, once the forward pass has been there. */
static void *first_input(const struct replica *replica)
{
    bool cast = input_cast_bytes(replica) > 0;

    return cast ? block(replica, replica->model->settings.depth + 1) : replica->input;
}

static int mlp_open(struct replica *replica)
{
    const struct model_settings *s = &replica->model->settings;
    size_t outputs = replica->batch_max * replica->model->output_bytes;

    if (replica->batch_max > INT_MAX) {
        log_error("mlp: batch %zu found, expected at most %d on a device", replica->batch_max, INT_MAX);
        return EXIT_USAGE;
    }
    size_t blocks = (s->depth + 1) * replica->batch_max * s->width * element_size(s->type);
    TRY(gpu_malloc(&replica->state, blocks + input_cast_bytes(replica), MEMORY_ACTIVATIONS));
    TRY(gpu_malloc(&replica->logits, outputs, MEMORY_OUTPUTS));
    TRY(gpu_malloc(&replica->d_logits, outputs, MEMORY_OUTPUTS));
    return EXIT_OK;
}

static void mlp_close(struct replica *replica)
{
    gpu_free(replica->d_logits);
    gpu_free(replica->logits);
    gpu_free(replica->state);
}

/* ---- forward ---- */

static int mlp_forward(struct replica *replica, size_t batch, bool training)
{
    enum element_type type = replica_type(replica);
    size_t depth = replica->model->settings.depth;
    const void *x;

    (void)training;
    if (batch == 0)
        return EXIT_OK;
    TRY(input_cast(replica, first_input(replica), batch, &x));
    for (size_t layer = 0; layer <= depth; layer++) {
        size_t out = layer_outputs(replica->model, layer);
        const void *bias = replica_parameter(replica, (int)(2 * layer + 1));
        void *y = layer == depth ? replica->logits : block(replica, layer);
        TRY(linear_forward(replica, y, x, batch, (int)(2 * layer)));
        if (layer == depth)
            GPU_TRY(kernel_bias(type, y, bias, batch, out, replica->compute));
        else
            GPU_TRY(kernel_bias_relu(type, y, bias, batch, out, replica->compute));
        x = y;
    }
    return EXIT_OK;
}

/* ---- backward ---- */

/* Layer l: its gradients from dy, then the gradient of its input, in block l; where the ReLU of layer l - 1 did not let
 * through it is 0. Nobody asks for the gradient of the model's input. */
static int mlp_backward_layer(const struct backward *pass, size_t layer, const void *dy)
{
    struct replica *replica = pass->replica;
    size_t in = layer_inputs(replica->model, layer);
    void *dx = layer ? block(replica, layer) : NULL;
    const void *x = layer ? block(replica, layer - 1) : first_input(replica);

    TRY(linear_backward(pass, dx, dy, x, pass->batch, (int)(2 * layer), true));
    if (dx && pass->batch)
        GPU_TRY(kernel_relu_backward(replica_type(replica), dx, dx, x, pass->batch * in, replica->compute));
    return EXIT_OK;
}

static int mlp_backward(struct replica *replica, const void *d_logits, size_t batch, bool accumulate,
                        gradient_ready *ready, void *context)
{
    const struct backward pass = {replica, batch, accumulate, ready, context};
    size_t depth = replica->model->settings.depth;

    TRY(backward_begin(&pass));
    for (size_t layer = depth + 1; layer-- > 0;)
        TRY(mlp_backward_layer(&pass, layer, layer == depth ? d_logits : block(replica, layer + 1)));
    return EXIT_OK;
}

const struct model_type model_mlp = {
    .name = "mlp",
    .describe = mlp_describe,
    .open = mlp_open,
    .close = mlp_close,
    .forward = mlp_forward,
    .backward = mlp_backward,
};
