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

static const struct model_type *const model_types[] = {&model_mlp};

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

/* Where each tensor starts in the flat buffers. */
static void lay_out(struct model *model)
{
    size_t offset = 0;

    model->parameter_elements = 0;
    for (int i = 0; i < model->parameter_count; i++) {
        struct parameter *p = &model->parameters[i];
        size_t bytes = p->count * sizeof(float);
        p->offset = offset;
        offset += (bytes + PARAMETER_ALIGNMENT - 1) / PARAMETER_ALIGNMENT * PARAMETER_ALIGNMENT;
        model->parameter_elements += p->count;
    }
    model->flat_bytes = offset;
}

int model_open(struct model *model, const char *name, const struct model_settings *settings)
{
    *model = (struct model){.type = find_type(name)};
    if (!model->type)
        return EXIT_USAGE;
    int status = model->type->describe(model, settings);
    if (status) {
        model_close(model);
        return status;
    }
    lay_out(model);
    return EXIT_OK;
}

void model_close(struct model *model)
{
    free(model->parameters);
    *model = (struct model){0};
}
