/* SPDX-License-Identifier: MIT
 *
 * What attention needs beside products: the softmax of scores that may only look back, and the two ways between tokens with
 * all heads side by side and heads with their tokens in a row.
 *
 * Scores stand in blocks of rows: `rows` is a multiple of block_rows, row r belongs to query first + r % block_rows, which
 * sees that many keys and its own; what lies beyond is not read and becomes 0.
 *
 * The backward pass is given the scores again, and of each row the two numbers that its softmax took from all of it: the
 * largest score, and 1 over the sum of the exponentials. So the probabilities become what they were by one look at each score.
 */
#include "kernels/kernel_math.h"

using namespace kernel;

namespace {

/* A row that sees `seen` elements: `whole` vectors of them without a condition, then one with, up to `end`; behind it zeros. On
 * the CPU no element is left to be treated singly, and conditions, which cost as much as the sums, stand in one vector only. */
struct Sight {
    size_t seen, whole, end, columns;
    DEVICE Sight(size_t seen_, size_t columns_) : seen(seen_), whole(seen_ / FEW * FEW), end(whole + FEW), columns(columns_)
    {
        end = seen == whole ? whole : end;
        end = end < columns ? end : columns;
    }
};

template <class Group, class F> DEVICE float sight_sum(Group group, const Sight &s, F f)
{
    const size_t first = s.whole, seen = s.seen;
    const float last = group.sum_few(s.end - first, [=](size_t i) { return first + i < seen ? f(first + i) : 0.0f; });
    return group.sum(first, f) + last;
}

/* Also of what is no longer seen: 0. */
template <class Group, class T, class F> DEVICE void sight_set(Group group, const Sight &s, T *x, F f)
{
    const size_t first = s.whole, end = s.end, seen = s.seen;
    group.each(first, [=](size_t i) { x[i] = f(i); });
    group.each(end - first, [=](size_t i) { x[first + i] = first + i < seen ? f(first + i) : 0.0f; });
    group.each(s.columns - end, [=](size_t i) { x[end + i] = 0.0f; });
}

template <class Group, class T> DEVICE float sight_max(Group group, const Sight &s, const T *x)
{
    const size_t first = s.whole, seen = s.seen;
    const float last = group.max_few(s.end - first, [=](size_t i) -> float { return first + i < seen ? float(x[first + i]) : -INFINITY; });
    const float most = group.max(first, [=](size_t i) -> float { return x[i]; });
    return last > most ? last : most;
}

/* In 32 bits the exponentials are kept in place between the sum and the division; 16 would round them twice. On a GPU a lane has
 * the same elements in the sum and in what follows only within one of the two stretches, and so do they here. */
struct CausalSoftmaxForward {
    template <class Group, class T>
    static DEVICE void row(size_t row, Group group, T *scores, float *tops, float *factors, size_t columns, size_t block_rows,
                           size_t first, float scale)
    {
        T *x = scores + row * columns;
        const Sight sight(first + row % block_rows + 1, columns);
        const float top = sight_max(group, sight, x);
        const float sum = sight_sum(group, sight, [=](size_t i) {
            const float e = exponential_falling((x[i] - top) * scale);
            if constexpr (sizeof(T) == sizeof(float))
                x[i] = e;
            return e;
        });
        const float factor = 1.0f / sum;
        sight_set(group, sight, x, [=](size_t i) {
            if constexpr (sizeof(T) == sizeof(float))
                return x[i] * factor;
            else
                return exponential_falling((x[i] - top) * scale) * factor;
        });
        if (group.first()) {
            tops[row] = top;
            factors[row] = factor;
        }
    }
};

/* The probabilities, rounded to the type as the forward pass rounded them, take the place of the scores. */
struct CausalSoftmaxBackward {
    template <class Group, class T>
    static DEVICE void row(size_t row, Group group, T *d_probabilities, T *scores, const float *tops, const float *factors,
                           size_t columns, size_t block_rows, size_t first, float scale)
    {
        T *d = d_probabilities + row * columns, *p = scores + row * columns;
        const Sight sight(first + row % block_rows + 1, columns);
        const float top = tops[row], factor = factors[row];
        const float along = sight_sum(group, sight, [=](size_t i) {
            return store(p[i], exponential_falling((p[i] - top) * scale) * factor) * d[i];
        });
        sight_set(group, sight, d, [=](size_t i) { return scale * p[i] * (d[i] - along); });
        group.each(columns - sight.seen, [=](size_t i) { p[sight.seen + i] = 0.0f; });
    }
};

/* Row: one token of one sample. Its strips of `width` elements lie side by side in x, and in heads[part][sample][head][token]
 * `step` elements apart from head to head and `part` from part to part. */
struct Strips {
    unsigned tokens, heads, width, parts;
    size_t step, part;
    DEVICE size_t columns() const { return static_cast<size_t>(parts) * heads * width; }
};

template <class F> DEVICE void each_strip(size_t row, Strips strips, F f)
{
    size_t first = row / strips.tokens * strips.heads * strips.step + row % strips.tokens * strips.width, column = 0;
    ROLLED for (unsigned part = 0; part < strips.parts; part++, first += strips.part) {
        size_t place = first;
        ROLLED for (unsigned head = 0; head < strips.heads; head++, place += strips.step, column += strips.width)
            f(column, place);
    }
}

struct HeadsSplit {
    template <class Group, class T>
    static DEVICE void row(size_t row, Group group, T *heads, const T *x, const T *bias, Strips strips)
    {
        x += row * strips.columns();
        each_strip(row, strips, [=](size_t column, size_t place) {
            T *to = heads + place;
            const T *from = x + column;
            if (bias) {
                const T *added = bias + column;
                group.each(strips.width, [=](size_t i) { to[i] = from[i] + added[i]; });
            } else {
                group.each(strips.width, [=](size_t i) { copy(to[i], from[i]); });
            }
        });
    }
};

struct HeadsMerge {
    template <class Group, class T>
    static DEVICE void row(size_t row, Group group, T *x, const T *heads, Strips strips)
    {
        x += row * strips.columns();
        each_strip(row, strips, [=](size_t column, size_t place) {
            T *to = x + column;
            const T *from = heads + place;
            group.each(strips.width, [=](size_t i) { copy(to[i], from[i]); });
        });
    }
};

} // namespace

