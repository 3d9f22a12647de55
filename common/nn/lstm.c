/* SPDX-License-Identifier: MIT
 *
 * A language model with one LSTM layer: e = width of the embedding, c = width of the hidden state, n = batch x block tokens,
 *
 *     x = embedding[tokens]                              [block][batch][e]
 *     h_t, c_t = cell(x_t W_ih^T + h_t-1 W_hh^T + b_ih + b_hh, c_t-1)
 *     logits = h W^T + b                                 [batch][block][vocabulary]
 *
 * Inside, time comes first: what one step reads and writes lies together, and so do the h of all steps, with h_0 before them. So
 * the products with the input of all steps are one, and so are the gradients of both weights; only h_t-1 W_hh^T, and its gradient,
 * is a product a step. The head wants samples first: the cell writes h a second time in that order.
 *
 * The initial state h_0 = c_0 = 0 is part of each replica's own state, on its own device, zero from the day it is opened and
 * written by nobody after. Users of PyTorch know the fault this excludes: a module that makes its initial state once, on device 0,
 * and under DataParallel hands it to replicas on other devices.
 */
#include "nn/lstm.h"

#include <limits.h>

#include "gpu/memory.h"
#include "kernels/kernels.h"
#include "nn/layers.h"
#include "nn/model_types.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

#define ALIGNMENT 256 /* bytes, of each tensor */

/* ---- activations: one allocation, cut by a walk that open, forward and backward take alike ---- */

/* Of steps: [block][batch][...], of the batch at hand, not of the largest one. */
struct state {
    int32_t *tokens, *order; /* [block][batch]; places sorted by token */
    void *embedded;          /* [block][batch][e]: input of W_ih; then its gradient */
    void *gates;             /* [block][batch][4 c]: sums, activated gates, then the gradient of the sums */
    void *h_before;          /* [1 + block][batch][c]: h_0 = 0, then h of all steps */
    float *c_before;         /* [1 + block][batch][c]: c_0 = 0, then c of all steps */
    void *out;               /* [batch][block][c]: h for the head; then its gradient */
    void *d_h;               /* [batch][c]: the gradient of h that comes from the step behind */
    float *d_c;              /* [batch][c]: the same of c */
    size_t bytes;            /* of all */
};

static size_t width_of(const struct replica *replica)
{
    return replica->model->settings.width;
}

static size_t embedding_of(const struct replica *replica)
{
    return replica->model->parameters[LSTM_EMBEDDING].shape[1];
}

/* `bytes` for a tensor that begins `skipped` of them later. NULL as long as there is no state: then the walk only adds up bytes. */
static void *take_behind(const struct replica *replica, struct state *state, size_t bytes, size_t skipped)
{
    char *at = replica->state ? (char *)replica->state + state->bytes + skipped : NULL;

    state->bytes += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return at;
}

static void *take(const struct replica *replica, struct state *state, size_t bytes)
{
    return take_behind(replica, state, bytes, 0);
}

/* Where everything lies for a batch. The zeros of a small batch are the last ones of those for batch_max samples, so that h_1 and
 * c_1 always begin at the same place and never overwrite a zero. */
static struct state state_of(const struct replica *replica, size_t batch)
{
    size_t most = replica->batch_max, n = most * replica->model->settings.block, element = element_size(replica_type(replica));
    size_t width = width_of(replica), spare = (most - batch) * width;
    struct state state = {0};

    state.h_before = take_behind(replica, &state, (most + n) * width * element, spare * element);
    state.c_before = take_behind(replica, &state, (most + n) * width * sizeof(float), spare * sizeof(float));
    state.tokens = take(replica, &state, n * sizeof(int32_t));
    state.order = take(replica, &state, n * sizeof(int32_t));
    state.embedded = take(replica, &state, n * embedding_of(replica) * element);
    state.gates = take(replica, &state, 4 * n * width * element);
    state.out = take(replica, &state, n * width * element);
    state.d_h = take(replica, &state, most * width * element);
    state.d_c = take(replica, &state, most * width * sizeof(float));
    return state;
}

