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
 * softmax(scale scores); the others are not read and become 0. tops[rows]: the largest score seen; factors[rows]: 1 over the sum
 * of exp(scale (score - top)). */
cudaError_t kernel_causal_softmax_forward(enum element_type type, void *scores, float *tops, float *factors, size_t rows,
                                          size_t columns, size_t block_rows, size_t first, float scale, cudaStream_t stream);
/* From the same scores, with the forward pass's tops and factors, both in place: scores become the probabilities p, and
 * d_probabilities, the gradient d of p, becomes that of the scores: scale p (d - sum p d); 0 beyond. */
cudaError_t kernel_causal_softmax_backward(enum element_type type, void *d_probabilities, void *scores, const float *tops,
                                           const float *factors, size_t rows, size_t columns, size_t block_rows, size_t first,
                                           float scale, cudaStream_t stream);
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

/* ---- lstm.cu ---- one step in time of torch.nn.LSTM's cell, rows = samples; gates [rows][4 columns] in the order i, f, g, o; c in
 * fp32. out and d_out: row r begins r * stride elements behind the pointer. */
/* gates, in place: from x W_ih^T + h W_hh^T (without biases) to the activated gates i, f, o = sigmoid, g = tanh;
 * c = f c_before + i g; h = out = o tanh c. bias_ih, bias_hh [4 columns]; all others [rows][columns]. */
cudaError_t kernel_lstm_forward(enum element_type type, void *gates, float *c, void *h, void *out, const float *c_before,
                                const void *bias_ih, const void *bias_hh, size_t rows, size_t columns, size_t stride,
                                cudaStream_t stream);
/* gates, in place: from the activated gates to the gradient of what was activated; d_c, in place: from the gradient of c to that of
 * c_before. The gradient of h is d_out + d_h; d_h NULL (the last step): d_out alone, and d_c is written without being read. */
cudaError_t kernel_lstm_backward(enum element_type type, void *gates, float *d_c, const float *c, const float *c_before,
                                 const void *d_out, const void *d_h, size_t rows, size_t columns, size_t stride,
                                 cudaStream_t stream);
/* y [columns][rows] = x [rows][columns], turned. */
cudaError_t kernel_turn_tokens(int32_t *y, const int32_t *x, size_t rows, size_t columns, cudaStream_t stream);

/* ---- reduction.cu ---- */
/* out[columns] = (accumulate ? out : 0) + sum over rows of x[rows][columns]: a bias gradient. rows = 0: zeros (or kept). */
cudaError_t kernel_column_sums(enum element_type type, void *out, const void *x, size_t rows, size_t columns, int accumulate,
                               cudaStream_t stream);
/* out[0] = sum of x[n]. */
cudaError_t kernel_sum(float *out, const float *x, size_t n, cudaStream_t stream);

/* ---- batch_norm.cu, batch_norm_backward.cu ---- x, y, dy, dx [rows][columns], weight and bias [columns] of `type`; all else float
 * statistics: [2 columns + 1] = mean, sum of squared deviations, count; saved: [2 columns + 1] = mean, 1 / deviation, count
 * (0 in an evaluation). partials: one set a chunk of rows. Formulas: Ioffe and Szegedy 2015; torch.nn.BatchNorm2d. */
static inline size_t kernel_batch_norm_chunks_most(size_t rows, size_t columns) /* of any batch of up to so many rows */
{
    const size_t of_32_kib = 8192 / (columns < 8192 ? columns : 8192), chunks = (rows + of_32_kib - 1) / of_32_kib;
    return chunks < 512 ? chunks : 512;
}
static inline size_t kernel_batch_norm_chunks(size_t rows, size_t columns) /* equal ones but for the last */
{
    const size_t most = kernel_batch_norm_chunks_most(rows, columns), each = most ? (rows + most - 1) / most : 1;
    return (rows + each - 1) / each;
}
/* partials [chunks][2 columns + 1] */
cudaError_t kernel_batch_norm_statistics(enum element_type type, float *partials, const void *x, size_t rows, size_t columns,
                                         cudaStream_t stream);
/* The statistics of all parts [part_count][2 columns + 1] together; parts without rows, or none at all, are allowed. */
cudaError_t kernel_batch_norm_combine(float *statistics, const float *parts, size_t part_count, size_t columns,
                                      cudaStream_t stream);
