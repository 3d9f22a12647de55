/* SPDX-License-Identifier: MIT
 *
 * The sizes of the GPT models by name, their parameters and how they begin.
 *
 * Names and order are those of the module that bench/peers trains with PyTorch: wte, wpe, h.0.ln1 ... h.n.proj, lnf. The head
 * is wte itself. Weights and embeddings begin normal with deviation 0.02, biases 0, LayerNorms 1 and 0.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nn/gpt.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

#define WEIGHT_DEVIATION 0.02F
#define SIZE_MOST ((size_t)1 << 20) /* of each setting: their products stay far below SIZE_MAX */
#define LAYERS_MOST 1000

struct preset {
    const char *name;
    size_t layers, heads, width, block, vocabulary;
};

static const struct preset presets[] = {
    {"gpt-tiny", 2, 3, 12, 7, 11}, /* for tests */
    {"gpt-nano", 4, 4, 128, 128, 256},
    {"gpt-micro", 6, 6, 384, 256, 256},
    {"gpt2-124m", 12, 12, 768, 1024, 50304}, /* GPT-2's vocabulary of 50257, padded to a multiple of 64 */
};

static const struct preset *find_preset(const char *name)
{
    size_t i = 0;

    while (strcmp(presets[i].name, name) != 0)
        i++;
    return &presets[i];
}

static int resolve(const struct model *model, size_t *resolved, const char *what, size_t given, size_t preset, size_t most)
{
    *resolved = given ? given : preset;
    if (*resolved <= most)
        return EXIT_OK;
    log_error("%s: %s %zu found, expected 1 to %zu", model->type->name, what, *resolved, most);
    return EXIT_USAGE;
}

static int resolve_all(struct model *model, const struct model_settings *given)
{
    const struct preset *preset = find_preset(model->type->name);
    struct model_settings *s = &model->settings;

    TRY(resolve(model, &s->layers, "layers", given->layers, preset->layers, LAYERS_MOST));
    TRY(resolve(model, &s->heads, "heads", given->heads, preset->heads, SIZE_MOST));
    TRY(resolve(model, &s->width, "width", given->width, preset->width, SIZE_MOST));
    TRY(resolve(model, &s->block, "block", given->block, preset->block, SIZE_MOST));
    TRY(resolve(model, &s->vocabulary, "vocabulary", given->vocabulary, preset->vocabulary, SIZE_MOST));
    if (given->depth) {
        log_error("%s: depth %zu found, expected none: the name says how many layers there are", model->type->name, given->depth);
        return EXIT_USAGE;
    }
    if (s->width % s->heads) {
        log_error("%s: width %zu found, expected a multiple of the %zu heads", model->type->name, s->width, s->heads);
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

/* ---- parameters ---- */

static void add_weight(struct model *model, int index, const char *prefix, size_t rows, size_t columns)
{
    struct parameter *p = &model->parameters[index];

    *p = (struct parameter){.shape = {rows, columns}, .dims = 2, .count = rows * columns, .initial = INITIAL_NORMAL,
                            .initial_value = WEIGHT_DEVIATION};
    snprintf(p->name, sizeof p->name, "%s.weight", prefix);
}

static void add_vector(struct model *model, int index, const char *prefix, const char *kind, size_t count, float value)
{
    struct parameter *p = &model->parameters[index];

    *p = (struct parameter){.shape = {count}, .dims = 1, .count = count, .initial = INITIAL_CONSTANT, .initial_value = value};
    snprintf(p->name, sizeof p->name, "%s.%s", prefix, kind);
}

static void add_linear(struct model *model, int index, const char *prefix, size_t out, size_t in)
{
    add_weight(model, index, prefix, out, in);
    add_vector(model, index + 1, prefix, "bias", out, 0);
}

static void add_norm(struct model *model, int index, const char *prefix)
{
    add_vector(model, index, prefix, "weight", model->settings.width, 1);
    add_vector(model, index + 1, prefix, "bias", model->settings.width, 0);
}

static void add_layer(struct model *model, size_t layer)
{
    static const char *const names[] = {"ln1", "attn.qkv", "attn.proj", "ln2", "fc", "proj"};
    size_t width = model->settings.width;
    int first = gpt_layer(layer);
    char prefix[6][48];

    for (int i = 0; i < 6; i++)
        snprintf(prefix[i], sizeof prefix[i], "h.%zu.%s", layer, names[i]);
    add_norm(model, first + GPT_NORM_1, prefix[0]);
    add_linear(model, first + GPT_QKV, prefix[1], 3 * width, width);
    add_linear(model, first + GPT_MIX, prefix[2], width, width);
    add_norm(model, first + GPT_NORM_2, prefix[3]);
    add_linear(model, first + GPT_EXPAND, prefix[4], 4 * width, width);
    add_linear(model, first + GPT_CONTRACT, prefix[5], width, 4 * width);
}

int gpt_describe(struct model *model, const struct model_settings *settings)
{
    struct model_settings *s = &model->settings;

    TRY(resolve_all(model, settings));
    model->parameter_count = gpt_layer(s->layers) + 2;
    model->parameters = calloc((size_t)model->parameter_count, sizeof *model->parameters);
    if (!model->parameters) {
        log_error("%s: no memory for the list of %d parameters", model->type->name, model->parameter_count);
        return EXIT_RESOURCE;
    }
    add_weight(model, GPT_TOKENS, "wte", s->vocabulary, s->width);
    add_weight(model, GPT_POSITIONS, "wpe", s->block, s->width);
    for (size_t layer = 0; layer < s->layers; layer++)
        add_layer(model, layer);
    add_norm(model, gpt_layer(s->layers), "lnf");
    snprintf(model->text, sizeof model->text, "layers=%zu heads=%zu width=%zu block=%zu vocabulary=%zu", s->layers, s->heads,
             s->width, s->block, s->vocabulary);
    model->input_count = s->block;
    model->tokens = true;
    model->targets = s->block;
    model->classes = s->vocabulary;
    return EXIT_OK;
}
