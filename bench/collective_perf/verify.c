/* SPDX-License-Identifier: MIT
 *
 * Inputs are small whole numbers, so chosen that every partial result is exact in every type, whatever order a library
 * folds in: the expected bits are known, and the comparison needs no tolerance.
 */
#include "perf.h"

#include <math.h>
#include <string.h>

/* Sums stay at or below 126: exact in int8 (127) and bfloat16 (whole numbers up to 256). */
#define LARGEST_SUM 126

/* Rank's number at a place of its input. Products: one factor of 2 for two ranks of each place, so at most 4. */
static unsigned input_number(const struct perf_options *options, int rank, size_t index)
{
    const unsigned ranks = (unsigned)options->ranks, r = (unsigned)rank;
    const unsigned mixed = ((unsigned)index * 2654435761u + r * 40503u) >> 16;
    if (options->operation->reduces && options->op == ncclProd)
        return (index + r) % ranks < 2 ? 2 : 1;
    return mixed % (LARGEST_SUM / ranks + 1);
}

static unsigned reduced_number(const struct perf_options *options, size_t index)
{
    unsigned result = input_number(options, 0, index);
    for (int rank = 1; rank < options->ranks; rank++) {
        const unsigned next = input_number(options, rank, index);
        if (options->op == ncclSum)
            result += next;
        else if (options->op == ncclProd)
            result *= next;
        else if (options->op == ncclMax ? next > result : next < result)
            result = next;
    }
    return result;
}

/* A whole number up to 256 as a float format of `fraction` stored bits and this exponent bias; both hold it exactly. */
static uint16_t small_float(unsigned number, int fraction, int bias)
{
    int exponent;
    if (number == 0)
        return 0;
    const double mantissa = frexp(number, &exponent); /* [0.5, 1) */
    const int units = (int)ldexp(mantissa * 2 - 1, fraction);
    return (uint16_t)(((exponent - 1 + bias) << fraction) | units);
}

static void write_number(void *to, ncclDataType_t type, unsigned number)
{
    const uint16_t half = small_float(number, 10, 15), brain = small_float(number, 7, 127);
    const float single = (float)number;
    const double real = number;
    const uint64_t whole = number; /* little-endian: its first bytes are the smaller integers */
    switch (type) {
    case ncclFloat16:
        memcpy(to, &half, sizeof half);
        break;
    case ncclBfloat16:
        memcpy(to, &brain, sizeof brain);
        break;
    case ncclFloat32:
        memcpy(to, &single, sizeof single);
        break;
    case ncclFloat64:
        memcpy(to, &real, sizeof real);
        break;
    default:
        memcpy(to, &whole, perf_type_bytes(type));
    }
}

void verify_input(void *to, const struct perf_options *options, int rank, size_t count)
{
    const size_t bytes = perf_type_bytes(options->type);
    const size_t elements = options->operation->scatters ? count * (size_t)options->ranks : count;
    for (size_t i = 0; i < elements; i++)
        write_number((char *)to + i * bytes, options->type, input_number(options, rank, i));
}

void verify_expected(void *to, const struct perf_options *options, int rank, size_t count)
{
    const struct operation *operation = options->operation;
    const size_t bytes = perf_type_bytes(options->type);
    const size_t elements = operation->gathers ? count * (size_t)options->ranks : count;
    for (size_t i = 0; i < elements; i++) {
        unsigned number;
        if (operation->reduces)
            number = reduced_number(options, operation->scatters ? (size_t)rank * count + i : i);
        else if (operation->gathers)
            number = input_number(options, (int)(i / count), i % count);
        else
            number = input_number(options, options->root, i);
        write_number((char *)to + i * bytes, options->type, number);
    }
}

uint64_t verify_wrong(const void *found, const void *expected, size_t elements, size_t element_bytes)
{
    const char *f = found, *e = expected;
    uint64_t wrong = 0;
    for (size_t i = 0; i < elements; i++)
        wrong += memcmp(f + i * element_bytes, e + i * element_bytes, element_bytes) != 0;
    return wrong;
}
