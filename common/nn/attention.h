/* SPDX-License-Identifier: MIT
 *
 * Causal self-attention of many heads, between the layers that make queries, keys and values and the one that mixes the
 * results: for each sample and head, with tokens t, width d and scale = 1/sqrt(d),
 *
 *     P = softmax(scale Q K^T) over the tokens up to its own,   O = P V       Q, K, V, O [tokens][width]
 *
 * Rows of P are treated in blocks: of a block only the columns up to its last token are computed and kept, so that about
 * five eighths of the square are (four blocks). All products are batched over samples and heads.
 */
#ifndef NN_ATTENTION_H
#define NN_ATTENTION_H

#include "nn/layers.h"

struct attention {
    size_t batch, tokens, heads, width;
};

/* Elements of P that are kept for one sample and head. */
size_t attention_kept(const struct attention *a);

/* o := the attention of qkv [3][batch][heads][tokens][width]; keeps P in kept [batch heads attention_kept] for the backward
 * pass. o [batch][heads][tokens][width]. */
int attention_forward(const struct replica *replica, const struct attention *a, void *o, void *kept, const void *qkv);

/* d_qkv (as qkv) from d_o (as o). scratch: room for 4 batch heads tokens width elements. Nothing is in place. */
int attention_backward(const struct replica *replica, const struct attention *a, void *d_qkv, const void *d_o, const void *kept,
                       const void *qkv, void *scratch);

#endif
