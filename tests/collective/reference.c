/* SPDX-License-Identifier: MIT
 *
 * float16 and bfloat16 are read and rounded here by arithmetic on their value, not by their bits as the product does.
 */
#include "reference.h"

#include <math.h>
#include <string.h>

#include "sys/random.h"

size_t reference_bytes(softNcclDataType_t type)
{
    static const size_t bytes[REFERENCE_TYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return bytes[type];
}

const char *reference_name(softNcclDataType_t type)
{
    static const char *const names[REFERENCE_TYPES] = {"int8",   "uint8",   "int32",   "uint32",  "int64",
                                                       "uint64", "float16", "float32", "float64", "bfloat16"};
    return names[type];
}

/* A small float format: `fraction` stored bits, exponents of normal numbers from `lowest` to `highest`. */
struct format {
    int fraction, lowest, highest;
};
static const struct format half_format = {10, -14, 15}, brain_format = {7, -126, 127};

static float read_small(uint16_t bits, const struct format *format)
{
    const int exponent_bits = 15 - format->fraction;
    const int exponent = bits >> format->fraction & ((1 << exponent_bits) - 1);
    const int fraction = bits & ((1 << format->fraction) - 1);
    float value;
    if (exponent == (1 << exponent_bits) - 1)
        value = fraction ? NAN : INFINITY;
    else if (exponent == 0)
        value = ldexpf((float)fraction, format->lowest - format->fraction);
    else
        value = ldexpf((float)(fraction + (1 << format->fraction)), exponent - 1 + format->lowest - format->fraction);
    return bits & 0x8000 ? -value : value;
}

static uint16_t write_small(float value, const struct format *format)
{
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    const int infinity = ((1 << (15 - format->fraction)) - 1) << format->fraction;
    int exponent;
    if (isinf(value))
        return (uint16_t)(sign | infinity);
    if (value == 0)
        return sign;
    frexpf(value, &exponent); /* |value| in [2^(exponent-1), 2^exponent) */
    exponent = exponent - 1 < format->lowest ? format->lowest : exponent - 1;
    const int units = (int)nearbyint(ldexp(fabs((double)value), format->fraction - exponent));
    if (units < 1 << format->fraction)
        return (uint16_t)(sign | units); /* subnormal */
    const int bits = ((exponent - format->lowest) << format->fraction) + units;
    return (uint16_t)(sign | (bits > infinity ? infinity : bits));
}

void reference_input(void *to, softNcclDataType_t type, int rank, size_t index, uint64_t seed)
{
    const uint64_t stream = random_stream(RANDOM_DATA, (uint32_t)rank);
    const uint64_t bits = (uint64_t)random_u32(seed, stream, 2 * index) << 32 | random_u32(seed, stream, 2 * index + 1);
    const double real = ((double)(bits >> 12) * 0x1p-51 - 1) * ldexp(1, (int)(bits & 7) - 4); /* in (-8, 8) */
    uint16_t small;
    float single = (float)real;
    switch (type) {
    case softNcclFloat32:
        memcpy(to, &single, sizeof single);
        break;
    case softNcclFloat64:
        memcpy(to, &real, sizeof real);
        break;
    case softNcclFloat16:
        small = write_small(single, &half_format);
        memcpy(to, &small, sizeof small);
        break;
    case softNcclBfloat16:
        small = write_small(single, &brain_format);
        memcpy(to, &small, sizeof small);
        break;
    default:
        memcpy(to, &bits, reference_bytes(type));
    }
}

#define FOLD(type, sum, product)                                                                                       \
    do {                                                                                                               \
        type folded, next;                                                                                             \
        memcpy(&folded, inputs[0], sizeof folded);                                                                     \
        for (int rank = 1; rank < ranks; rank++) {                                                                     \
            memcpy(&next, inputs[rank], sizeof next);                                                                  \
            folded = op == softNcclSum    ? (type)(sum)                                                                \
                     : op == softNcclProd ? (type)(product)                                                            \
                     : op == softNcclMax  ? (next > folded ? next : folded)                                            \
                                          : (next < folded ? next : folded);                                           \
        }                                                                                                              \
        memcpy(to, &folded, sizeof folded);                                                                            \
    } while (0)
#define FOLD_FLOAT(type) FOLD(type, folded + next, folded * next)
#define FOLD_INTEGER(type) FOLD(type, (uint64_t)folded + (uint64_t)next, (uint64_t)folded * (uint64_t)next)

static void fold_small(void *to, const void *const *inputs, int ranks, const struct format *format, softNcclRedOp_t op)
{
    float folded = 0;
    for (int rank = 0; rank < ranks; rank++) {
        uint16_t bits;
        memcpy(&bits, inputs[rank], sizeof bits);
        const float next = read_small(bits, format);
        if (rank == 0)
            folded = next;
        else
            folded = op == softNcclSum    ? folded + next
                     : op == softNcclProd ? folded * next
                     : op == softNcclMax  ? (next > folded ? next : folded)
                                          : (next < folded ? next : folded);
    }
    const uint16_t bits = write_small(folded, format);
    memcpy(to, &bits, sizeof bits);
}

void reference_fold(void *to, const void *const *inputs, int ranks, softNcclDataType_t type, softNcclRedOp_t op)
{
    switch (type) {
    case softNcclInt8:
        FOLD_INTEGER(int8_t);
        break;
    case softNcclUint8:
        FOLD_INTEGER(uint8_t);
        break;
    case softNcclInt32:
        FOLD_INTEGER(int32_t);
        break;
    case softNcclUint32:
        FOLD_INTEGER(uint32_t);
        break;
    case softNcclInt64:
        FOLD_INTEGER(int64_t);
        break;
    case softNcclUint64:
        FOLD_INTEGER(uint64_t);
        break;
    case softNcclFloat32:
        FOLD_FLOAT(float);
        break;
    case softNcclFloat64:
        FOLD_FLOAT(double);
        break;
    case softNcclFloat16:
        fold_small(to, inputs, ranks, &half_format, op);
        break;
    case softNcclBfloat16:
        fold_small(to, inputs, ranks, &brain_format, op);
        break;
    }
}
