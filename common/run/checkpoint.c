/* SPDX-License-Identifier: MIT
 *
 * A checkpoint is up to four flat buffers (parameters, the model's buffers, first, second), each cut into its tensors,
 * which stand in PyTorch's order.
 */
#include "run/checkpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/tensors.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

#define BUFFERS 4
#define NAME_BYTES 96 /* the longest prefix and a parameter's name */

/* One flat buffer on the device and its copy on the host. */
struct buffer {
    const char *prefix;
    float *device; /* of gradients: of the model's type */
    float *host;
    const struct parameter *tensors;
    int tensor_count;
    size_t bytes; /* on the host, in floats */
};

struct state {
    struct buffer buffers[BUFFERS];
    int count;                 /* buffers in use */
    struct tensor_view *views; /* [count * parameters], buffer by buffer, data in `host` */
    char (*names)[NAME_BYTES]; /* of the views */
    size_t view_count;
};

static void state_close(struct state *state)
{
    for (int i = 0; i < state->count; i++)
        free(state->buffers[i].host);
    free(state->views);
    free(state->names);
}

/* A buffer laid out as the parameters are. */
static void add_buffer(struct state *state, const char *prefix, float *device, const struct model *model)
{
    if (device)
        state->buffers[state->count++] = (struct buffer){.prefix = prefix,
                                                         .device = device,
                                                         .tensors = model->parameters,
                                                         .tensor_count = model->parameter_count,
                                                         .bytes = model->float_bytes};
}

static void describe_tensor(struct state *state, const struct buffer *buffer, const struct parameter *parameter)
{
    char *name = state->names[state->view_count];
    struct tensor_view *view = &state->views[state->view_count++];

    snprintf(name, NAME_BYTES, "%s%s", buffer->prefix, parameter->name);
    *view = (struct tensor_view){.name = name,
                                 .dims = parameter->dims,
                                 .count = parameter->count,
                                 .data = buffer->host + parameter->first};
    for (int d = 0; d < parameter->dims; d++)
        view->shape[d] = parameter->shape[d];
}

/* Host memory for the buffers that were added, and the list of their tensors. */
static int describe(struct state *state, const struct model *model)
{
    size_t tensors = 0;

    for (int i = 0; i < state->count; i++)
        tensors += (size_t)state->buffers[i].tensor_count;
    state->views = calloc(tensors + 1, sizeof *state->views); /* + 1: never of 0 bytes */
    state->names = calloc(tensors + 1, sizeof *state->names);
    bool complete = state->views && state->names;
    for (int i = 0; i < state->count; i++) {
        state->buffers[i].host = calloc(1, state->buffers[i].bytes);
        complete = complete && state->buffers[i].host;
    }
    if (!complete) {
        log_error("checkpoint: no host memory for %d buffers of %zu bytes", state->count, model->float_bytes);
        return EXIT_RESOURCE;
    }
    for (int i = 0; i < state->count; i++)
        for (int p = 0; p < state->buffers[i].tensor_count; p++)
            describe_tensor(state, &state->buffers[i], &state->buffers[i].tensors[p]);
    return EXIT_OK;
}

/* Turns the tensors that are stored channels last, to PyTorch's order or from it. */
static int turn(struct state *state, bool to_pytorch)
{
    for (int i = 0; i < state->count; i++)
        for (int p = 0; p < state->buffers[i].tensor_count; p++) {
            const struct parameter *tensor = &state->buffers[i].tensors[p];
            float *values = state->buffers[i].host + tensor->first;
            if (!tensor->channels_last)
                continue;
            float *copy = malloc(tensor->count * sizeof *copy);
            if (!copy) {
                log_error("checkpoint: no host memory for %zu values of %s", tensor->count, tensor->name);
                return EXIT_RESOURCE;
            }
            memcpy(copy, values, tensor->count * sizeof *copy);
            parameter_reorder(tensor, values, copy, to_pytorch);
            free(copy);
        }
    return EXIT_OK;
}

