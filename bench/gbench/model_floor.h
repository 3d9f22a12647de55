/* SPDX-License-Identifier: MIT
 *
 * The step of each model against its floor, on one soft GPU of one core:
 *
 *     floor = FLOPs of the products / the rate of those very products alone  +  bytes of all other launches / the memory rate
 *
 * A round of a model times four parts, one after the other, so that what disturbs the machine disturbs all: the trainer's step; the
 * same step with its products alone executed (same order, shapes and memory); the memory rate; a large square product. Times are
 * those of the record's tasks (docs/record.md), medians over the rounds. model_floor_run.c runs, model_floor_read.c reads the record,
 * model_floor_print.c writes the tables.
 */
#ifndef BENCH_MODEL_FLOOR_H
#define BENCH_MODEL_FLOOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum floor_part { PART_STEP, PART_PRODUCTS, PART_MEMORY, PART_SQUARE, PARTS };

#define FLOOR_ROUNDS_MOST 1000
#define FLOOR_FAMILIES_MOST 64
#define FLOOR_SQUARE 1024 /* rows and columns of the large product */

/* The number of a part in the record's notes step_begin and step_end. */
static inline uint32_t floor_number(int trial, int round, enum floor_part part)
{
    return (uint32_t)((trial * FLOOR_ROUNDS_MOST + round) * PARTS + (int)part);
}

/* One model in one precision. */
struct floor_trial {
    const char *model, *precision;
    int batch; /* global batch */
    int number, rounds;
};

/* Runs a trial's rounds after `warm_up` of them; the record, begun by gpu_configure, then has them. 0 or an exit code. */
int floor_run(const struct floor_trial *trial, int warm_up);

/* Launches of one name, a step. */
struct floor_family {
    const char *name; /* of the record */
    bool product;
    size_t launches;
    double ms, flops, bytes;
};

/* What the record says of one part of a trial: medians over the rounds, costs of one round. */
struct floor_reading {
    double ms; /* from the part's begin to its end on the host */
    int count;
    struct floor_family families[FLOOR_FAMILIES_MOST]; /* longest first */
};

struct record_file;
int floor_read(struct floor_reading *reading, const struct record_file *record, const struct floor_trial *trial,
               enum floor_part part);

/* All that is known of a trial. */
struct floor_result {
    struct floor_trial trial;
    struct floor_reading step, products;
    double memory_bytes_s, square_flops_s;
};

struct floor_sums {
    double step_products_ms, products_ms, product_flops; /* in the step, and alone */
    double other_ms, other_bytes, other_floor_ms;
    double floor_ms, between_ms; /* between: nothing ran */
};
struct floor_sums floor_sum(const struct floor_result *result);

void floor_print_heading(FILE *out);
void floor_print_row(FILE *out, const struct floor_result *result);
void floor_print_rest(FILE *out, const struct floor_result *result); /* what the step takes beyond its floor, by kernel */
void floor_print_json(FILE *out, const struct floor_result *result);

#endif
