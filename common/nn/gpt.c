/* SPDX-License-Identifier: MIT
 *
 * GPT-2's decoder, without dropout: n = batch x block tokens of c = width numbers each,
 *
 *     x0 = wte[tokens] + wpe
 *     m  = x + mix(attention(qkv(ln1(x))))         for each layer
 *     x' = m + contract(gelu(expand(ln2(m))))
 *     logits = lnf(x) wte^T                         [n][vocabulary]
 *
 * A sum of the residual stream is taken by the LayerNorm behind it, which reads the row anyway. The forward pass keeps what the
 * backward pass reads; the backward pass writes gradients over what it has read for the last time, and needs one block of n c
 * more: `d`, the gradient of the residual stream, which flows from the last layer to the first and is added to.
 */
#include <limits.h>

#include "gpu/memory.h"
#include "kernels/kernels.h"
#include "nn/attention.h"
#include "nn/gpt.h"
#include "nn/model_types.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

#define ALIGNMENT 256 /* bytes, of each tensor */

/* ---- activations: one allocation, cut by a walk that open, forward and backward take alike ---- */

struct layer {
    float *norm_1, *norm_2; /* statistics [2][n] */
    float *rows;            /* attention's statistics */
    void *ln1;              /* [n][c]: input of qkv; then its gradient */
    void *qkv;              /* [3][batch][heads][block][c / heads]; then their gradient as [n][3 c] */
    void *attended;         /* [n][c]: input of mix; then its gradient. With the three behind it: scratch, too */
    void *middle;           /* [n][c]: the residual stream m */
    void *ln2;              /* [n][c]: input of expand; then its gradient */
    void *out;              /* [n][c]: the residual stream x' */
    void *expanded;         /* [n][4 c]: gelu's input; before and after that, scratch of attention */
    void *gelu;             /* [n][4 c]: gelu's output; then its gradient; likewise scratch */
};

struct state {
    void *embedded, *ln_final, *d; /* [n][c] */
    float *norm_final;             /* statistics [2][n] */
    int32_t *order;                /* [n]: places sorted by token */
    struct layer layer;            /* the one asked for */
    size_t bytes;                  /* of all */
};

static size_t width_of(const struct replica *replica)
{
    return replica->model->settings.width;
}

/* NULL as long as there is no state: then the walk only adds up bytes. */
static void *take(const struct replica *replica, struct state *state, size_t bytes)
{
    char *at = replica->state ? (char *)replica->state + state->bytes : NULL;

    state->bytes += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return at;
}

static struct attention attention_of(const struct replica *replica, size_t batch)
{
    const struct model_settings *s = &replica->model->settings;

    return (struct attention){batch, s->block, s->heads, s->width / s->heads};
}

static void take_layer(const struct replica *replica, struct state *state, struct layer *layer)
{
    size_t n = replica->batch_max * replica->model->settings.block;
    size_t row = n * width_of(replica) * element_size(replica_type(replica));
    const struct attention attention = attention_of(replica, replica->batch_max);

    layer->norm_1 = take(replica, state, 2 * n * sizeof(float));
    layer->norm_2 = take(replica, state, 2 * n * sizeof(float));
    layer->rows = take(replica, state, attention_statistics(&attention) * sizeof(float));
    layer->ln1 = take(replica, state, row);
    layer->qkv = take(replica, state, 3 * row);
    layer->attended = take(replica, state, row);
    layer->middle = take(replica, state, row);
    layer->ln2 = take(replica, state, row);
    layer->out = take(replica, state, row);
    layer->expanded = take(replica, state, 4 * row);
    layer->gelu = take(replica, state, 4 * row);
}

/* Where everything lies, and layer `index` of it. */
static struct state state_of(const struct replica *replica, size_t index)
{
    size_t n = replica->batch_max * replica->model->settings.block;
    size_t row = n * width_of(replica) * element_size(replica_type(replica));
    struct state state = {0};
    struct layer layer;

    state.embedded = take(replica, &state, row);
    state.ln_final = take(replica, &state, row);
    state.d = take(replica, &state, row);
    state.norm_final = take(replica, &state, 2 * n * sizeof(float));
    state.order = take(replica, &state, n * sizeof(int32_t));
    for (size_t i = 0; i < replica->model->settings.layers; i++) {
        take_layer(replica, &state, &layer);
        if (i == index)
            state.layer = layer;
    }
    return state;
}

static int gpt_open(struct replica *replica)
{
    const struct model *model = replica->model;
    size_t outputs = replica->batch_max * model->output_bytes;

    if (replica->batch_max > INT_MAX / model->input_count) {
        log_error("%s: batch %zu found, expected at most %zu on a device", model->type->name, replica->batch_max,
                  INT_MAX / model->input_count);
        return EXIT_USAGE;
    }
    TRY(gpu_malloc(&replica->state, state_of(replica, 0).bytes, MEMORY_ACTIVATIONS));
    TRY(gpu_malloc(&replica->logits, outputs, MEMORY_OUTPUTS));
    TRY(gpu_malloc(&replica->d_logits, outputs, MEMORY_OUTPUTS));
    return EXIT_OK;
}

