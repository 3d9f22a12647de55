/* SPDX-License-Identifier: MIT
 *
 * Pictures as their files hold them: bytes, a byte of label. They become floats by a table when they are gathered.
 */
#include "data/dataset.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

int pictures_fit(struct dataset *dataset, const struct sample_shape *wanted)
{
    const struct sample_shape *own = &dataset->shape;

    if (!wanted->tokens && own->inputs == wanted->inputs && own->targets == wanted->targets &&
        own->classes <= wanted->classes)
        return EXIT_OK;
    log_error(
        "data %s: a sample has %zu floats and %zu of %zu classes, the model wants %zu %s and %zu of at least that "
        "many, found %zu",
        dataset->name, own->inputs, own->targets, own->classes, wanted->inputs, wanted->tokens ? "tokens" : "floats",
        wanted->targets, wanted->classes);
    return EXIT_USAGE;
}

void pictures_set_pixels(struct dataset *dataset, size_t channel, float white, float mean, float deviation)
{
    for (int pixel = 0; pixel < 256; pixel++)
        dataset->pixel[channel][pixel] = ((float)pixel / white - mean) / deviation;
}

/* floats[area][channels] := bytes[channels][area] */
static void gather_one(const struct dataset *dataset, const uint8_t *bytes, float *floats)
{
    size_t channels = dataset->channels, area = dataset->shape.inputs / channels;

    for (size_t c = 0; c < channels; c++)
        for (size_t p = 0; p < area; p++)
            floats[p * channels + c] = dataset->pixel[c][bytes[c * area + p]];
}

void pictures_gather(const struct dataset *dataset, const uint32_t *indices, size_t count, void *values,
                     int32_t *labels)
{
    float *floats = values;

    for (size_t i = 0; i < count; i++) {
        const struct picture_block *block = dataset->block;
        size_t row = indices[i];
        for (; row >= block->count; block++)
            row -= block->count;
        gather_one(dataset, block->values + row * block->value_stride, floats + i * dataset->shape.inputs);
        labels[i] = block->labels[row * block->label_stride];
    }
}
