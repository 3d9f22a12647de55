/* SPDX-License-Identifier: MIT
 *
 * A model: a list of parameters in registration order and the functions that run it on a device. A replica: one model
 * on one device, with flat parameter and gradient buffers. Adding a model: fill a struct model_type (see mlp.c) and
 * name it in model_types.h and model.c.
 */
#ifndef NN_MODEL_H
#define NN_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/element.h"

#define PARAMETER_ALIGNMENT 256 /* bytes; each tensor starts at a multiple of it in the flat buffers */
#define PARAMETER_MAX_DIMS 4

/* How a tensor begins; initial_value is the bound (PyTorch's Linear: 1/sqrt(fan in)), the deviation, or the value. */
enum initial { INITIAL_UNIFORM, INITIAL_NORMAL, INITIAL_CONSTANT };

struct parameter {
    char name[64]; /* PyTorch's: "net.0.weight" */
    size_t shape[PARAMETER_MAX_DIMS];
    int dims;
    size_t count;  /* elements */
    size_t first;  /* element of the flat buffers, of any type */
    size_t offset; /* bytes from the start of a flat buffer of the model's type (of a buffer: of floats) */
    enum initial initial;
    float initial_value;
    bool channels_last; /* shape is PyTorch's [out][in][h][w], stored is [out][h][w][in]; see parameter_reorder */
};

struct model_settings {
    size_t inputs, width, depth, classes;    /* mlp; 0: the model's default or what the data says */
    size_t layers, heads, block, vocabulary; /* gpt, lstm, with width; 0: as the model's name says (tests give others) */
    enum element_type type; /* of parameters, activations, logits and gradients on the devices */
};

struct model;
struct replica;

/* A channels_last tensor's values from PyTorch's order to the stored one (to_pytorch: back); others are copied. */
void parameter_reorder(const struct parameter *parameter, float *to, const float *from, bool to_pytorch);

/* How a layer that takes statistics over a batch (BatchNorm) takes them over the batches of several devices: filled by
 * a strategy, called with work enqueued on the replica's compute stream, on all devices in the same order. */
struct statistics_sync {
    int parts; /* devices */
    /* *all [parts][count] = every device's `mine` [count]; valid until the next call. */
    int (*gather)(void *context, const float **all, const float *mine, size_t count);
    /* values [count] = their sum over the devices. */
    int (*sum)(void *context, float *values, size_t count);
    void *context;
};

/* Called by a backward pass, on the host, when the work that writes the gradient of parameter `index` has been enqueued
 * on the replica's compute stream. Returns 0 or an exit code, which ends the backward pass. */
typedef int gradient_ready(void *context, int index);

struct model_type {
    const char *name;
    int (*describe)(struct model *model, const struct model_settings *settings);
    /* Allocates activations for replica->batch_max samples (MEMORY_ACTIVATIONS, MEMORY_OUTPUTS) into replica->state. */
    int (*open)(struct replica *replica);
    void (*close)(struct replica *replica);
    /* replica->input [batch][input_count] -> replica->logits [batch][targets][classes]. batch may be 0. training: false
     * in an evaluation, where layers behave otherwise (BatchNorm) and no backward pass follows. */
    int (*forward)(struct replica *replica, size_t batch, bool training);
    /* d_logits [batch][targets][classes] -> gradients (added to them if accumulate, else overwritten), calling ready
     * (may be NULL) for every parameter exactly once, in the order of PyTorch's autograd: last layer first, bias before
     * weight. */
    int (*backward)(struct replica *replica, const void *d_logits, size_t batch, bool accumulate, gradient_ready *ready,
                    void *context);
};

struct model {
    const struct model_type *type;
    struct model_settings settings; /* resolved: no zeros where the model has such a setting */
    char text[128];                 /* the same for people and checkpoints: "width=1024 depth=4"; by describe */
    struct parameter *parameters;   /* registration order */
    int parameter_count;
    size_t parameter_elements; /* sum of counts: what is printed as "params" */
    size_t flat_elements;      /* with alignment padding (the padding is always 0) */
    size_t flat_bytes;         /* the same in the model's type */
    size_t float_bytes;        /* the same in floats: masters, optimizer state */
    struct parameter *buffers; /* state that is not trained (BatchNorm's running statistics), fp32; NULL: none */
    int buffer_count;
    size_t buffer_bytes; /* flat, as the parameters */