/* The current device is the replica's: state and zeros lie there. */
static int lstm_open(struct replica *replica)
{
    const struct model *model = replica->model;
    size_t outputs = replica->batch_max * model->output_bytes, zeros = replica->batch_max * width_of(replica);

    if (replica->batch_max > INT_MAX / model->input_count) {
        log_error("%s: batch %zu found, expected at most %zu on a device", model->type->name, replica->batch_max,
                  INT_MAX / model->input_count);
        return EXIT_USAGE;
    }
    TRY(gpu_malloc(&replica->state, state_of(replica, 0).bytes, MEMORY_ACTIVATIONS));
    TRY(gpu_malloc(&replica->logits, outputs, MEMORY_OUTPUTS));
    TRY(gpu_malloc(&replica->d_logits, outputs, MEMORY_OUTPUTS));
    const struct state state = state_of(replica, replica->batch_max);
    GPU_TRY(cudaMemsetAsync(state.h_before, 0, zeros * element_size(replica_type(replica)), replica->compute));
    GPU_TRY(cudaMemsetAsync(state.c_before, 0, zeros * sizeof(float), replica->compute));
    return EXIT_OK;
}

static void lstm_close(struct replica *replica)
{
    gpu_free(replica->d_logits);
    gpu_free(replica->logits);
    gpu_free(replica->state);
}

/* ---- one step in time ---- */

/* What step t of `batch` samples reads and writes. */
struct step {
    void *gates, *h_before, *h, *out;
    float *c_before, *c;
};

static struct step step_of(const struct replica *replica, const struct state *state, size_t batch, size_t t)
{
    size_t width = width_of(replica), element = element_size(replica_type(replica)), at = t * batch * width;
    struct step step = {.gates = (char *)state->gates + 4 * at * element, .h_before = (char *)state->h_before + at * element};

    step.h = (char *)step.h_before + batch * width * element;
    step.c_before = state->c_before + at;
    step.c = step.c_before + batch * width;
    step.out = (char *)state->out + t * width * element; /* of sample 0; the next one is block steps behind */
    return step;
}

static int step_forward(struct replica *replica, const struct step *step, size_t batch)
{
    size_t width = width_of(replica);
    const struct product recurrent = {step->gates,     step->h_before, replica_parameter(replica, LSTM_WEIGHT_HH), CUBLAS_OP_N,
                                      CUBLAS_OP_T,     batch,          4 * width, width, 1};

    TRY(product_enqueue(replica, &recurrent));
    GPU_TRY(kernel_lstm_forward(replica_type(replica), step->gates, step->c, step->h, step->out, step->c_before,
                                replica_parameter(replica, LSTM_BIAS_IH), replica_parameter(replica, LSTM_BIAS_HH), batch, width,
                                width * replica->model->settings.block, replica->compute));
    return EXIT_OK;
}

/* d_h of the step before; nobody asks for that of h_0. */
static int step_backward(struct replica *replica, const struct state *state, size_t batch, size_t t)
{
    size_t width = width_of(replica), block = replica->model->settings.block;
    const struct step step = step_of(replica, state, batch, t);
    const struct product to_before = {state->d_h,  step.gates, replica_parameter(replica, LSTM_WEIGHT_HH), CUBLAS_OP_N,
                                      CUBLAS_OP_N, batch,      width, 4 * width, 0};

    GPU_TRY(kernel_lstm_backward(replica_type(replica), step.gates, state->d_c, step.c, step.c_before, step.out,
                                 t + 1 < block ? state->d_h : NULL, batch, width, width * block, replica->compute));
    return t ? product_enqueue(replica, &to_before) : EXIT_OK;
}

/* ---- all steps ---- */