/* The buffers of a training: all that a checkpoint holds. */
static int describe_training(struct state *state, const struct replica *replica, const struct optimizer *optimizer)
{
    const struct model *model = replica->model;

    add_buffer(state, "", replica->masters, model);
    if (model->buffer_count)
        state->buffers[state->count++] = (struct buffer){.prefix = "",
                                                         .device = replica->buffers,
                                                         .tensors = model->buffers,
                                                         .tensor_count = model->buffer_count,
                                                         .bytes = model->buffer_bytes};
    add_buffer(state, "optimizer.first/", optimizer->first, model);
    add_buffer(state, "optimizer.second/", optimizer->second, model);
    return describe(state, model);
}

/* ---- metadata ---- */

enum {
    TEXT_FORMAT,
    TEXT_MODEL,
    TEXT_OPTIMIZER,
    TEXT_UPDATES,
    TEXT_STEP,
    TEXT_SEED,
    TEXT_GLOBAL_BATCH,
    TEXT_SAMPLER,
    TEXT_LOSS_SCALE, /* fp16 alone: "65536 12 1": the scale, good steps since it changed, skipped steps */
    TEXTS
};

static const char *const text_keys[TEXTS] = {"format", "model",        "optimizer", "updates",   "step",
                                             "seed",   "global_batch", "sampler",   "loss_scale"};
/* 1 had no buffers, 2 did not say how samples were drawn: neither can be gone on with for certain. */
static const char format[] = "dpbench checkpoint 3";

/* "mlp inputs=784 width=1024 depth=4 classes=10": equal texts are equal models. */
static void model_text(char *text, size_t size, const struct model *model)
{
    snprintf(text, size, "%s %s", model->type->name, model->text);
}

static const char *optimizer_text(const struct optimizer *optimizer)
{
    static const char *const names[] = {[OPTIMIZER_ADAMW] = "adamw", [OPTIMIZER_ADAM] = "adam"};

    if (optimizer->settings.kind != OPTIMIZER_SGD)
        return names[optimizer->settings.kind];
    return optimizer->first ? "sgd with momentum" : "sgd";
}

static int expect_text(const char *path, const struct tensor_file *file, int key, const char *expected)
{
    const char *found = tensors_metadata(file, text_keys[key]);

    if (found && strcmp(found, expected) == 0)
        return EXIT_OK;
    log_error("%s: %s '%s' found, expected '%s'", path, text_keys[key], found ? found : "(none)", expected);
    return EXIT_BAD_FILE;
}

static int expect_number(const char *path, const struct tensor_file *file, int key, uint64_t most, uint64_t *number)
{
    const char *found = tensors_metadata(file, text_keys[key]);
    char *end = NULL;

    errno = 0;
    *number = found && *found >= '0' && *found <= '9' ? strtoull(found, &end, 10) : 0;
    if (end && *end == '\0' && errno == 0 && *number <= most)
        return EXIT_OK;
    log_error("%s: %s '%s' found, expected a number of at most %" PRIu64, path, text_keys[key],
              found ? found : "(none)", most);
    return EXIT_BAD_FILE;
}

/* ---- saving ---- */

static int read_buffers(struct state *state, struct replica *replica)
{
    for (int i = 0; i < state->count; i++)
        TRY(replica_read_floats(replica, state->buffers[i].device, state->buffers[i].host, state->buffers[i].bytes));
    return EXIT_OK;
}

