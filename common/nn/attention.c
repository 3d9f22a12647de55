/* SPDX-License-Identifier: MIT
 *
 * See attention.h. Block i of P covers rows [first, first + rows) and columns [0, first + rows); for each sample and head it is a
 * dense matrix, and the blocks follow one another in the kept memory, each for all samples and heads.
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
    size_t kept;                 /* where it begins, in elements of one sample and head */
};

static size_t block_rows(const struct attention *a)
{
    size_t rows = (a->tokens + BLOCKS - 1) / BLOCKS;

    rows = (rows + BLOCK_STEP - 1) / BLOCK_STEP * BLOCK_STEP;
    rows = rows > BLOCK_LEAST ? rows : BLOCK_LEAST;
    rows = rows < 4 * a->width ? rows : 4 * a->width; /* a block of d P fits the scratch */
    return rows < a->tokens ? rows : a->tokens;
}

static size_t block_count(const struct attention *a)
{
    return (a->tokens + block_rows(a) - 1) / block_rows(a);
}

/* Block i lies behind i whole ones, of rows x (1, 2, ... i) rows elements. */
static struct block block_at(const struct attention *a, size_t i)
{
    size_t most = block_rows(a), first = i * most, left = a->tokens - first, rows = left < most ? left : most;

    return (struct block){first, rows, first + rows, most * most * (i * (i + 1) / 2)};
}

size_t attention_kept(const struct attention *a)
{
    struct block last = block_at(a, block_count(a) - 1);

    return last.kept + last.rows * last.columns;
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

static struct matrices block_of(const struct replica *replica, const struct attention *a, const void *kept,
                                const struct block *block)
{
    size_t at = block->kept * a->batch * a->heads;

    return (struct matrices){(const char *)kept + at * element_size(replica_type(replica)), block->rows * block->columns};
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

int attention_forward(const struct replica *replica, const struct attention *a, void *o, void *kept, const void *qkv)
{
    size_t pairs = a->batch * a->heads;
    struct matrices k = tokens_from(replica, a, qkv, 1, 0), v = tokens_from(replica, a, qkv, 2, 0);

    for (size_t i = 0; pairs && i < block_count(a); i++) {
        struct block block = block_at(a, i);
        struct matrices p = block_of(replica, a, kept, &block);
        const struct product scores = {.op_b = CUBLAS_OP_T, .rows = block.rows, .columns = block.columns, .k = a->width};
        const struct product sums = {.rows = block.rows, .columns = a->width, .k = block.columns};

        TRY(multiply(replica, a, p, tokens_from(replica, a, qkv, 0, block.first), k, scores));
        GPU_TRY(kernel_causal_softmax_forward(replica_type(replica), target(&p), pairs * block.rows, block.columns, block.rows,
                                              block.first, score_scale(a), replica->compute));
        TRY(multiply(replica, a, tokens_from(replica, a, o, 0, block.first), p, v, sums));
    }
    return EXIT_OK;
}

/* One block: d P (in scratch, then that of the scores), its share of d V and d K, its rows of d Q. The first block treated is the
 * last one, which reaches all columns: it overwrites what the others add to. */
static int block_backward(const struct replica *replica, const struct attention *a, void *d_qkv, const void *d_o,
                          const void *kept, const void *qkv, void *scratch, size_t i)
{
    struct block block = block_at(a, i);
    struct matrices p = block_of(replica, a, kept, &block), ds = {scratch, p.stride};
    struct matrices d_rows = tokens_from(replica, a, d_o, 0, block.first);
    struct matrices q_rows = tokens_from(replica, a, qkv, 0, block.first), k = tokens_from(replica, a, qkv, 1, 0);
    const struct product to_p = {.op_b = CUBLAS_OP_T, .rows = block.rows, .columns = block.columns, .k = a->width};
    const struct product to_q = {.rows = block.rows, .columns = a->width, .k = block.columns};
    const struct product to_kv = {.op_a = CUBLAS_OP_T, .rows = block.columns, .columns = a->width, .k = block.rows,
                                  .beta = i + 1 == block_count(a) ? 0 : 1};

    TRY(multiply(replica, a, ds, d_rows, tokens_from(replica, a, qkv, 2, 0), to_p));
    TRY(multiply(replica, a, tokens_from(replica, a, d_qkv, 2, 0), p, d_rows, to_kv));
    GPU_TRY(kernel_causal_softmax_backward(replica_type(replica), scratch, p.first, a->batch * a->heads * block.rows,
                                           block.columns, block.rows, block.first, score_scale(a), replica->compute));
    TRY(multiply(replica, a, tokens_from(replica, a, d_qkv, 0, block.first), ds, k, to_q));
    return multiply(replica, a, tokens_from(replica, a, d_qkv, 1, 0), ds, q_rows, to_kv);
}

int attention_backward(const struct replica *replica, const struct attention *a, void *d_qkv, const void *d_o, const void *kept,
                       const void *qkv, void *scratch)
{
    for (size_t i = a->batch ? block_count(a) : 0; i-- > 0;)
        TRY(block_backward(replica, a, d_qkv, d_o, kept, qkv, scratch, i));
    return EXIT_OK;
}
