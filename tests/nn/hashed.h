/* SPDX-License-Identifier: MIT
 *
 * Weights and tokens of the tests of GPT and LSTM: hashes of (tensor, element), the same as in golden_tokens.py.
 */
#ifndef TESTS_NN_HASHED_H
#define TESTS_NN_HASHED_H

#include <stdint.h>
#include <string.h>

#include "device.h"

/* [-0.5, 0.5), a multiple of 2^-24. */
static inline float hashed(uint32_t tensor, size_t element)
{
    uint32_t x = (uint32_t)element * UINT32_C(2654435761) + tensor * 40503 + 12345;

    x = (x ^ x >> 16) * UINT32_C(0x7feb352d);
    x = (x ^ x >> 15) * UINT32_C(0x846ca68b);
    x ^= x >> 16;
    return (float)(x >> 8) / 16777216.0F - 0.5F;
}

static inline int32_t hashed_token(uint32_t sequence, size_t place, size_t vocabulary)
{
    return (int32_t)((hashed(1000 + sequence, place) + 0.5F) * (float)vocabulary);
}

/* Matrices of the given size, LayerNorm's weights round 1, all other vectors round 0. */
static inline float hashed_parameter(const struct model *model, int index, size_t element, float size)
{
    const struct parameter *p = &model->parameters[index];
    const char *norm = strstr(p->name, ".ln") ? strstr(p->name, ".ln") : strncmp(p->name, "lnf", 3) == 0 ? p->name : NULL;
    float x = hashed((uint32_t)index, element);

    return p->dims == 2 ? x * size : x * 0.25F + (norm && strstr(norm, ".weight") ? 1 : 0);
}

/* Parameters, tokens and labels onto the device. */
void hashed_fill(struct trial *trial, size_t batch, float size);

#endif
