/* SPDX-License-Identifier: MIT
 *
 * The kernel language on the CPU: each idiom as a body that does its part of the work, and its launch on a soft GPU.
 *
 * The loops are contiguous and marked `omp simd`: the elements of a kernel are independent by construction (an input may be
 * the output itself, element by element, but never overlap it shifted), and sums may be taken in vector lanes. That order is
 * fixed when compiled, so results do not depend on the cores. No OpenMP library is used (-fopenmp-simd).
 */
#ifndef KERNELS_KERNEL_SOFT_H
#define KERNELS_KERNEL_SOFT_H

#include "kernels/kernel.h"

#include <cmath>
#include <type_traits>

#include "softgpu/launch.h"

namespace kernel {

/* A part with less than this is not worth waking another core for (16384 floats: some 3 us of one core). */
constexpr size_t PART_ELEMENTS = 16384;
/* Parts a launch has at most: enough to balance the cores of the largest device. */
constexpr size_t PARTS_LIMIT = 256;
constexpr size_t COLUMN_TILE = 256; /* floats: accumulators in level 1 cache, rows read in pieces of 1 KiB */

/* Units [begin, end) of part `block`; whole units, so that the cut never moves inside one. */
struct Range {
    size_t begin, end;
};

inline Range part(size_t units, unsigned block, unsigned blocks)
{
    return {units / blocks * block + units % blocks * block / blocks,
            units / blocks * (block + 1) + units % blocks * (block + 1) / blocks};
}

inline unsigned parts_for(size_t elements, size_t units)
{
    size_t parts = elements / PART_ELEMENTS;
    parts = parts < units ? parts : units;
    parts = parts < PARTS_LIMIT ? parts : PARTS_LIMIT;
    return parts > 1 ? static_cast<unsigned>(parts) : 1u;
}

/* ---- arguments travel to the stream as plain bytes: a list, not std::tuple, which is not trivially copyable ---- */

template <class... T> struct List {};
template <class Head, class... Tail> struct List<Head, Tail...> {
    Head head;
    List<Tail...> tail;
};

inline List<> list() { return {}; }
template <class Head, class... Tail> inline List<Head, Tail...> list(Head head, Tail... tail)
{
    return {head, list(tail...)};
}

template <class F, class... Done> DEVICE void spread(List<>, F f, Done... done) { f(done...); }
template <class Head, class... Tail, class F, class... Done>
DEVICE void spread(const List<Head, Tail...> &all, F f, Done... done)
{
    spread(all.tail, f, done..., all.head);
}

/* ---- pointers: device address -> kernel address, checked by the soft GPU ---- */

template <class A> inline softError_t translate(softStream_t, const char *, A &) { return softSuccess; }

template <class A> inline softError_t translate_pointer(softStream_t stream, const char *kernel, A &argument)
{
    if (argument.count == 0)
        return softSuccess;
    const soft_span span = {argument.pointer, argument.count * sizeof(typename A::element), A::written};
    void *translated = nullptr;
    softError_t error = softTranslate(stream, kernel, &span, &translated);
    argument.pointer = static_cast<decltype(argument.pointer)>(translated);
    return error;
}

template <class T> inline softError_t translate(softStream_t s, const char *k, In<T> &a) { return translate_pointer(s, k, a); }
template <class T> inline softError_t translate(softStream_t s, const char *k, Out<T> &a) { return translate_pointer(s, k, a); }
template <class T> inline softError_t translate(softStream_t s, const char *k, InOut<T> &a)
{
    return translate_pointer(s, k, a);
}
template <class T> inline softError_t translate(softStream_t s, const char *k, ColumnIn<T> &a)
{
    return translate_pointer(s, k, a);
}
template <class T> inline softError_t translate(softStream_t s, const char *k, Same<T> &a) { return translate_pointer(s, k, a); }

/* What does not depend on the element is read before the loop: the compiler can't know that no element writes it. */
template <class A> DEVICE A resolved(A argument) { return argument; }
template <class T> DEVICE Value<T> resolved(Same<T> argument) { return {*argument.pointer}; }

/* What a launch carries: the shape and the arguments. */
template <class... Arguments> struct Work {
    size_t rows, columns;
    List<Arguments...> arguments;
};

template <class... Arguments>
inline softError_t launch(const Cost &cost, softStream_t stream, soft_body *body, unsigned parts, size_t rows,
                          size_t columns, Arguments... arguments)
{
    using Packed = Work<Arguments...>;
    static_assert(sizeof(Packed) <= SOFT_LAUNCH_ARGUMENT_BYTES, "too many arguments for one launch");
    static_assert(std::is_trivially_copyable_v<Packed>, "arguments are copied as bytes");
    softError_t error = softSuccess;
    ((error = error ? error : translate(stream, cost.name, arguments)), ...);
    if (error)
        return error;
    const Packed work = {rows, columns, list(arguments...)};
    const soft_cost stated = {cost.name, cost.flops, cost.bytes, 0, false};
    return softLaunch(stream, &stated, body, &work, sizeof work, parts);
}

/* ---- elements ---- */

template <class K, class... Arguments> DEVICE void elements_loop(size_t begin, size_t end, Arguments... arguments)
{
#pragma omp simd
    for (size_t i = begin; i < end; i++)
        K::element(arguments.at(Place{i, i})...);
}

template <class K, class... Arguments> void elements_body(const void *bytes, unsigned block, unsigned blocks)
{
    const auto &work = *static_cast<const Work<Arguments...> *>(bytes);
    /* Units of 64 elements: no two parts write the same cache line (of an aligned buffer). */
    const size_t n = work.columns, unit = 64;
    const Range units = part((n + unit - 1) / unit, block, blocks);
    const size_t end = units.end * unit < n ? units.end * unit : n;
    spread(work.arguments, [&](auto... a) { elements_loop<K>(units.begin * unit, end, resolved(a)...); });
}

template <class K, class... Arguments>
inline softError_t launch_elements(const Cost &cost, softStream_t stream, size_t n, Arguments... arguments)
{
    if (n == 0)
        return softSuccess;
    return launch(cost, stream, elements_body<K, Arguments...>, parts_for(n, n), 1, n, arguments...);
}

/* ---- matrix: elements that know their column ---- */

/* Rows shorter than this are taken several at a time, with the inputs by column written out for all of them: a loop over 16
 * columns alone would spend its time on beginning and ending. */
constexpr size_t SHORT_ROW = COLUMN_TILE / 2;

/* An argument as a wide row sees it. */
template <class A> struct Wide {
    A argument;
    Wide(const A &a, size_t, size_t) : argument(a) {}
    A get() const { return argument; }
};
template <class T> struct Wide<ColumnIn<T>> {
    T values[COLUMN_TILE];
    Wide(const ColumnIn<T> &a, size_t columns, size_t group)
    {
        for (size_t start = 0; start < group * columns; start += columns)
            for (size_t i = 0; i < columns; i++)
                values[start + i] = a.pointer[i];
    }
    ColumnIn<T> get() const { return {values, COLUMN_TILE}; }
};

/* `width` elements from `start` on. Arguments by value: read from memory in the loop, they could be what an element writes. */
template <class K, class... Arguments> DEVICE void matrix_row(size_t start, size_t width, Arguments... arguments)
{
#pragma omp simd
    for (size_t i = 0; i < width; i++)
        K::element(arguments.at(Place{start + i, i})...);
}

/* Whole groups of rows as rows of group * columns. */
template <class K, class... Arguments>
inline void matrix_groups(size_t begin, size_t groups, size_t columns, size_t group, const Wide<Arguments> &...wide)
{
    for (size_t g = 0; g < groups; g++)
        matrix_row<K>((begin + g * group) * columns, group * columns, wide.get()...);
}

template <class K, class... Arguments>
DEVICE void matrix_loop(Range rows, size_t columns, Arguments... arguments)
{
    const size_t group = columns <= SHORT_ROW ? COLUMN_TILE / columns : 1;
    const size_t groups = group > 1 ? (rows.end - rows.begin) / group : 0;
    if (groups > 1)
        matrix_groups<K, Arguments...>(rows.begin, groups, columns, group, Wide<Arguments>(arguments, columns, group)...);
    for (size_t row = rows.begin + (groups > 1 ? groups * group : 0); row < rows.end; row++)
        matrix_row<K>(row * columns, columns, arguments...);
}

template <class K, class... Arguments> void matrix_body(const void *bytes, unsigned block, unsigned blocks)
{
    const auto &work = *static_cast<const Work<Arguments...> *>(bytes);
    const Range rows = part(work.rows, block, blocks);
    spread(work.arguments, [&](auto... a) { matrix_loop<K>(rows, work.columns, a...); });
}

template <class K, class... Arguments>
inline softError_t launch_matrix(const Cost &cost, softStream_t stream, size_t rows, size_t columns, Arguments... arguments)
{
    if (rows == 0 || columns == 0)
        return softSuccess;
    return launch(cost, stream, matrix_body<K, Arguments...>, parts_for(rows * columns, rows), rows, columns, arguments...);
}

/* ---- rows: the group is one lane ---- */

constexpr size_t LANES = 4 * FEW; /* of a row's sum */

struct Group {
    static constexpr bool first() { return true; }
    static constexpr bool owns(size_t) { return true; }