/* FLOPs: about 20 for the exponential, 5 for the rest, of the half that is seen. Bytes: that half is read, all is written. */
cudaError_t kernel_causal_softmax_forward(enum element_type type, void *scores, float *tops, float *factors, size_t rows,
                                          size_t columns, size_t block_rows, size_t first, float scale, cudaStream_t stream)
{
    const size_t n = rows * columns;
    const double seen = 1.0 * rows * (first + 0.5 * (block_rows + 1));
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        const double bytes = sizeof(T) * (seen + n) + 2.0 * sizeof(float) * rows;
        return launch_rows<CausalSoftmaxForward>({"causal_softmax_forward", 25.0 * seen, bytes}, stream, rows, columns,
                                                 inout(static_cast<T *>(scores), n), out(tops, rows), out(factors, rows),
                                                 value(columns), value(block_rows), value(first), value(scale));
    });
}

/* FLOPs: the exponential again, 3 for the rest of the probability, 5 for the gradient. Bytes: of two tensors. */
cudaError_t kernel_causal_softmax_backward(enum element_type type, void *d_probabilities, void *scores, const float *tops,
                                           const float *factors, size_t rows, size_t columns, size_t block_rows, size_t first,
                                           float scale, cudaStream_t stream)
{
    const size_t n = rows * columns;
    const double seen = 1.0 * rows * (first + 0.5 * (block_rows + 1));
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        const double bytes = sizeof(T) * 2 * (seen + n) + 2.0 * sizeof(float) * rows;
        return launch_rows<CausalSoftmaxBackward>({"causal_softmax_backward", 28.0 * seen, bytes}, stream, rows, columns,
                                                  inout(static_cast<T *>(d_probabilities), n),
                                                  inout(static_cast<T *>(scores), n), in(tops, rows), in(factors, rows),
                                                  value(columns), value(block_rows), value(first), value(scale));
    });
}

static Strips make_strips(size_t batch, size_t tokens, size_t heads, size_t width, size_t parts)
{
    return {static_cast<unsigned>(tokens), static_cast<unsigned>(heads), static_cast<unsigned>(width),
            static_cast<unsigned>(parts), tokens * width, batch * heads * tokens * width};
}

cudaError_t kernel_heads_split(enum element_type type, void *heads, const void *x, const void *bias, size_t batch, size_t tokens,
                               size_t head_count, size_t width, size_t parts, cudaStream_t stream)
{
    const size_t columns = parts * head_count * width, n = batch * tokens * columns;
    const Strips strips = make_strips(batch, tokens, head_count, width, parts);
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        const double bytes = sizeof(T) * (2.0 * n + (bias ? columns : 0));
        return launch_rows<HeadsSplit>({"heads_split", bias ? 1.0 * n : 0.0, bytes}, stream, n ? batch * tokens : 0, width,
                                       out(static_cast<T *>(heads), n), in(static_cast<const T *>(x), n),
                                       in(static_cast<const T *>(bias), columns), value(strips));
    });
}

cudaError_t kernel_heads_merge(enum element_type type, void *x, const void *heads, size_t batch, size_t tokens,
                               size_t head_count, size_t width, size_t parts, cudaStream_t stream)
{
    const size_t n = batch * tokens * parts * head_count * width;
    const Strips strips = make_strips(batch, tokens, head_count, width, parts);
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        return launch_rows<HeadsMerge>({"heads_merge", 0, 2.0 * sizeof(T) * n}, stream, n ? batch * tokens : 0, width,
                                       out(static_cast<T *>(x), n), in(static_cast<const T *>(heads), n), value(strips));
    });
}
