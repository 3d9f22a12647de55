/* SPDX-License-Identifier: MIT
 *
 * Launch functions of all kernels, each written once, in a .cu file of this folder, for GPU and CPU. Each enqueues on `stream`
 * of the current device and returns before the work is done. All pointers are device pointers; row-major; no aliasing unless
 * "in place" is said. Sizes of 0 are allowed and launch nothing (outputs of reductions over nothing are set to 0).
 * `type` is the element type of the call's void pointers; sums and functions are taken in float whatever it is.
 * Each launch states its FLOPs and bytes (see softgpu/launch.h); on CUDA they are not needed.
 * Sums run in a partition that depends on the shape alone: bit-equal from run to run and for any number of cores.
 */
#ifndef KERNELS_KERNELS_H
#define KERNELS_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "gpu/element.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- elementwise.cu ---- */
cudaError_t kernel_fill(float *y, float value, size_t n, cudaStream_t stream);
/* y *= factor, in place */
cudaError_t kernel_scale(enum element_type type, void *y, float factor, size_t n, cudaStream_t stream);
/* y = factor x */
cudaError_t kernel_copy_scale(enum element_type type, void *y, const void *x, float factor, size_t n, cudaStream_t stream);
/* sums += x (first: = x), in fp32 */
cudaError_t kernel_accumulate(enum element_type type, float *sums, const void *x, int first, size_t n, cudaStream_t stream);
/* y = factor (sums + x), rounded once; y may be x */
cudaError_t kernel_sum_scale(enum element_type type, void *y, const void *x, const float *sums, float factor, size_t n,
                             cudaStream_t stream);
/* y += x, in place */
cudaError_t kernel_add(enum element_type type, void *y, const void *x, size_t n, cudaStream_t stream);
/* y of type `to` = x of type `from`, rounded to nearest, ties to even. */
cudaError_t kernel_cast(enum element_type to, void *y, enum element_type from, const void *x, size_t n, cudaStream_t stream);

/* ---- activation.cu ---- y[rows][columns], bias[columns]; all in place on y where y is the only tensor */
cudaError_t kernel_bias(enum element_type type, void *y, const void *bias, size_t rows, size_t columns, cudaStream_t stream);
cudaError_t kernel_bias_relu(enum element_type type, void *y, const void *bias, size_t rows, size_t columns,
                             cudaStream_t stream);
/* dx = dy where y > 0, else 0; NaN in dy stays. dx may be dy. y is the OUTPUT of the ReLU. */
cudaError_t kernel_relu_backward(enum element_type type, void *dx, const void *dy, const void *y, size_t n,
                                 cudaStream_t stream);
cudaError_t kernel_relu_forward(enum element_type type, void *y, const void *x, size_t n, cudaStream_t stream);
/* GPT-2's tanh form: 0.5 x (1 + tanh(sqrt(2/pi)(x + 0.044715 x^3))). */
cudaError_t kernel_gelu_forward(enum element_type type, void *y, const void *x, size_t n, cudaStream_t stream);
cudaError_t kernel_gelu_backward(enum element_type type, void *dx, const void *dy, const void *x, size_t n,
                                 cudaStream_t stream); /* dx may be dy */
/* x += bias, in place; y = gelu(x). */
cudaError_t kernel_bias_gelu(enum element_type type, void *y, void *x, const void *bias, size_t rows, size_t columns,
                             cudaStream_t stream);

/* ---- layernorm.cu ---- x, y and their gradients [rows][columns]; mean, rstd [rows]; gamma, beta, bias [columns] */
/* If residual is not NULL, first x = (x + bias) + residual, in place. Then y = (x - mean) rstd gamma + beta. */
cudaError_t kernel_layernorm_forward(enum element_type type, void *y, float *mean, float *rstd, void *x, const void *residual,
                                     const void *bias, const void *gamma, const void *beta, size_t rows, size_t columns,
                                     float epsilon, cudaStream_t stream);