static int lstm_forward(struct replica *replica, size_t batch, bool training)
{
    const struct model_settings *s = &replica->model->settings;
    const struct state state = state_of(replica, batch);
    size_t n = batch * s->block;

    (void)training;
    if (batch == 0)
        return EXIT_OK;
    GPU_TRY(kernel_turn_tokens(state.tokens, replica->input, batch, s->block, replica->compute));
    GPU_TRY(kernel_embedding_forward(replica_type(replica), state.embedded, replica_parameter(replica, LSTM_EMBEDDING), NULL,
                                     state.tokens, n, embedding_of(replica), s->vocabulary, 1, replica->compute));
    TRY(linear_forward(replica, state.gates, state.embedded, n, LSTM_WEIGHT_IH));
    for (size_t t = 0; t < s->block; t++) {
        const struct step step = step_of(replica, &state, batch, t);
        TRY(step_forward(replica, &step, batch));
    }
    TRY(linear_forward(replica, replica->logits, state.out, n, LSTM_HEAD));
    GPU_TRY(kernel_bias(replica_type(replica), replica->logits, replica_parameter(replica, LSTM_HEAD_BIAS), n, s->vocabulary,
                        replica->compute));
    return EXIT_OK;
}

/* Both biases have the same gradient, and each its own sum of it. */
static int bias_backward(const struct backward *pass, const struct state *state, int bias)
{
    struct replica *replica = pass->replica;
    size_t n = pass->batch * replica->model->settings.block;

    if (n)
        GPU_TRY(kernel_column_sums(replica_type(replica), replica_gradient(replica, bias), state->gates, n, 4 * width_of(replica),
                                   pass->accumulate, replica->compute));
    return backward_ready(pass, bias);
}

/* `embedded` holds the gradient of the rows that were read. */
static int embedding_backward(const struct backward *pass, const struct state *state)
{
    struct replica *replica = pass->replica;
    const struct parameter *table = &replica->model->parameters[LSTM_EMBEDDING];
    size_t n = pass->batch * replica->model->settings.block;
    void *gradient = replica_gradient(replica, LSTM_EMBEDDING);

    if (n && !pass->accumulate)
        GPU_TRY(cudaMemsetAsync(gradient, 0, table->count * element_size(replica_type(replica)), replica->compute));
    if (n) {
        GPU_TRY(kernel_embedding_order(state->order, state->tokens, n, replica->compute));
        GPU_TRY(kernel_embedding_backward(replica_type(replica), gradient, state->embedded, state->tokens, state->order, n,
                                          table->shape[1], table->shape[0], replica->compute));
    }
    return backward_ready(pass, LSTM_EMBEDDING);
}

/* The weights serve all steps, so nothing of the LSTM is ready before the last step back, that of t = 0; then, as autograd walks
 * from there: the recurrent Linear before that of the input. */
static int lstm_backward(struct replica *replica, const void *d_logits, size_t batch, bool accumulate, gradient_ready *ready,
                         void *context)
{
    const struct backward pass = {replica, batch, accumulate, ready, context};
    const struct state state = state_of(replica, batch);
    size_t block = replica->model->settings.block, n = batch * block;

    TRY(backward_begin(&pass));
    TRY(linear_backward(&pass, state.out, d_logits, state.out, n, LSTM_HEAD, true));
    for (size_t t = block; t-- > 0 && batch;)
        TRY(step_backward(replica, &state, batch, t));
    TRY(bias_backward(&pass, &state, LSTM_BIAS_HH));
    TRY(linear_backward(&pass, NULL, state.gates, state.h_before, n, LSTM_WEIGHT_HH, false));
    TRY(bias_backward(&pass, &state, LSTM_BIAS_IH));
    TRY(linear_backward(&pass, state.embedded, state.gates, state.embedded, n, LSTM_WEIGHT_IH, false));
    return embedding_backward(&pass, &state);
}

#define LSTM(variable, text)                                                                                           \
    const struct model_type variable = {                                                                               \
        .name = (text),                                                                                                \
        .describe = lstm_describe,                                                                                     \
        .open = lstm_open,                                                                                             \
        .close = lstm_close,                                                                                           \
        .forward = lstm_forward,                                                                                       \
        .backward = lstm_backward,                                                                                     \
    }

LSTM(model_lstm, "lstm");
LSTM(model_lstm_tiny, "lstm-tiny");
