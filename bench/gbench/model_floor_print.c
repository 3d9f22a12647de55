/* SPDX-License-Identifier: MIT */
#include "model_floor.h"

#include <math.h>

#include "run/json_line.h"

#define SHOWN 0.01 /* of the step: kernels whose share beyond their floor is less are added up */

struct floor_sums floor_sum(const struct floor_result *result)
{
    struct floor_sums sums = {0};
    for (int i = 0; i < result->step.count; i++) {
        const struct floor_family *family = &result->step.families[i];
        if (family->product) {
            sums.step_products_ms += family->ms;
            sums.product_flops += family->flops;
        } else {
            sums.other_ms += family->ms;
            sums.other_bytes += family->bytes;
        }
    }
    for (int i = 0; i < result->products.count; i++)
        if (result->products.families[i].product)
            sums.products_ms += result->products.families[i].ms;
    sums.other_floor_ms = sums.other_bytes / result->memory_bytes_s * 1e3;
    sums.floor_ms = sums.products_ms + sums.other_floor_ms;
    sums.between_ms = result->step.ms - sums.step_products_ms - sums.other_ms;
    return sums;
}

void floor_print_heading(FILE *out)
{
    fprintf(out, "| model, precision, batch | step ms | products alone ms | at GFLOP/s (1024 cubed) | other launches MB | at GB/s: ms |"
                 " floor ms | step / floor |\n|---|---|---|---|---|---|---|---|\n");
}

void floor_print_row(FILE *out, const struct floor_result *result)
{
    const struct floor_sums sums = floor_sum(result);
    fprintf(out, "| %s, %s, %d | %.2f | %.2f | %.0f (%.0f) | %.1f | %.1f: %.2f | %.2f | %.2f |\n", result->trial.model,
            result->trial.precision, result->trial.batch, result->step.ms, sums.products_ms,
            sums.product_flops / sums.products_ms * 1e-6, result->square_flops_s * 1e-9, sums.other_bytes * 1e-6,
            result->memory_bytes_s * 1e-9, sums.other_floor_ms, sums.floor_ms, result->step.ms / sums.floor_ms);
}

static void print_rest(FILE *out, const char *what, size_t launches, double ms, double floor_ms, double step_ms)
{
    fprintf(out, "| %s | %zu | %.2f | %.2f | %+.2f (%+.1f %%) |\n", what, launches, ms, floor_ms, ms - floor_ms,
            (ms - floor_ms) / step_ms * 100);
}

static double family_floor_ms(const struct floor_result *result, const struct floor_family *family)
{
    return family->bytes / result->memory_bytes_s * 1e3;
}

/* Products by name: in the step against alone. */
static void print_products(FILE *out, const struct floor_result *result)
{
    for (int i = 0; i < result->step.count; i++) {
        const struct floor_family *in_step = &result->step.families[i];
        for (int k = 0; in_step->product && k < result->products.count; k++)
            if (result->products.families[k].name == in_step->name)
                print_rest(out, in_step->name, in_step->launches, in_step->ms, result->products.families[k].ms, result->step.ms);
    }
}

void floor_print_rest(FILE *out, const struct floor_result *result)
{
    const double step_ms = result->step.ms;
    double ms = 0, floor_ms = 0;
    size_t launches = 0;

    fprintf(out, "\n| %s, %s: launches of | in a step | ms | floor ms | beyond it: ms (of the step) |\n|---|---|---|---|---|\n",
            result->trial.model, result->trial.precision);
    print_products(out, result);
    for (int i = 0; i < result->step.count; i++) {
        const struct floor_family *family = &result->step.families[i];
        const double least = family_floor_ms(result, family);
        if (family->product)
            continue;
        if (fabs(family->ms - least) >= SHOWN * step_ms) {
            print_rest(out, family->name, family->launches, family->ms, least, step_ms);
            continue;
        }
        ms += family->ms;
        floor_ms += least;
        launches += family->launches;
    }
    print_rest(out, "all others", launches, ms, floor_ms, step_ms);
    print_rest(out, "(between launches)", 0, floor_sum(result).between_ms, 0, step_ms);
}

static void print_json_family(FILE *out, const struct floor_result *result, const struct floor_family *family)
{
    json_begin(out, "floor_family");
    json_text(out, "model", result->trial.model);
    json_text(out, "precision", result->trial.precision);
    json_text(out, "name", family->name);
    json_integer(out, "product", family->product);
    json_unsigned(out, "launches", family->launches);
    json_number(out, "ms", family->ms);
    json_number(out, "flops", family->flops);
    json_number(out, "bytes", family->bytes);
    json_end(out);
}

void floor_print_json(FILE *out, const struct floor_result *result)
{
    const struct floor_sums sums = floor_sum(result);
    json_begin(out, "model_floor");
    json_text(out, "model", result->trial.model);
    json_text(out, "precision", result->trial.precision);
    json_integer(out, "global_batch", result->trial.batch);
    json_integer(out, "rounds", result->trial.rounds);
    json_number(out, "step_ms", result->step.ms);
    json_number(out, "floor_ms", sums.floor_ms);
    json_number(out, "products_ms", sums.products_ms);
    json_number(out, "products_in_step_ms", sums.step_products_ms);
    json_number(out, "product_flops", sums.product_flops);
    json_number(out, "square_gflop_s", result->square_flops_s * 1e-9);
    json_number(out, "other_ms", sums.other_ms);
    json_number(out, "other_bytes", sums.other_bytes);
    json_number(out, "memory_gb_s", result->memory_bytes_s * 1e-9);
    json_number(out, "between_ms", sums.between_ms);
    json_end(out);
    for (int i = 0; i < result->step.count; i++)
        print_json_family(out, result, &result->step.families[i]);
}
