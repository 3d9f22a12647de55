/* SPDX-License-Identifier: MIT
 *
 * The UCI optical digits (bench/data/README.md: source and licence), built into the program: 1797 images of 8 x 8
 * pixels of 0 to 16. They work installed, from any folder, without a path.
 *
 * The source has one file, in the order in which 13 people wrote. So the split is by a fixed shuffle, the same for
 * every seed: training and test then hold the same writers, and runs with different seeds are tested on the same 360
 * samples.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/dataset.h"
#include "data/digits_path.h"
#include "data/idx.h"
#include "sys/exit_codes.h"
#include "sys/log.h"
#include "sys/random.h"

#define CLASSES 10
#define TRAIN_COUNT 1437 /* four in five of 1797 */
#define SPLIT_SEED 1998  /* the data's year; not the run's seed */

/* The assembler copies the file between the two symbols. */
#define BUILT_IN(symbol, path)                                                                                         \
    __asm__(".pushsection .rodata\n.global " #symbol ", " #symbol "_end\n.balign 16\n" #symbol ":\n.incbin \"" path    \
            "\"\n" #symbol "_end:\n.byte 0\n.popsection\n");                                                           \
    extern const uint8_t symbol[], symbol##_end[]

BUILT_IN(digits_images, DIGITS_IMAGES);
BUILT_IN(digits_labels, DIGITS_LABELS);

/* Two symbols are two objects in C: their distance is taken as numbers. */
static size_t distance(const uint8_t *begin, const uint8_t *end)
{
    return (size_t)((uintptr_t)end - (uintptr_t)begin);
}

static int parse(struct idx *images, struct idx *labels)
{
    int status = idx_parse(images, "digits (images)", digits_images, distance(digits_images, digits_images_end), 3);
    if (status)
        return status;
    status = idx_parse(labels, "digits (labels)", digits_labels, distance(digits_labels, digits_labels_end), 1);
    return status ? status : idx_check_labels("digits (labels)", labels, images, CLASSES);
}

int dataset_open_digits(struct dataset *dataset)
{
    struct idx images, labels;

    int status = parse(&images, &labels);
    if (status)
        return status;
    size_t count = images.size[0], inputs = images.size[1] * images.size[2];
    uint8_t *pixels = dataset->memory[0] = malloc(count * inputs);
    uint8_t *classes = dataset->memory[1] = malloc(count);
    uint32_t *order = dataset->memory[2] = malloc(count * sizeof *order);
    if (!pixels || !classes || !order) {
        log_error("digits: no memory for %zu samples", count);
        return EXIT_RESOURCE;
    }
    random_permutation(order, count, SPLIT_SEED, random_stream(RANDOM_SHUFFLE, UINT32_MAX));
    for (size_t i = 0; i < count; i++) {
        memcpy(pixels + i * inputs, images.values + order[i] * inputs, inputs);
        classes[i] = labels.values[order[i]];
    }

    snprintf(dataset->name, sizeof dataset->name, "digits");
    dataset->shape = (struct sample_shape){.inputs = inputs, .targets = 1, .classes = CLASSES};
    dataset->train_count = TRAIN_COUNT;
    dataset->test_count = count - TRAIN_COUNT;
    dataset->block[0] = (struct picture_block){
        .values = pixels, .labels = classes, .value_stride = inputs, .label_stride = 1, .count = count};
    dataset->blocks = 1;
    dataset->channels = 1;
    dataset->fit = pictures_fit;
    dataset->gather = pictures_gather;
    pictures_set_pixels(dataset, 0, 16, 0, 1);
    return EXIT_OK;
}