static int write_file(const char *path, const struct state *state, const struct model *model,
                      const struct optimizer *optimizer, const struct checkpoint *checkpoint)
{
    struct update_control control;
    char texts[TEXTS][160];
    struct tensor_text metadata[TEXTS];

    snprintf(texts[TEXT_FORMAT], sizeof texts[0], "%s", format);
    model_text(texts[TEXT_MODEL], sizeof texts[0], model);
    snprintf(texts[TEXT_OPTIMIZER], sizeof texts[0], "%s", optimizer_text(optimizer));
    snprintf(texts[TEXT_UPDATES], sizeof texts[0], "%d", optimizer->updates);
    snprintf(texts[TEXT_STEP], sizeof texts[0], "%" PRIu64, checkpoint->step);
    snprintf(texts[TEXT_SEED], sizeof texts[0], "%" PRIu64, checkpoint->seed);
    snprintf(texts[TEXT_GLOBAL_BATCH], sizeof texts[0], "%" PRIu64, checkpoint->global_batch);
    snprintf(texts[TEXT_SAMPLER], sizeof texts[0], "%s", checkpoint->sampler);
    TRY(optimizer_read_control(optimizer, &control));
    snprintf(texts[TEXT_LOSS_SCALE], sizeof texts[0], "%.9g %d %d", (double)control.loss_scale, control.good_steps,
             control.skipped);
    for (int i = 0; i < TEXTS; i++)
        metadata[i] = (struct tensor_text){text_keys[i], texts[i]};
    return tensors_write(path, state->views, state->view_count, metadata,
                         optimizer->scaled ? TEXTS : TEXT_LOSS_SCALE);
}

int checkpoint_save(const char *path, struct replica *replica, const struct optimizer *optimizer,
                    const struct checkpoint *checkpoint)
{
    struct state state = {0};

    int status = describe_training(&state, replica, optimizer);
    if (!status)
        status = read_buffers(&state, replica);
    if (!status)
        status = turn(&state, true);
    if (!status)
        status = write_file(path, &state, replica->model, optimizer, checkpoint);
    state_close(&state);
    return status;
}

int checkpoint_save_gradients(const char *path, struct replica *replica, float loss_scale)
{
    const struct model *model = replica->model;
    struct state state = {0};
    void *gradients = malloc(model->flat_bytes + 1);

    add_buffer(&state, "", replica->gradients, model);
    int status = gradients ? describe(&state, model) : EXIT_RESOURCE;
    if (!gradients)
        log_error("checkpoint: no host memory for %zu bytes of gradients", model->flat_bytes);
    if (!status)
        status = replica_read(replica, replica->gradients, gradients);
    for (size_t i = 0; i < model->flat_elements && !status; i++)
        state.buffers[0].host[i] = element_value(model->settings.type, gradients, i) / loss_scale;
    if (!status)
        status = turn(&state, true);
    if (!status)
        status = tensors_write(path, state.views, state.view_count, NULL, 0);
    free(gradients);
    state_close(&state);
    return status;
}

/* ---- loading ---- */

/* "[17,13]" */
static const char *shape_text(char *text, size_t size, const struct tensor_view *view)
{
    size_t used = (size_t)snprintf(text, size, "[");

    for (int d = 0; d < view->dims; d++)
        used += (size_t)snprintf(text + used, size - used, "%s%zu", d ? "," : "", view->shape[d]);
    snprintf(text + used, size - used, "]");
    return text;
}

static bool same_shape(const struct tensor_view *a, const struct tensor_view *b)
{
    return a->dims == b->dims && memcmp(a->shape, b->shape, (size_t)a->dims * sizeof a->shape[0]) == 0;
}

/* Copies the file's tensors to the host buffers; every one that the model has, and no other. */
static int take_tensors(const char *path, const struct tensor_file *file, struct state *state)
{
    if (file->count != state->view_count) {
        log_error("%s: %zu tensors found, expected %zu", path, file->count, state->view_count);
        return EXIT_BAD_FILE;
    }
    for (size_t i = 0; i < state->view_count; i++) {
        const struct tensor_view *expected = &state->views[i], *found = tensors_find(file, expected->name);
        if (!found) {
            log_error("%s: no tensor '%s' found, which the model has", path, expected->name);
            return EXIT_BAD_FILE;
        }
        if (!same_shape(found, expected)) {
            char texts[2][128];
            log_error("%s: tensor '%s': shape %s found, expected %s", path, expected->name,
                      shape_text(texts[0], sizeof texts[0], found), shape_text(texts[1], sizeof texts[1], expected));
            return EXIT_BAD_FILE;
        }
        memcpy(expected->data, found->data, found->count * sizeof(float));
    }
    return EXIT_OK;
}