/* dx = (accumulate ? dx : 0) + the gradient of x; mean and rstd are the forward pass's. */
cudaError_t kernel_layernorm_backward(enum element_type type, void *dx, const void *dy, const void *x, const float *mean,
                                      const float *rstd, const void *gamma, size_t rows, size_t columns, int accumulate,
                                      cudaStream_t stream);
/* Gradients of gamma and beta, added to what is there if accumulate. */
cudaError_t kernel_layernorm_parameters(enum element_type type, void *dgamma, void *dbeta, const void *dy, const void *x,
                                        const float *mean, const float *rstd, size_t rows, size_t columns, int accumulate,
                                        cudaStream_t stream);

/* ---- attention.cu ---- */
/* scores[rows][columns], in place: row r sees its first n = first + r % block_rows + 1 <= columns elements, which become
 * softmax(scale scores); the others are not read and become 0. */
cudaError_t kernel_causal_softmax_forward(enum element_type type, void *scores, size_t rows, size_t columns, size_t block_rows,
                                          size_t first, float scale, cudaStream_t stream);
/* d_scores, in place, from the gradient of the probabilities to that of the scores: scale p (d - sum p d); 0 beyond. */
cudaError_t kernel_causal_softmax_backward(enum element_type type, void *d_scores, const void *probabilities, size_t rows,
                                           size_t columns, size_t block_rows, size_t first, float scale, cudaStream_t stream);
/* heads[parts][batch][head_count][tokens][width] = x[batch][tokens][parts][head_count][width] + bias[parts][head_count][width]
 * (bias may be NULL), and back. */
cudaError_t kernel_heads_split(enum element_type type, void *heads, const void *x, const void *bias, size_t batch, size_t tokens,
                               size_t head_count, size_t width, size_t parts, cudaStream_t stream);
cudaError_t kernel_heads_merge(enum element_type type, void *x, const void *heads, size_t batch, size_t tokens,
                               size_t head_count, size_t width, size_t parts, cudaStream_t stream);

/* ---- embedding.cu ---- */
/* y[r] = table[tokens[r]] + positions[r % period]; table [vocabulary][columns]; positions [period][columns] or NULL. A token
 * outside [0, vocabulary) gives NaN. */
cudaError_t kernel_embedding_forward(enum element_type type, void *y, const void *table, const void *positions,
                                     const int32_t *tokens, size_t rows, size_t columns, size_t vocabulary, size_t period,
                                     cudaStream_t stream);
/* order[n]: the places 0 .. n-1 sorted by their tokens, equal ones by place; n < 2^24. */
cudaError_t kernel_embedding_order(int32_t *order, const int32_t *tokens, size_t n, cudaStream_t stream);
/* d_table[tokens[r]] += dy[r] for all rows, equal tokens summed in the order of their places; order: of these tokens. A token
 * outside the table adds nothing. */
cudaError_t kernel_embedding_backward(enum element_type type, void *d_table, const void *dy, const int32_t *tokens,
                                      const int32_t *order, size_t rows, size_t columns, size_t vocabulary, cudaStream_t stream);

/* ---- reduction.cu ---- */
/* out[columns] = (accumulate ? out : 0) + sum over rows of x[rows][columns]: a bias gradient. rows = 0: zeros (or kept). */
cudaError_t kernel_column_sums(enum element_type type, void *out, const void *x, size_t rows, size_t columns, int accumulate,
                               cudaStream_t stream);
/* out[0] = sum of x[n]. */
cudaError_t kernel_sum(float *out, const float *x, size_t n, cudaStream_t stream);

/* ---- softmax.cu ---- */
/* losses[rows] = -log softmax(logits[rows][classes])[labels[row]]; if d_logits is not NULL also
 * d_logits = (softmax - onehot) * scale, times *loss_scale (on the device; NULL: 1); d_logits may be logits. A label outside
 * [0, classes) gives loss NaN and d 0. */
