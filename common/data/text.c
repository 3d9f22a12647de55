/* SPDX-License-Identifier: MIT
 *
 * See text.h. How long a sample is follows from the model, so windows are known only after dataset_fit.
 */
#include "data/text.h"

#include <stdio.h>
#include <string.h>

#include "sys/exit_codes.h"
#include "sys/file.h"
#include "sys/log.h"

#define FILE_LIMIT ((size_t)1 << 30) /* bytes; it is held in memory. enwik9 has 10^9 */
#define NAME_LENGTH 48               /* of a file, in messages */
#define TEST_SHARE 10                /* one window in ten */

static int refuse_model(const struct dataset *dataset, const struct sample_shape *wanted)
{
    if (!wanted->tokens)
        log_error("data %s: a text is tokens, the model wants %zu floats: expected a model of tokens", dataset->name,
                  wanted->inputs);
    else if (wanted->classes < TEXT_VOCABULARY)
        log_error("data %s: a vocabulary of %zu found in the model, expected at least the %d values of a byte",
                  dataset->name, wanted->classes, TEXT_VOCABULARY);
    else
        log_error("data %s: %zu targets for %zu tokens found in the model, expected one each", dataset->name,
                  wanted->targets, wanted->inputs);
    return EXIT_USAGE;
}

static int fit(struct dataset *dataset, const struct sample_shape *wanted)
{
    size_t block = wanted->inputs;

    if (!wanted->tokens || wanted->classes < TEXT_VOCABULARY || block == 0 || wanted->targets != block)
        return refuse_model(dataset, wanted);
    size_t windows = block < dataset->text_bytes ? dataset->text_bytes / (block + 1) : 0;
    if (windows == 0 || windows > UINT32_MAX) {
        log_error("data %s: %zu bytes found, expected at least %zu, one sample of the model, and at most %u samples",
                  dataset->name, dataset->text_bytes, block + 1, UINT32_MAX);
        return EXIT_BAD_FILE;
    }
    dataset->shape =
        (struct sample_shape){.inputs = block, .targets = block, .classes = TEXT_VOCABULARY, .tokens = true};
    dataset->test_count = windows / TEST_SHARE;
    dataset->train_count = windows - dataset->test_count;
    return EXIT_OK;
}

static void gather(const struct dataset *dataset, const uint32_t *indices, size_t count, void *values, int32_t *labels)
{
    size_t block = dataset->shape.inputs;
    int32_t *tokens = values;

    for (size_t i = 0; i < count; i++) {
        const uint8_t *window = dataset->text + indices[i] * (block + 1);
        for (size_t j = 0; j < block; j++) {
            tokens[i * block + j] = window[j];
            labels[i * block + j] = window[j + 1];
        }
    }
}

void text_open(struct dataset *dataset, const void *text, size_t bytes)
{
    snprintf(dataset->name, sizeof dataset->name, "text");
    dataset->text = text;
    dataset->text_bytes = bytes;
    dataset->fit = fit;
    dataset->gather = gather;
}

int dataset_open_text(struct dataset *dataset, const char *path)
{
    size_t bytes = 0;
    int status = file_read(path, FILE_LIMIT, &dataset->memory[0], &bytes);

    if (status)
        return status;
    text_open(dataset, dataset->memory[0], bytes);
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    snprintf(dataset->name, sizeof dataset->name, "text '%.*s'", NAME_LENGTH, file);
    return EXIT_OK;
}
