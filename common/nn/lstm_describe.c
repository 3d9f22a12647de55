/* SPDX-License-Identifier: MIT
 *
 * The sizes of the LSTM models by name, their parameters and how they begin.
 *
 * Names and order are those of a PyTorch module with `embedding` (nn.Embedding), `lstm` (nn.LSTM, one layer, batch_first) and
 * `head` (nn.Linear). They begin as PyTorch draws them: the embedding normal with deviation 1, everything of the LSTM, and the
 * head's Linear of as many inputs, uniform in +-1/sqrt(width).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/lstm.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

#define SIZE_MOST ((size_t)1 << 20) /* of each setting: their products stay far below SIZE_MAX */

struct preset {
    const char *name;
    size_t embedding, width, block, vocabulary; /* width: of the hidden state */
};

static const struct preset presets[] = {
    {"lstm", 256, 256, 64, 256},
    {"lstm-tiny", 6, 5, 7, 11}, /* for tests */
};

static const struct preset *find_preset(const char *name)
{
    size_t i = 0;

    while (strcmp(presets[i].name, name) != 0)
        i++;
    return &presets[i];
}

static int resolve(const struct model *model, size_t *resolved, const char *what, size_t given, size_t preset)
{
    *resolved = given ? given : preset;
    if (*resolved <= SIZE_MOST)
        return EXIT_OK;
    log_error("%s: %s %zu found, expected 1 to %zu", model->type->name, what, *resolved, SIZE_MOST);
    return EXIT_USAGE;
}

static int resolve_all(struct model *model, const struct model_settings *given, const struct preset *preset)
{
    struct model_settings *s = &model->settings;

    TRY(resolve(model, &s->width, "width", given->width, preset->width));
    TRY(resolve(model, &s->block, "block", given->block, preset->block));
    TRY(resolve(model, &s->vocabulary, "vocabulary", given->vocabulary, preset->vocabulary));
    if (given->depth > 1 || given->layers > 1) {
        log_error("%s: %zu layers found, expected 1, or none said", model->type->name, given->depth ? given->depth : given->layers);
        return EXIT_USAGE;
    }
    s->layers = 1;
    return EXIT_OK;
}

static void add_matrix(struct model *model, int index, const char *name, size_t rows, size_t columns, float bound)
{
    struct parameter *p = &model->parameters[index];

    *p = (struct parameter){.shape = {rows, columns}, .dims = 2, .count = rows * columns, .initial_value = bound};
    snprintf(p->name, sizeof p->name, "%s", name);
}

static void add_vector(struct model *model, int index, const char *name, size_t count, float bound)
{
    struct parameter *p = &model->parameters[index];

    *p = (struct parameter){.shape = {count}, .dims = 1, .count = count, .initial_value = bound};
    snprintf(p->name, sizeof p->name, "%s", name);
}

static void add_all(struct model *model, size_t embedding)
{
    const struct model_settings *s = &model->settings;
    float bound = 1 / sqrtf((float)s->width);

    add_matrix(model, LSTM_EMBEDDING, "embedding.weight", s->vocabulary, embedding, 1);
    model->parameters[LSTM_EMBEDDING].initial = INITIAL_NORMAL;
    add_matrix(model, LSTM_WEIGHT_IH, "lstm.weight_ih_l0", 4 * s->width, embedding, bound);
    add_matrix(model, LSTM_WEIGHT_HH, "lstm.weight_hh_l0", 4 * s->width, s->width, bound);
    add_vector(model, LSTM_BIAS_IH, "lstm.bias_ih_l0", 4 * s->width, bound);
    add_vector(model, LSTM_BIAS_HH, "lstm.bias_hh_l0", 4 * s->width, bound);
    add_matrix(model, LSTM_HEAD, "head.weight", s->vocabulary, s->width, bound);
    add_vector(model, LSTM_HEAD_BIAS, "head.bias", s->vocabulary, bound);
}

int lstm_describe(struct model *model, const struct model_settings *settings)
{
    const struct preset *preset = find_preset(model->type->name);
    struct model_settings *s = &model->settings;

    TRY(resolve_all(model, settings, preset));
    model->parameters = calloc(LSTM_PARAMETERS, sizeof *model->parameters);
    if (!model->parameters) {
        log_error("%s: no memory for the list of %d parameters", model->type->name, LSTM_PARAMETERS);
        return EXIT_RESOURCE;
    }
    model->parameter_count = LSTM_PARAMETERS;
    add_all(model, preset->embedding);
    snprintf(model->text, sizeof model->text, "layers=1 embedding=%zu width=%zu block=%zu vocabulary=%zu", preset->embedding,
             s->width, s->block, s->vocabulary);
    model->input_count = s->block;
    model->tokens = true;
    model->targets = s->block;
    model->classes = s->vocabulary;
    return EXIT_OK;
}