cudaError_t kernel_softmax_cross_entropy(enum element_type type, float *losses, void *d_logits, const void *logits,
                                         const int32_t *labels, size_t rows, size_t classes, float scale,
                                         const float *loss_scale, cudaStream_t stream);
/* correct[0] = number of rows whose largest logit (the first of equals; NaN never) stands at labels[row]. */
cudaError_t kernel_count_correct(enum element_type type, int32_t *correct, const void *logits, const int32_t *labels,
                                 size_t rows, size_t classes, cudaStream_t stream);

/* ---- optimizer.cu ---- torch.optim's formulas */

/* What decides about an update lives on the device, so that the host never waits for it: kernel_update_prepare writes it,
 * the update reads it. */
struct update_control {
    float loss_scale;   /* fp16: the loss's gradient is multiplied by it */
    float found_inf;    /* 1: a gradient of this update is inf or NaN (kernel_find_inf stores it, prepare clears it) */
    int32_t good_steps; /* since the scale changed */
    int32_t updates;    /* done, without the skipped ones: t */
    int32_t skipped;
    /* of the update that comes: */
    float factor;                   /* what gradients are multiplied by: 1 / scale, and the clipping */
    float skip;                     /* 1: everything stays as it is */
    float correction1, correction2; /* 1 / (1 - beta^t) */
};
cudaError_t kernel_control_set(struct update_control *control, struct update_control values, cudaStream_t stream);

/* control->found_inf = 1 if any of x[n] is inf or NaN. */
cudaError_t kernel_find_inf(enum element_type type, struct update_control *control, const void *x, size_t n,
                            cudaStream_t stream);
/* parts[ceil(n / SQUARES_PART)] = sums of squares of x[n], part by part. */
#define SQUARES_PART ((size_t)16384)
cudaError_t kernel_squares(enum element_type type, float *parts, const void *x, size_t n, cudaStream_t stream);

/* torch.cuda.amp.GradScaler's rule and torch.nn.utils.clip_grad_norm_'s, by one thread. */
struct update_plan {
    int32_t scaled;   /* fp16: 1 / loss_scale; skip, and halve the scale, on inf */
    float clip_norm;  /* gradients' norm is at most this; 0: not clipped, parts are not read */
    float growth, backoff;
    int32_t growth_interval;
    float beta1, beta2;
};
cudaError_t kernel_update_prepare(struct update_control *control, struct update_plan plan, const float *parts, size_t count,
                                  cudaStream_t stream);

/* What all updates have. */
struct update {
    float *p;                             /* [n]: fp32 */
    void *working;                        /* [n] of type: written from p; NULL: none */
    enum element_type type;               /* of working and g */
    const void *g;                        /* [n] */
    size_t n;
    const struct update_control *control; /* device; NULL: factor 1, never skipped */
};
/* g' = g + decay p; m = first ? g' : momentum m + g'; p -= lr (momentum ? m : g'), or with nesterov lr (g' + momentum m).
 * m [n] may be NULL if momentum is 0. */
cudaError_t kernel_sgd(const struct update *update, float *m, float lr, float momentum, int nesterov, float decay, int first,
                       cudaStream_t stream);
/* decoupled (AdamW): p -= lr decay p; else (Adam): g' = g + decay p. m = b1 m + (1-b1) g'; v = b2 v + (1-b2) g'^2;
 * p -= lr m/(1-b1^t) / (sqrt(v/(1-b2^t)) + eps); t from 1 (with a control its own). m, v [n]. */
cudaError_t kernel_adam(const struct update *update, float *m, float *v, float lr, float beta1, float beta2, float epsilon,
                        float decay, int decoupled, int t, cudaStream_t stream);

/* ---- random.cu ---- Philox4x32-10 by element index (common/sys/random.h has the same numbers on the host) */
cudaError_t kernel_random_normal(float *y, size_t n, uint64_t seed, uint64_t stream_id, float deviation, cudaStream_t stream);

/* ---- empty.cu ---- for the launch benchmark */
cudaError_t kernel_empty(cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