    template <class F> static DEVICE void each(size_t n, F f)
    {
#pragma omp simd
        for (size_t i = 0; i < n; i++)
            f(i);
    }

    template <class F> static DEVICE float sum(size_t n, F f)
    {
        return fold<LANES>(n, 0.0f, f, [](float a, float b) { return a + b; });
    }

    /* A NaN is passed over; -infinity if there is nothing. */
    template <class F> static DEVICE float max(size_t n, F f)
    {
        return fold<LANES>(n, -INFINITY, f, [](float a, float b) { return b > a ? b : a; });
    }

    /* The same of at most FEW elements, to the bit. */
    template <class F> static DEVICE float sum_few(size_t n, F f)
    {
        return fold<FEW>(n, 0.0f, f, [](float a, float b) { return a + b; });
    }
    template <class F> static DEVICE float max_few(size_t n, F f)
    {
        return fold<FEW>(n, -INFINITY, f, [](float a, float b) { return b > a ? b : a; });
    }

    /* COUNT results side by side, then halves upon halves: one chain alone would wait for itself, and a vector's lanes, one after
     * the other, would take longer than a short row. */
    template <size_t COUNT, class F, class Join> static DEVICE float fold(size_t n, float neutral, F f, Join join)
    {
        float lanes[COUNT];
        for (size_t i = 0; i < COUNT; i++)
            lanes[i] = neutral;
        size_t begin = 0;
        for (; begin + COUNT <= n; begin += COUNT) {
#pragma omp simd
            for (size_t i = 0; i < COUNT; i++)
                lanes[i] = join(lanes[i], f(begin + i));
        }
#pragma omp simd
        for (size_t i = 0; i < n - begin; i++)
            lanes[i] = join(lanes[i], f(begin + i));
        return halved<COUNT>(lanes, join);
    }

