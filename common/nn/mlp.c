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

    *weight = (struct parameter){.shape = {out, in}, .dims = 2, .count = out * in, .initial_bound = bound};
    *bias = (struct parameter){.shape = {out}, .dims = 1, .count = out, .initial_bound = bound};
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
    model->input_bytes = s->inputs * sizeof(float);
    model->output_count = s->classes;
    return EXIT_OK;
}

/* ---- activations ---- */

/* depth + 1 blocks [batch_max][width]: block l holds the output of hidden layer l. In the backward pass the gradient of
 * layer l's input takes block l, whose own content nobody needs any more; so there is one block more than hidden
 * layers, and no others for gradients. A forward pass is good for one backward pass. */

static float *block(const struct replica *replica, size_t layer)
{
    return (float *)replica->state + layer * replica->batch_max * replica->model->settings.width;
}

static int mlp_open(struct replica *replica)
{
    const struct model_settings *s = &replica->model->settings;
    size_t outputs = replica->batch_max * s->classes * sizeof(float);

    if (replica->batch_max > INT_MAX) {
        log_error("mlp: batch %zu found, expected at most %d on a device", replica->batch_max, INT_MAX);
        return EXIT_USAGE;
    }
    TRY(gpu_malloc(&replica->state, (s->depth + 1) * replica->batch_max * s->width * sizeof(float),
                   MEMORY_ACTIVATIONS));
    TRY(gpu_malloc((void **)&replica->logits, outputs, MEMORY_OUTPUTS));
    TRY(gpu_malloc((void **)&replica->d_logits, outputs, MEMORY_OUTPUTS));
    return EXIT_OK;
}

static void mlp_close(struct replica *replica)
{
    gpu_free(replica->d_logits);
    gpu_free(replica->logits);
    gpu_free(replica->state);
}

/* ---- products ---- */

/* Row-major C [rows][columns] = op(A) op(B) + beta C through column-major cuBLAS: a row-major matrix is its transpose
 * in column-major, so C^T = op(B)^T op(A)^T, the operands in turned order. k is the length of the sums. */

static cublasStatus_t product(cublasHandle_t blas, float *c, const float *a, cublasOperation_t op_a, const float *b,
                              cublasOperation_t op_b, size_t rows, size_t columns, size_t k, float beta)
{
    static const float alpha = 1;
    int ld_a = (int)(op_a == CUBLAS_OP_N ? k : rows), ld_b = (int)(op_b == CUBLAS_OP_N ? columns : k);

    return cublasGemmEx(blas, op_b, op_a, (int)columns, (int)rows, (int)k, &alpha, b, CUDA_R_32F, ld_b, a, CUDA_R_32F,
                        ld_a, &beta, c, CUDA_R_32F, (int)columns, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

/* ---- forward ---- */

static int mlp_forward(struct replica *replica, size_t batch)
{
    const struct model *model = replica->model;
    size_t depth = model->settings.depth;
    const float *x = replica->input;

    if (batch == 0)
        return EXIT_OK;
    for (size_t layer = 0; layer <= depth; layer++) {
        size_t in = layer_inputs(model, layer), out = layer_outputs(model, layer);
        const float *weight = replica_parameter(replica, (int)(2 * layer));
        const float *bias = replica_parameter(replica, (int)(2 * layer + 1));
        float *y = layer == depth ? replica->logits : block(replica, layer);
        GPU_TRY(product(replica->blas, y, x, CUBLAS_OP_N, weight, CUBLAS_OP_T, batch, out, in, 0));
        if (layer == depth)
            GPU_TRY(kernel_bias(y, bias, batch, out, replica->compute));
        else
            GPU_TRY(kernel_bias_relu(y, bias, batch, out, replica->compute));
        x = y;
    }
    return EXIT_OK;
}

/* ---- backward ---- */

struct backward {
    struct replica *replica;
    size_t batch;
    bool accumulate;
    gradient_ready *ready;
    void *context;
};

static int tell_ready(const struct backward *pass, int index)
{
    return pass->ready ? pass->ready(pass->context, index) : EXIT_OK;
}

/* The gradients of layer l from dy [batch][out]; a batch of 0 adds nothing to what is there. */
static int layer_gradients(const struct backward *pass, size_t layer, const float *dy)
{
    struct replica *replica = pass->replica;
    int weight = (int)(2 * layer), bias = weight + 1;
    size_t in = layer_inputs(replica->model, layer), out = layer_outputs(replica->model, layer);
    const float *x = layer == 0 ? replica->input : block(replica, layer - 1);

    if (pass->batch)
        GPU_TRY(kernel_column_sums(replica_gradient(replica, bias), dy, pass->batch, out, pass->accumulate,
                                   replica->compute));
    TRY(tell_ready(pass, bias));
    if (pass->batch)
        GPU_TRY(product(replica->blas, replica_gradient(replica, weight), dy, CUBLAS_OP_T, x, CUBLAS_OP_N, out, in,
                        pass->batch, pass->accumulate ? 1 : 0));
    return tell_ready(pass, weight);
}

/* dy of layer l-1 := (dy W) where that layer's ReLU let through, in block l; returned through *dy. */
static int layer_input_gradient(const struct backward *pass, size_t layer, const float **dy)
{
    struct replica *replica = pass->replica;
    size_t in = layer_inputs(replica->model, layer), out = layer_outputs(replica->model, layer);
    const float *weight = replica_parameter(replica, (int)(2 * layer));
    float *dx = block(replica, layer);

    if (pass->batch) {
        GPU_TRY(product(replica->blas, dx, *dy, CUBLAS_OP_N, weight, CUBLAS_OP_N, pass->batch, in, out, 0));
        GPU_TRY(kernel_relu_backward(dx, dx, block(replica, layer - 1), pass->batch * in, replica->compute));
    }
    *dy = dx;
    return EXIT_OK;
}

static int mlp_backward(struct replica *replica, const float *d_logits, size_t batch, bool accumulate,
                        gradient_ready *ready, void *context)
{
    struct backward pass = {replica, batch, accumulate, ready, context};
    const float *dy = d_logits;

    if (batch == 0 && !accumulate)
        GPU_TRY(cudaMemsetAsync(replica->gradients, 0, replica->model->flat_bytes, replica->compute));
    for (size_t layer = replica->model->settings.depth; layer > 0; layer--) {
        TRY(layer_gradients(&pass, layer, dy));
        TRY(layer_input_gradient(&pass, layer, &dy));
    }
    return layer_gradients(&pass, 0, dy); /* nobody asks for the gradient of the input */
}

const struct model_type model_mlp = {
    .name = "mlp",
    .describe = mlp_describe,
    .open = mlp_open,
    .close = mlp_close,
    .forward = mlp_forward,
    .backward = mlp_backward,
};
