/* SPDX-License-Identifier: MIT
 *
 * Causal self-attention of many heads, between the layers that make queries, keys and values and the one that mixes the
 * results: for each sample and head, with tokens t, width d and scale = 1/sqrt(d),
 *
 *     P = softmax(scale Q K^T) over the tokens up to its own,   O = P V       Q, K, V, O [tokens][width]
 *
 * No P is kept, of any size: a block of its rows is made in scratch, used and overwritten, and the backward pass makes each block
 * again from Q, K and two numbers a row that the softmax found (FlashAttention's recomputation: Dao et al. 2022,
 * arXiv:2205.14135, algorithms 1 and 4; its blocks are tiles in a GPU's shared memory, ours are rows of a batched product). Of a
 * block only the columns up to its last token are computed: five eighths of the square, with four blocks. All products are
 * batched over samples and heads.
 */
#ifndef NN_ATTENTION_H
#define NN_ATTENTION_H

#include "nn/layers.h"

struct attention {
    size_t batch, tokens, heads, width;
};

/* Floats kept from the forward pass to the backward pass: the two numbers of each row. */
size_t attention_statistics(const struct attention *a);

/* What a scratch must have room for: ATTENTION_SCRATCH batch heads tokens width elements. A block of P fits it. */
#define ATTENTION_SCRATCH 4

/* Of the backward pass: for a block of P and of its gradient. */
struct attention_scratch {
    void *p, *d;
};

/* o [batch][heads][tokens][width] := the attention of qkv [3][batch][heads][tokens][width]; statistics := what the backward pass
 * needs beside qkv. Nothing is in place. */
int attention_forward(const struct replica *replica, const struct attention *a, void *o, float *statistics, const void *qkv,
                      void *scratch);

/* d_qkv (as qkv) from d_o (as o) and the statistics of the forward pass. Nothing is in place. */
int attention_backward(const struct replica *replica, const struct attention *a, void *d_qkv, const void *d_o,
                       const float *statistics, const void *qkv, const struct attention_scratch *scratch);

#endif