    /* By a number of lanes that the compiler knows: so they stay in registers. */
    template <size_t COUNT, class Join> static DEVICE float halved(float *lanes, Join join)
    {
        if constexpr (COUNT > 1) {
#pragma omp simd
            for (size_t i = 0; i < COUNT / 2; i++)
                lanes[i] = join(lanes[i], lanes[COUNT / 2 + i]);
            return halved<COUNT / 2>(lanes, join);
        }
        return lanes[0];
    }
};

template <class K, class... Arguments> void rows_body(const void *bytes, unsigned block, unsigned blocks)
{
    const auto &work = *static_cast<const Work<Arguments...> *>(bytes);
    const Range rows = part(work.rows, block, blocks);
    spread(work.arguments, [&](auto... a) {
        for (size_t row = rows.begin; row < rows.end; row++)
            K::row(row, Group(), a.raw()...);
    });
}

template <class K, class... Arguments>
inline softError_t launch_rows(const Cost &cost, softStream_t stream, size_t rows, size_t columns, Arguments... arguments)
{
    if (rows == 0)
        return softSuccess;
    return launch(cost, stream, rows_body<K, Arguments...>, parts_for(rows * columns, rows), rows, columns, arguments...);
}

/* ---- columns: a tile of accumulators, rows outside, four at a time ---- */

template <class K, class... Raw>
DEVICE void column_tile(size_t first, size_t width, size_t rows, size_t columns, Raw... raw)
{
    float sums[COLUMN_TILE] = {};
    size_t row = 0;
    for (; row + 4 <= rows; row += 4) {
        const size_t start = row * columns + first;
#pragma omp simd
        for (size_t i = 0; i < width; i++)
            sums[i] += (K::term(start + i, raw...) + K::term(start + columns + i, raw...)) +
                       (K::term(start + 2 * columns + i, raw...) + K::term(start + 3 * columns + i, raw...));
    }
    for (; row < rows; row++) {
#pragma omp simd
        for (size_t i = 0; i < width; i++)
            sums[i] += K::term(row * columns + first + i, raw...);
    }
    for (size_t i = 0; i < width; i++)
        K::finish(first + i, sums[i], raw...);
}

template <class K, class... Arguments> void columns_body(const void *bytes, unsigned block, unsigned blocks)
{
    const auto &work = *static_cast<const Work<Arguments...> *>(bytes);
    const Range tiles = part((work.columns + COLUMN_TILE - 1) / COLUMN_TILE, block, blocks);
    spread(work.arguments, [&](auto... a) {
        for (size_t first = tiles.begin * COLUMN_TILE; first < tiles.end * COLUMN_TILE; first += COLUMN_TILE) {
            const size_t left = work.columns - first;
            column_tile<K>(first, left < COLUMN_TILE ? left : COLUMN_TILE, work.rows, work.columns, a.raw()...);
        }
    });
}

template <class K, class... Arguments>
inline softError_t launch_columns(const Cost &cost, softStream_t stream, size_t rows, size_t columns,
                                  Arguments... arguments)
{
    if (columns == 0)
        return softSuccess;
    const size_t tiles = (columns + COLUMN_TILE - 1) / COLUMN_TILE;
    return launch(cost, stream, columns_body<K, Arguments...>, parts_for(rows * columns, tiles), rows, columns, arguments...);
}

/* ---- column pairs: the same with two accumulators a column; term(row, index, ...) ---- */

template <class K, class... Raw>
DEVICE void column_pair_tile(size_t first, size_t width, size_t rows, size_t columns, Raw... raw)
{
    float sums[COLUMN_TILE] = {}, others[COLUMN_TILE] = {};
    size_t row = 0;
    for (; row + 2 <= rows; row += 2) {
        const size_t start = row * columns + first;
#pragma omp simd
        for (size_t i = 0; i < width; i++) {
            const Pair a = K::term(row, start + i, raw...), b = K::term(row + 1, start + columns + i, raw...);
            sums[i] += a.first + b.first;
            others[i] += a.second + b.second;
        }
    }
    if (row < rows) {
#pragma omp simd
        for (size_t i = 0; i < width; i++) {
            const Pair a = K::term(row, row * columns + first + i, raw...);
            sums[i] += a.first;
            others[i] += a.second;
        }
    }
    for (size_t i = 0; i < width; i++)
        K::finish(first + i, Pair{sums[i], others[i]}, raw...);
}

template <class K, class... Arguments> void column_pairs_body(const void *bytes, unsigned block, unsigned blocks)
{
    const auto &work = *static_cast<const Work<Arguments...> *>(bytes);
    const Range tiles = part((work.columns + COLUMN_TILE - 1) / COLUMN_TILE, block, blocks);
    spread(work.arguments, [&](auto... a) {
        for (size_t first = tiles.begin * COLUMN_TILE; first < tiles.end * COLUMN_TILE; first += COLUMN_TILE) {
            const size_t left = work.columns - first;
            column_pair_tile<K>(first, left < COLUMN_TILE ? left : COLUMN_TILE, work.rows, work.columns, a.raw()...);
        }
    });
}

template <class K, class... Arguments>
inline softError_t launch_column_pairs(const Cost &cost, softStream_t stream, size_t rows, size_t columns,
                                       Arguments... arguments)
{
    if (columns == 0)
        return softSuccess;
    const size_t tiles = (columns + COLUMN_TILE - 1) / COLUMN_TILE;
    return launch(cost, stream, column_pairs_body<K, Arguments...>, parts_for(rows * columns, tiles), rows, columns,
                  arguments...);
}

/* Any number of lanes and cores may store the same value. */
DEVICE void store_relaxed(float *to, float x) { __atomic_store(to, &x, __ATOMIC_RELAXED); }
DEVICE void atomic_add(int32_t *counter, int32_t x) { __atomic_fetch_add(counter, x, __ATOMIC_RELAXED); }

} // namespace kernel

#endif