static void gpt_close(struct replica *replica)
{
    gpu_free(replica->d_logits);
    gpu_free(replica->logits);
    gpu_free(replica->state);
}

/* ---- forward ---- */

/* attended = attention(qkv(ln1)), heads merged. `expanded` and `gelu` are not in use yet; once its heads are split, `expanded`
 * is free again. */
static int attend(struct replica *replica, const struct layer *layer, const struct attention *a, int parameters)
{
    size_t n = a->batch * a->tokens;

    TRY(linear_forward(replica, layer->expanded, layer->ln1, n, parameters + GPT_QKV));
    GPU_TRY(kernel_heads_split(replica_type(replica), layer->qkv, layer->expanded,
                               replica_parameter(replica, parameters + GPT_QKV + 1), a->batch, a->tokens, a->heads, a->width, 3,
                               replica->compute));
    TRY(attention_forward(replica, a, layer->gelu, layer->rows, layer->qkv, layer->expanded));
    GPU_TRY(kernel_heads_merge(replica_type(replica), layer->attended, layer->gelu, a->batch, a->tokens, a->heads, a->width, 1,
                               replica->compute));
    return EXIT_OK;
}

/* The layer's LayerNorm 1 has been taken; what it adds to `middle` at the end is not yet there. x: the layer's input. */
static int layer_forward(struct replica *replica, const struct layer *layer, const struct attention *a, int parameters,
                         const void *x)
{
    size_t n = a->batch * a->tokens;
    const struct residual residual = {x, parameters + GPT_MIX + 1};

    TRY(attend(replica, layer, a, parameters));
    TRY(linear_forward(replica, layer->middle, layer->attended, n, parameters + GPT_MIX));
    TRY(layernorm_forward(replica, layer->ln2, layer->norm_2, layer->middle, &residual, n, parameters + GPT_NORM_2));
    TRY(linear_forward(replica, layer->expanded, layer->ln2, n, parameters + GPT_EXPAND));
    GPU_TRY(kernel_bias_gelu(replica_type(replica), layer->gelu, layer->expanded,
                             replica_parameter(replica, parameters + GPT_EXPAND + 1), n, 4 * width_of(replica),
                             replica->compute));
    return linear_forward(replica, layer->out, layer->gelu, n, parameters + GPT_CONTRACT);
}

static int layers_forward(struct replica *replica, size_t batch)
{
    const struct model_settings *s = &replica->model->settings;
    const struct attention a = attention_of(replica, batch);
    struct state state = state_of(replica, 0);
    struct residual residual = {0};
    void *x = state.embedded;

    for (size_t i = 0; i < s->layers; i++) {
        struct layer layer = state_of(replica, i).layer;
        int parameters = gpt_layer(i);
        TRY(layernorm_forward(replica, layer.ln1, layer.norm_1, x, i ? &residual : NULL, batch * s->block,
                              parameters + GPT_NORM_1));
        TRY(layer_forward(replica, &layer, &a, parameters, x));
        residual = (struct residual){layer.middle, parameters + GPT_CONTRACT + 1};
        x = layer.out;
    }
    return layernorm_forward(replica, state.ln_final, state.norm_final, x, &residual, batch * s->block, gpt_layer(s->layers));
}

static int gpt_forward(struct replica *replica, size_t batch, bool training)
{
    const struct model_settings *s = &replica->model->settings;
    struct state state = state_of(replica, 0);
    size_t n = batch * s->block;

    (void)training;
    if (batch == 0)
        return EXIT_OK;
    GPU_TRY(kernel_embedding_forward(replica_type(replica), state.embedded, replica_parameter(replica, GPT_TOKENS),
                                     replica_parameter(replica, GPT_POSITIONS), replica->input, n, s->width, s->vocabulary,
                                     s->block, replica->compute));
    TRY(layers_forward(replica, batch));
    return linear_forward(replica, replica->logits, state.ln_final, n, GPT_TOKENS);
}

/* ---- backward ---- */

/* From the gradient of `attended`, in its place, to that of qkv's output [n][3 c], in the place of `qkv`. Nobody reads the layer's
 * other tensors of its later half any more: from `middle` to `gelu` they are scratch, and so is `attended` once it is split. */
static int attend_backward(struct replica *replica, const struct layer *layer, const struct attention *a)
{
    size_t row = a->batch * a->tokens * width_of(replica) * element_size(replica_type(replica));
    void *d_heads = layer->gelu, *d_o = (char *)layer->gelu + 3 * row;
    const struct attention_scratch scratch = {.p = layer->expanded, .d = layer->attended};

    if (a->batch == 0)
        return EXIT_OK;
    GPU_TRY(kernel_heads_split(replica_type(replica), d_o, layer->attended, NULL, a->batch, a->tokens, a->heads, a->width, 1,
                               replica->compute));
    TRY(attention_backward(replica, a, d_heads, d_o, layer->rows, layer->qkv, &scratch));
    GPU_TRY(kernel_heads_merge(replica_type(replica), layer->qkv, d_heads, a->batch, a->tokens, a->heads, a->width, 3,
                               replica->compute));
    return EXIT_OK;
}

