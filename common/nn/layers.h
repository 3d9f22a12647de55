/* SPDX-License-Identifier: MIT
 *
 * Layers: what models are made of. A layer is a function of a replica: it finds its parameters and their gradients by
 * index, enqueues on the compute stream, and keeps nothing. All tensors are row-major, on the replica's device, of the
 * model's element type unless said otherwise. Sizes of 0 rows enqueue nothing.
 */
#ifndef NN_LAYERS_H
#define NN_LAYERS_H

#include "nn/model.h"

static inline enum element_type replica_type(const struct replica *replica)
{
    return replica->model->settings.type;
}

/* The door of a model of floats: its input is fp32 and becomes the model's type once. In fp32 *x := replica->input and
 * `room` is not used; else enqueues room [batch][input_count] := the input, rounded, and *x := room, which the model
 * keeps for its backward pass. input_cast_bytes: what room must hold for batch_max samples; 0 in fp32. */
size_t input_cast_bytes(const struct replica *replica);
int input_cast(const struct replica *replica, void *room, size_t batch, const void **x);

/* C [rows][columns] = op(A) op(B) + beta C; k is the length of the sums: op(A) [rows][k], op(B) [k][columns], each
 * dense, stored transposed if op is CUBLAS_OP_T. */
struct product {
    void *c;
    const void *a, *b;
    cublasOperation_t op_a, op_b;
    size_t rows, columns, k;
    float beta;
    bool c_is_float; /* C is fp32 whatever the model's type; product_enqueue alone */
};
int product_enqueue(const struct replica *replica, const struct product *product);

/* `count` products of one shape; each of their matrices lies `stride` elements behind the one before. */
struct batch_of_products {
    size_t count, stride_c, stride_a, stride_b;
};
int products_enqueue(const struct replica *replica, const struct product *first, const struct batch_of_products *batch);

/* One backward pass on its way through the layers, last layer first. */
struct backward {
    struct replica *replica;
    size_t batch;          /* samples; 0: gradients stay as they are, and are ready all the same */
    bool accumulate;       /* add to the gradients that are there */
    gradient_ready *ready; /* or NULL */
    void *context;
};

/* Begins a pass: zeros the gradients if nothing else would (batch 0, not accumulated). */
int backward_begin(const struct backward *pass);
/* The gradient of parameter `index` has been enqueued. */
int backward_ready(const struct backward *pass, int index);

/* y [rows][out] = x [rows][in] W^T, W [out][in] = parameter `weight`. The bias (parameter weight + 1) is the caller's
 * to add, fused with what follows (kernel_bias, kernel_bias_relu ...). */
int linear_forward(const struct replica *replica, void *y, const void *x, size_t rows, int weight);

/* Gradients of parameters weight and weight + 1 (has_bias) from dy [rows][out] and x [rows][in], ready in PyTorch's
 * order, bias first; then dx [rows][in] = dy W if dx is not NULL. dx may be x, which nobody needs any more. */
int linear_backward(const struct backward *pass, void *dx, const void *dy, const void *x, size_t rows, int weight,
                    bool has_bias);

#define LAYERNORM_EPSILON 1e-5F /* PyTorch's default */

/* What a layer adds to the residual stream: parameter `bias` and the stream as it was before that layer. */
struct residual {
    const void *stream; /* [rows][columns] */
    int bias;
};

/* If residual: x += bias + residual->stream, in place. Then y = LayerNorm(x) with parameters weight (gamma) and weight + 1.
 * statistics [2][rows] floats: kept for the backward pass. x, y [rows][columns]. */
int layernorm_forward(const struct replica *replica, void *y, float *statistics, void *x, const struct residual *residual,
                      size_t rows, int weight);

/* Gradients of parameters weight and weight + 1, ready in this order (PyTorch's); then dx = (add ? dx : 0) + the gradient of
 * x. */
int layernorm_backward(const struct backward *pass, void *dx, bool add, const void *dy, const float *statistics, const void *x,
                       size_t rows, int weight);

#endif
