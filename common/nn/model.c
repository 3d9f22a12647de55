/* SPDX-License-Identifier: MIT
 *
 * The list of models, and what describing one has in common: the layout of the flat buffers.
 */
#include "nn/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/model_types.h"
#include "sys/exit_codes.h"
#include "sys/log.h"
#include "sys/nearest.h"

static const struct model_type *const model_types[] = {
    &model_mlp,       &model_resnet20,  &model_resnet50, &model_gpt_tiny, &model_gpt_nano,
    &model_gpt_micro, &model_gpt2_124m, &model_lstm,     &model_lstm_tiny};

#define MODEL_TYPES (sizeof model_types / sizeof model_types[0])

static const struct model_type *find_type(const char *name)
{
    char known[256] = "";
    const char *names[MODEL_TYPES];

    for (size_t i = 0; i < MODEL_TYPES; i++) {
        if (strcmp(model_types[i]->name, name) == 0)
            return model_types[i];
        names[i] = model_types[i]->name;
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", model_types[i]->name);
    }
    const char *nearest = nearest_name(name, names, MODEL_TYPES);
    log_error("--model %s: expected %s%s%s%s%s", name, MODEL_TYPES > 1 ? "one of " : "", known,
              nearest ? " (did you mean " : "", nearest ? nearest : "", nearest ? "?)" : "");
    return NULL;
}

void parameter_reorder(const struct parameter *parameter, float *to, const float *from, bool to_pytorch)
{
    size_t in = parameter->shape[1], window = parameter->shape[2] * parameter->shape[3];

    if (!parameter->channels_last) {
        memcpy(to, from, parameter->count * sizeof *to);
        return;
    }
    for (size_t out = 0; out < parameter->shape[0]; out++)
        for (size_t i = 0; i < in; i++)
            for (size_t w = 0; w < window; w++) {
                size_t pytorch = (out * in + i) * window + w, stored = (out * window + w) * in + i;
                to[to_pytorch ? pytorch : stored] = from[to_pytorch ? stored : pytorch];
            }
}

/* Where each tensor starts in its flat buffer; returns the buffer's bytes. */
static size_t lay_out(struct parameter *tensors, int count, size_t element_bytes)
{
    size_t offset = 0;

    for (int i = 0; i < count; i++) {
        size_t bytes = tensors[i].count * element_bytes;
        tensors[i].offset = offset;
        tensors[i].first = offset / element_bytes;
        offset += (bytes + PARAMETER_ALIGNMENT - 1) / PARAMETER_ALIGNMENT * PARAMETER_ALIGNMENT;
    }
    return offset;
}

static void measure(struct model *model)
{
    size_t element = element_size(model->settings.type);

    model->flat_bytes = lay_out(model->parameters, model->parameter_count, element);
    model->flat_elements = model->flat_bytes / element;
    model->float_bytes = model->flat_elements * sizeof(float);
    model->buffer_bytes = lay_out(model->buffers, model->buffer_count, sizeof(float));
    model->parameter_elements = 0;
    for (int i = 0; i < model->parameter_count; i++)
        model->parameter_elements += model->parameters[i].count;
    model->input_bytes = model->input_count * sizeof(float);
    model->label_bytes = model->targets * sizeof(int32_t);
    model->output_bytes = model->targets * model->classes * element;
}

int model_open(struct model *model, const char *name, const struct model_settings *settings)
{
    *model = (struct model){.type = find_type(name), .settings.type = settings->type};
    if (!model->type)
        return EXIT_USAGE;
    int status = model->type->describe(model, settings);
    if (status) {
        model_close(model);
        return status;
    }
    measure(model);
    return EXIT_OK;
}

void model_close(struct model *model)
{
    free(model->parameters);
    free(model->buffers);
    *model = (struct model){0};
}
