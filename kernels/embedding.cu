/* SPDX-License-Identifier: MIT
 *
 * Embeddings: rows of a table by token, and the sum of gradients into the rows that were read.
 *
 * The backward pass adds no floats atomically: the places of the batch are sorted by token (stably), and each run of equal
 * tokens is summed in the order of its places by one group. A place's position is the number of places with a smaller token,
 * or the same one earlier: n^2 comparisons, which vectorise, and nothing against the products of a model with that many tokens.
 */
#include "kernels/kernel_math.h"

using namespace kernel;

namespace {

/* A token outside the table gives NaN. */
struct EmbeddingForward {
    template <class Group, class T>
    static DEVICE void row(size_t row, Group group, T *y_rows, const T *table, const T *positions, const int32_t *tokens,
                           size_t columns, size_t vocabulary, size_t period)
    {
        T *y = y_rows + row * columns;
        const int32_t token = tokens[row];
        if (token < 0 || static_cast<size_t>(token) >= vocabulary) {
            group.each(columns, [=](size_t i) { y[i] = NAN; });
            return;
        }
        const T *x = table + static_cast<size_t>(token) * columns;
        if (positions) {
            const T *position = positions + row % period * columns;
            group.each(columns, [=](size_t i) { y[i] = x[i] + position[i]; });
        } else {
            group.each(columns, [=](size_t i) { copy(y[i], x[i]); });
        }
    }
};

/* Counts are sums of float ones: exact below 2^24 places. */
struct EmbeddingOrder {
    template <class Group> static DEVICE void row(size_t row, Group group, int32_t *order, const int32_t *tokens, size_t n)
    {
        const int32_t token = tokens[row];
        const int32_t *later = tokens + row;
        const float before = group.sum(row, [=](size_t i) { return tokens[i] <= token ? 1.0f : 0.0f; });
        const float behind = group.sum(n - row, [=](size_t i) { return later[i] < token ? 1.0f : 0.0f; });
        if (group.first())
            order[static_cast<size_t>(before) + static_cast<size_t>(behind)] = static_cast<int32_t>(row);
    }
};

/* Row: a position in the sorted order; the first of each run adds up the run. */
struct EmbeddingBackward {
    template <class Group, class T>
    static DEVICE void row(size_t row, Group group, T *d_table, const T *dy, const int32_t *tokens, const int32_t *order,
                           size_t n, size_t columns, size_t vocabulary)
    {
        const int32_t token = tokens[order[row]];
        if (token < 0 || static_cast<size_t>(token) >= vocabulary || (row > 0 && tokens[order[row - 1]] == token))
            return;
        size_t end = row + 1;
        while (end < n && tokens[order[end]] == token)
            end++;
        T *d = d_table + static_cast<size_t>(token) * columns;
        group.each(columns, [=](size_t i) {
            float sum = 0;
            for (size_t k = row; k < end; k++)
                sum += dy[static_cast<size_t>(order[k]) * columns + i];
            d[i] = d[i] + sum;
        });
    }
};

} // namespace

cudaError_t kernel_embedding_forward(enum element_type type, void *y, const void *table, const void *positions,
                                     const int32_t *tokens, size_t rows, size_t columns, size_t vocabulary, size_t period,
                                     cudaStream_t stream)
{
    const size_t n = rows * columns;
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        const double bytes = sizeof(T) * (2.0 * n + (positions ? period * columns : 0)) + 4.0 * rows;
        return launch_rows<EmbeddingForward>({"embedding_forward", positions ? 1.0 * n : 0.0, bytes}, stream, rows, columns,
                                             out(static_cast<T *>(y), n), in(static_cast<const T *>(table), vocabulary * columns),
                                             in(static_cast<const T *>(positions), period * columns), in(tokens, rows),
                                             value(columns), value(vocabulary), value(period));
    });
}

cudaError_t kernel_embedding_order(int32_t *order, const int32_t *tokens, size_t n, cudaStream_t stream)
{
    return launch_rows<EmbeddingOrder>({"embedding_order", 2.0 * n * n, 8.0 * n}, stream, n, n, out(order, n), in(tokens, n),
                                       value(n));
}

cudaError_t kernel_embedding_backward(enum element_type type, void *d_table, const void *dy, const int32_t *tokens,
                                      const int32_t *order, size_t rows, size_t columns, size_t vocabulary, cudaStream_t stream)
{
    const size_t n = rows * columns;
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        const size_t touched = rows < vocabulary ? rows : vocabulary;
        const double bytes = sizeof(T) * (1.0 * n + 2.0 * touched * columns) + 8.0 * rows;
        return launch_rows<EmbeddingBackward>({"embedding_backward", 1.0 * n, bytes}, stream, rows, columns,
                                              inout(static_cast<T *>(d_table), vocabulary * columns),
                                              in(static_cast<const T *>(dy), n), in(tokens, rows), in(order, rows), value(rows),
                                              value(columns), value(vocabulary));
    });
}