static int take_sampler(const char *path, const struct tensor_file *file, struct checkpoint *checkpoint)
{
    const char *found = tensors_metadata(file, text_keys[TEXT_SAMPLER]);

    if (found && strlen(found) < sizeof checkpoint->sampler) {
        snprintf(checkpoint->sampler, sizeof checkpoint->sampler, "%s", found);
        return EXIT_OK;
    }
    log_error("%s: %s '%.200s' found, expected a text of at most %zu bytes", path, text_keys[TEXT_SAMPLER],
              found ? found : "(none)", sizeof checkpoint->sampler - 1);
    return EXIT_BAD_FILE;
}

/* A file without a loss scale (of a run in another precision) leaves this run's own. */
static int take_control(const char *path, const struct tensor_file *file, const struct optimizer *optimizer,
                        uint64_t updates, struct update_control *control)
{
    const char *found = tensors_metadata(file, text_keys[TEXT_LOSS_SCALE]);
    int end = 0;

    *control = (struct update_control){.loss_scale = optimizer->settings.loss_scale, .updates = (int32_t)updates};
    if (!found || !optimizer->scaled)
        return EXIT_OK;
    if (sscanf(found, "%f %d %d%n", &control->loss_scale, &control->good_steps, &control->skipped, &end) == 3 &&
        found[end] == '\0' && isfinite(control->loss_scale) && control->loss_scale > 0 && control->good_steps >= 0 &&
        control->skipped >= 0 && (uint64_t)control->skipped <= updates) {
        control->updates -= control->skipped;
        return EXIT_OK;
    }
    log_error("%s: %s '%s' found, expected a scale above 0 and two numbers of steps", path, text_keys[TEXT_LOSS_SCALE],
              found);
    return EXIT_BAD_FILE;
}

/* Reads and checks the whole file; changes nothing but *state's host buffers and the two results. */
static int take_file(const char *path, const struct tensor_file *file, struct state *state,
                     const struct replica *replica, const struct optimizer *optimizer, struct checkpoint *checkpoint,
                     struct update_control *control, uint64_t *updates)
{
    char model[160];

    model_text(model, sizeof model, replica->model);
    TRY(expect_text(path, file, TEXT_FORMAT, format));
    TRY(expect_text(path, file, TEXT_MODEL, model));
    TRY(expect_text(path, file, TEXT_OPTIMIZER, optimizer_text(optimizer)));
    TRY(expect_number(path, file, TEXT_UPDATES, INT32_MAX, updates));
    TRY(take_control(path, file, optimizer, *updates, control));
    TRY(expect_number(path, file, TEXT_STEP, UINT64_MAX, &checkpoint->step));
    TRY(expect_number(path, file, TEXT_SEED, UINT64_MAX, &checkpoint->seed));
    TRY(expect_number(path, file, TEXT_GLOBAL_BATCH, UINT64_MAX, &checkpoint->global_batch));
    TRY(take_sampler(path, file, checkpoint));
    return take_tensors(path, file, state);
}

static int write_buffers(struct state *state, struct replica *replica)
{
    for (int i = 0; i < state->count; i++)
        TRY(replica_write_floats(replica, state->buffers[i].device, state->buffers[i].host, state->buffers[i].bytes));
    return replica_refresh(replica);
}

int checkpoint_load(const char *path, struct replica *replica, struct optimizer *optimizer,
                    struct checkpoint *checkpoint)
{
    struct state state = {0};
    struct tensor_file file = {0};
    struct checkpoint found = {0};
    struct update_control control;
    uint64_t updates = 0;

    int status = describe_training(&state, replica, optimizer);
    if (!status)
        status = tensors_read(path, &file);
    if (!status)
        status = take_file(path, &file, &state, replica, optimizer, &found, &control, &updates);
    if (!status)
        status = turn(&state, false);
    if (!status)
        status = write_buffers(&state, replica);
    if (!status)
        status = optimizer_write_control(optimizer, &control);
    if (!status) {
        optimizer->updates = (int)updates;
        *checkpoint = found;
    }
    tensors_close(&file);
    state_close(&state);
    return status;
}