/* d: the gradient of the layer's output, which becomes that of its input x. */
static int layer_backward(const struct backward *pass, const struct layer *layer, int parameters, void *d, const void *x)
{
    struct replica *replica = pass->replica;
    const struct attention a = attention_of(replica, pass->batch);
    size_t n = a.batch * a.tokens;

    TRY(linear_backward(pass, layer->gelu, d, layer->gelu, n, parameters + GPT_CONTRACT, true));
    if (n)
        GPU_TRY(kernel_gelu_backward(replica_type(replica), layer->gelu, layer->gelu, layer->expanded,
                                     n * 4 * width_of(replica), replica->compute));
    TRY(linear_backward(pass, layer->ln2, layer->gelu, layer->ln2, n, parameters + GPT_EXPAND, true));
    TRY(layernorm_backward(pass, d, true, layer->ln2, layer->norm_2, layer->middle, n, parameters + GPT_NORM_2));
    TRY(linear_backward(pass, layer->attended, d, layer->attended, n, parameters + GPT_MIX, true));
    TRY(attend_backward(replica, layer, &a));
    TRY(linear_backward(pass, layer->ln1, layer->qkv, layer->ln1, n, parameters + GPT_QKV, true));
    return layernorm_backward(pass, d, true, layer->ln1, layer->norm_1, x, n, parameters + GPT_NORM_1);
}

/* Head: its gradient of wte is the first share of two. d_ln_final takes the place of ln_final. */
static int head_backward(const struct backward *pass, const struct state *state, const void *d_logits, size_t n)
{
    struct replica *replica = pass->replica;
    const struct model_settings *s = &replica->model->settings;
    const struct product to_tokens = {replica_gradient(replica, GPT_TOKENS), d_logits, state->ln_final, CUBLAS_OP_T,
                                      CUBLAS_OP_N, s->vocabulary, s->width, n, pass->accumulate ? 1 : 0};
    const struct product to_input = {state->ln_final, d_logits, replica_parameter(replica, GPT_TOKENS), CUBLAS_OP_N,
                                     CUBLAS_OP_N, n, s->width, s->vocabulary, 0};

    if (n == 0)
        return EXIT_OK;
    TRY(product_enqueue(replica, &to_tokens));
    return product_enqueue(replica, &to_input);
}

/* Positions: sums over the batch. Tokens: added to the head's share; ready last. */
static int embedding_backward(const struct backward *pass, const struct state *state)
{
    struct replica *replica = pass->replica;
    const struct model_settings *s = &replica->model->settings;
    size_t n = pass->batch * s->block;
    cudaStream_t stream = replica->compute;

    if (n)
        GPU_TRY(kernel_column_sums(replica_type(replica), replica_gradient(replica, GPT_POSITIONS), state->d, pass->batch,
                                   s->block * s->width, pass->accumulate, stream));
    TRY(backward_ready(pass, GPT_POSITIONS));
    if (n) {
        GPU_TRY(kernel_embedding_order(state->order, replica->input, n, stream));
        GPU_TRY(kernel_embedding_backward(replica_type(replica), replica_gradient(replica, GPT_TOKENS), state->d, replica->input,
                                          state->order, n, s->width, s->vocabulary, stream));
    }
    return backward_ready(pass, GPT_TOKENS);
}

static int gpt_backward(struct replica *replica, const void *d_logits, size_t batch, bool accumulate, gradient_ready *ready,
                        void *context)
{
    const struct backward pass = {replica, batch, accumulate, ready, context};
    size_t layers = replica->model->settings.layers, n = batch * replica->model->settings.block;
    struct state state = state_of(replica, layers - 1);

    TRY(backward_begin(&pass));
    TRY(head_backward(&pass, &state, d_logits, n));
    TRY(layernorm_backward(&pass, state.d, false, state.ln_final, state.norm_final, state.layer.out, n, gpt_layer(layers)));
    for (size_t i = layers; i-- > 0;) {
        struct layer layer = state_of(replica, i).layer;
        const void *x = i ? state_of(replica, i - 1).layer.out : state.embedded;
        TRY(layer_backward(&pass, &layer, gpt_layer(i), state.d, x));
    }
    return embedding_backward(&pass, &state);
}

#define GPT(variable, text)                                                                                            \
    const struct model_type variable = {                                                                               \
        .name = (text),                                                                                                \
        .describe = gpt_describe,                                                                                      \
        .open = gpt_open,                                                                                              \
        .close = gpt_close,                                                                                            \
        .forward = gpt_forward,                                                                                        \
        .backward = gpt_backward,                                                                                      \
    }

GPT(model_gpt_tiny, "gpt-tiny");
GPT(model_gpt_nano, "gpt-nano");
GPT(model_gpt_micro, "gpt-micro");
GPT(model_gpt2_124m, "gpt2-124m");