/* The same, into saved (with the biased variance), and running = (1 - momentum) running + momentum (mean, unbiased variance). */
cudaError_t kernel_batch_norm_finish(float *saved, float *running_mean, float *running_variance, const float *parts,
                                     size_t part_count, size_t columns, float momentum, float epsilon, cudaStream_t stream);
/* Evaluation: saved from the running statistics. */
cudaError_t kernel_batch_norm_from_running(float *saved, const float *running_mean, const float *running_variance,
                                           size_t columns, float epsilon, cudaStream_t stream);
/* y = (x - mean) / deviation weight + bias; + residual and ReLU if that is not NULL, ReLU if with_relu. y may be x. */
cudaError_t kernel_batch_norm_normalise(enum element_type type, void *y, const void *x, const void *residual,
                                        const float *saved, const void *weight, const void *bias, size_t rows,
                                        size_t columns, int with_relu, cudaStream_t stream);
/* partials [chunks][2 columns]: sums of g and of g (x - mean); g = dy, where bias is given only behind the ReLU, which is
 * seen again from x. */
cudaError_t kernel_batch_norm_sums(enum element_type type, float *partials, const void *dy, const void *x, const float *saved,
                                   const void *weight, const void *bias, size_t rows, size_t columns, cudaStream_t stream);
/* The same of g = g + other (if not NULL) where y > 0, else 0, which is written. */
cudaError_t kernel_batch_norm_gated_sums(enum element_type type, float *partials, void *g, const void *other, const void *y,
                                         const void *x, const float *saved, size_t rows, size_t columns, cudaStream_t stream);
/* sums [2 columns] of all chunks of `rows`; d_weight, d_bias (overwritten, or added to). */
cudaError_t kernel_batch_norm_fold(enum element_type type, float *sums, void *d_weight, void *d_bias, const float *partials,
                                   size_t rows, const float *saved, size_t columns, int accumulate, cudaStream_t stream);
/* sums (of all rows that saved counts), in place to the coefficients of apply. */
cudaError_t kernel_batch_norm_coefficients(enum element_type type, float *sums, const float *saved, const void *weight,
                                           size_t columns, cudaStream_t stream);
/* dx from g (bias NULL), or from dy through the ReLU; dx may be x. */
cudaError_t kernel_batch_norm_apply(enum element_type type, void *dx, const void *dy, const void *x, const float *saved,
                                    const void *weight, const void *bias, const float *coefficients, size_t rows,
                                    size_t columns, cudaStream_t stream);

/* ---- pooling.cu ---- NHWC; out of height x width: (height + 1) / 2 x (width + 1) / 2 */
/* y [images][columns] = mean over pixels of x [images][pixels][columns] */
cudaError_t kernel_average_pool(enum element_type type, void *y, const void *x, size_t images, size_t pixels, size_t columns,
                                cudaStream_t stream);
cudaError_t kernel_average_pool_backward(enum element_type type, void *dx, const void *dy, size_t images, size_t pixels,
                                         size_t columns, cudaStream_t stream);
/* Windows of 3 x 3, stride 2, border 1. places: as y, which of the window's 9 values was the maximum. */
cudaError_t kernel_max_pool(enum element_type type, void *y, uint8_t *places, const void *x, size_t images, size_t height,
                            size_t width, size_t columns, cudaStream_t stream);
cudaError_t kernel_max_pool_backward(enum element_type type, void *dx, const void *dy, const uint8_t *places, size_t images,
                                     size_t height, size_t width, size_t columns, cudaStream_t stream);

/* ---- im2col.cu ---- NHWC. patches [images][out_height][out_width][kernel][kernel][in], 0 where a window reaches over the border;
 * out = (height + 2 padding - kernel) / stride + 1, stated by the caller */
struct patch_shape {
    size_t height, width, in, kernel, stride, padding, out_height, out_width;
};
/* patches of x [images][height][width][in] */
cudaError_t kernel_im2col(enum element_type type, void *patches, const void *x, const struct patch_shape *shape, size_t images,
                          cudaStream_t stream);
/* dx [images][height][width][in] = the sum of the places of `patches` that each element was copied to */
cudaError_t kernel_col2im(enum element_type type, void *dx, const void *patches, const struct patch_shape *shape, size_t images,
                          cudaStream_t stream);

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
