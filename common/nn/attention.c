/* SPDX-License-Identifier: MIT
 *
 * See attention.h. A block covers rows [first, first + rows) of the square of scores and columns [0, first + rows); for each
 * sample and head it is a dense matrix in the scratch.
 */
#include "nn/attention.h"

#include <math.h>

#include "kernels/kernels.h"
#include "sys/exit_codes.h"

#define BLOCKS 4       /* of rows: more save more above the diagonal, but make smaller products */
#define BLOCK_LEAST 64 /* rows: below, a product costs as much as the one of twice its size */
#define BLOCK_STEP 16  /* rows of a block are a multiple: whole vectors */

struct block {
    size_t first, rows, columns; /* columns: first + rows */
};

static size_t block_rows(const struct attention *a)
{
    size_t rows = (a->tokens + BLOCKS - 1) / BLOCKS, most = ATTENTION_SCRATCH * a->width;

    rows = (rows + BLOCK_STEP - 1) / BLOCK_STEP * BLOCK_STEP;
    rows = rows > BLOCK_LEAST ? rows : BLOCK_LEAST;
    rows = rows < most ? rows : most; /* a block fits the scratch */
    return rows < a->tokens ? rows : a->tokens;
}

static size_t block_count(const struct attention *a)
{
    return (a->tokens + block_rows(a) - 1) / block_rows(a);
}

static struct block block_at(const struct attention *a, size_t i)
{
    size_t most = block_rows(a), first = i * most, left = a->tokens - first, rows = left < most ? left : most;

    return (struct block){first, rows, first + rows};
}

/* Matrices of all samples and heads; the next one is `stride` elements on. */
struct matrices {
    const void *first;
    size_t stride;
};

/* [tokens][width] matrices from token `row` on, in part 0, 1, 2 (Q, K, V) of a tensor like qkv. */
static struct matrices tokens_from(const struct replica *replica, const struct attention *a, const void *tensor, size_t part,
                                   size_t row)
{
    size_t stride = a->tokens * a->width, at = part * a->batch * a->heads * stride + row * a->width;

    return (struct matrices){(const char *)tensor + at * element_size(replica_type(replica)), stride};
}

static struct matrices block_in(void *scratch, const struct block *block)
{
    return (struct matrices){scratch, block->rows * block->columns};
}

static void *target(const struct matrices *m)
{
    return (void *)(uintptr_t)m->first;
}

/* One product for each sample and head; `shape` says everything but where. */
static int multiply(const struct replica *replica, const struct attention *a, struct matrices c, struct matrices x,
                    struct matrices y, struct product shape)
{
    const struct batch_of_products batch = {a->batch * a->heads, c.stride, x.stride, y.stride};

    shape.c = target(&c);
    shape.a = x.first;
    shape.b = y.first;
    return products_enqueue(replica, &shape, &batch);
}

static float score_scale(const struct attention *a)
{
    return 1 / sqrtf((float)a->width);
}

size_t attention_statistics(const struct attention *a)
{
    return 2 * a->batch * a->heads * a->tokens;
}

/* Where the softmax of a block keeps its rows' two numbers: each [block][sample][head][row]. */
struct kept {
    float *tops, *factors;
};

static struct kept kept_at(const struct attention *a, const float *statistics, const struct block *block)
{
    size_t pairs = a->batch * a->heads;
    float *tops = (float *)(uintptr_t)statistics + pairs * block->first;

    return (struct kept){tops, tops + pairs * a->tokens};
}

/* A block's Q K^T, in the forward pass and again in the backward pass. */
static int multiply_scores(const struct replica *replica, const struct attention *a, struct matrices scores, const void *qkv,
                           const struct block *block)
{
    const struct product shape = {.op_b = CUBLAS_OP_T, .rows = block->rows, .columns = block->columns, .k = a->width};

    return multiply(replica, a, scores, tokens_from(replica, a, qkv, 0, block->first), tokens_from(replica, a, qkv, 1, 0),
                    shape);
}

int attention_forward(const struct replica *replica, const struct attention *a, void *o, float *statistics, const void *qkv,
                      void *scratch)
{
    size_t pairs = a->batch * a->heads;

    for (size_t i = 0; pairs && i < block_count(a); i++) {
        struct block block = block_at(a, i);
        struct matrices p = block_in(scratch, &block);
        struct kept kept = kept_at(a, statistics, &block);
        const struct product to_o = {.rows = block.rows, .columns = a->width, .k = block.columns};

        TRY(multiply_scores(replica, a, p, qkv, &block));
        GPU_TRY(kernel_causal_softmax_forward(replica_type(replica), scratch, kept.tops, kept.factors, pairs * block.rows,
                                              block.columns, block.rows, block.first, score_scale(a), replica->compute));
        TRY(multiply(replica, a, tokens_from(replica, a, o, 0, block.first), p, tokens_from(replica, a, qkv, 2, 0), to_o));
    }
    return EXIT_OK;
}

/* A block's P, from scores made again, and d P, which becomes that of the scores. */
static int block_again(const struct replica *replica, const struct attention *a, struct matrices p, struct matrices d,
                       const void *d_o, const float *statistics, const void *qkv, const struct block *block)
{
    const struct product to_p = {.op_b = CUBLAS_OP_T, .rows = block->rows, .columns = block->columns, .k = a->width};
    struct kept kept = kept_at(a, statistics, block);

    TRY(multiply_scores(replica, a, p, qkv, block));
    TRY(multiply(replica, a, d, tokens_from(replica, a, d_o, 0, block->first), tokens_from(replica, a, qkv, 2, 0), to_p));
    GPU_TRY(kernel_causal_softmax_backward(replica_type(replica), target(&d), target(&p), kept.tops, kept.factors,
                                           a->batch * a->heads * block->rows, block->columns, block->rows, block->first,
                                           score_scale(a), replica->compute));
    return EXIT_OK;
}

/* One block's share of d V and d K, its rows of d Q. The first block treated is the last one, which reaches all columns: it
 * overwrites what the others add to. */
static int block_backward(const struct replica *replica, const struct attention *a, void *d_qkv, const void *d_o,
                          const float *statistics, const void *qkv, const struct attention_scratch *scratch, size_t i)
{
    struct block block = block_at(a, i);
    struct matrices p = block_in(scratch->p, &block), d = block_in(scratch->d, &block);
    const struct product to_q = {.rows = block.rows, .columns = a->width, .k = block.columns};
    const struct product to_kv = {.op_a = CUBLAS_OP_T, .rows = block.columns, .columns = a->width, .k = block.rows,
                                  .beta = i + 1 == block_count(a) ? 0 : 1};

    TRY(block_again(replica, a, p, d, d_o, statistics, qkv, &block));
    TRY(multiply(replica, a, tokens_from(replica, a, d_qkv, 2, 0), p, tokens_from(replica, a, d_o, 0, block.first), to_kv));
    TRY(multiply(replica, a, tokens_from(replica, a, d_qkv, 0, block.first), d, tokens_from(replica, a, qkv, 1, 0), to_q));
    return multiply(replica, a, tokens_from(replica, a, d_qkv, 1, 0), d, tokens_from(replica, a, qkv, 0, block.first), to_kv);
}

int attention_backward(const struct replica *replica, const struct attention *a, void *d_qkv, const void *d_o,
                       const float *statistics, const void *qkv, const struct attention_scratch *scratch)
{
    for (size_t i = a->batch ? block_count(a) : 0; i-- > 0;)
        TRY(block_backward(replica, a, d_qkv, d_o, statistics, qkv, scratch, i));
    return EXIT_OK;
}