    /* One sample. A describe sets the first four. */
    size_t input_count; /* floats, or tokens (int32) */
    bool tokens;
    size_t targets; /* labels: 1, or one a token */
    size_t classes; /* logits of a label */
    size_t input_bytes, label_bytes, output_bytes;
};

/* Unknown name or a size out of range: EXIT_USAGE, naming what is allowed. */
int model_open(struct model *model, const char *name, const struct model_settings *settings);
void model_close(struct model *model);

/* One model on one device. The device is made current by replica functions that allocate; forward and backward expect
 * it to be current already. */
struct replica {
    const struct model *model;
    int device;
    size_t batch_max;
    cudaStream_t compute; /* all of forward, backward, loss and update */
    cudaStream_t copy;    /* host-to-device copies of input and labels */
    cublasHandle_t blas;  /* on compute */
    void *parameters;     /* flat, device: what forward and backward read */
    float *masters;       /* flat, device: what the optimizer updates. fp32: the parameters themselves; 16 bit: a buffer
                             of its own if replica_hold_masters was called, else NULL */
    void *gradients;      /* flat, device; NULL if not wanted */
    const size_t *gradient_offsets; /* [parameters] bytes: where DDP's buckets are the gradients; NULL: as the parameters */
    float *sums;          /* flat, device: gradients of the micro-batches before; NULL if they add up in gradients */
    float *buffers;       /* flat, device; NULL if the model has none */
    void *input;          /* [batch_max][input_count] floats or tokens, device */
    int32_t *labels;      /* [batch_max][targets], device */
    void *logits;         /* [batch_max][targets][classes], device, set by type->open */
    void *d_logits;       /* the same size; type->open allocates it */
    void *state;          /* the model's own: activations */
    const struct statistics_sync *sync; /* NULL: each device normalises with its own batch's statistics */
};

int replica_open(struct replica *replica, const struct model *model, int device, size_t batch_max, bool with_gradients);
void replica_close(struct replica *replica);

/* What an updating device holds beside: fp32 masters of 16-bit parameters. In fp32 nothing is allocated. */
int replica_hold_masters(struct replica *replica);
/* 16 bit with several micro-batches an update: their gradients add up in fp32, since 16-bit sums would lose what is
 * small beside them. In fp32, or for one micro-batch, nothing is allocated and gradients add up where they are. */
int replica_hold_sums(struct replica *replica, int micro_batches);
/* Enqueues, after the backward pass of a micro-batch that is not the last: sums := or += gradients. */
int replica_add_to_sums(struct replica *replica, bool first);
/* Enqueues parameters := masters, rounded. In fp32 nothing. */
int replica_refresh(struct replica *replica);

static inline void *replica_parameter(const struct replica *r, int index)
{
    return (char *)r->parameters + r->model->parameters[index].offset;
}
static inline void *replica_gradient(const struct replica *r, int index)
{
    size_t offset = r->gradient_offsets ? r->gradient_offsets[index] : r->model->parameters[index].offset;

    return (char *)r->gradients + offset;
}
static inline float *replica_buffer(const struct replica *r, int index)
{
    return r->buffers + r->model->buffers[index].offset / sizeof(float);
}

/* Writes the initial masters and parameters from Philox (seed, parameter index, element index), the padding as 0, and
 * the buffers; synchronous. */
int replica_initialize(struct replica *replica, uint64_t seed);

/* Copies flat parameters (or gradients) to or from pinned-staged host memory of flat_bytes; synchronous. */
int replica_read(struct replica *replica, const void *flat_device, void *host);
int replica_write(struct replica *replica, void *flat_device, const void *host);
/* The same of flat buffers of floats: masters and optimizer state (float_bytes), the model's buffers (buffer_bytes). */
int replica_read_floats(struct replica *replica, const float *flat_device, float *host, size_t bytes);
int replica_write_floats(struct replica *replica, float *flat_device, const float *host, size_t bytes);

/* Checksum over all masters (without: parameters) in registration order, without the padding. */
int replica_checksum(struct replica *replica, uint64_t *sum);

#endif
