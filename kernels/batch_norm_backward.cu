/* SPDX-License-Identifier: MIT
 *
 * BatchNorm's backward pass, with that of the ReLU behind it:
 *
 *     sums (dy, x), or gated sums (g, other, y, x -> g)    fold, coefficients    apply (g or dy, x -> dx)
 *
 * Two tensors are read twice; where a residual was added, its gradient is made on the way.
 */
#include "kernels/kernel_chunks.h"
#include "kernels/kernel_math.h"

using namespace kernel;

namespace {

/* ---- backward: first = sum of g, second = sum of g (x - mean), g the gradient behind the ReLU ---- */

DEVICE void store_sums(size_t chunk, size_t column, float first, float second, float *partials, size_t columns)
{
    partials[chunk * 2 * columns + column] = first;
    partials[chunk * 2 * columns + columns + column] = second;
}

/* RELU: the ReLU is seen again from x, so y is not read. */
template <bool RELU> struct Sums {
    static constexpr int PASSES = 1;
    template <class T>
    static DEVICE void prepare(size_t column, Spot &spot, float *, const T *, const T *, const float *saved, const T *weight,
                               const T *bias, size_t columns)
    {
        spot.mean = saved[column];
        if (RELU) {
            spot.factor = saved[columns + column] * weight[column];
            spot.offset = bias[column];
        }
    }
    template <int PASS, class T>
    static DEVICE void term(size_t index, Spot spot, float &first, float &second, float *, const T *dy, const T *x,
                            const float *, const T *, const T *, size_t)
    {
        const float distance = x[index] - spot.mean;
        float g = dy[index];
        if (RELU)
            g = gated(g, distance * spot.factor + spot.offset);
        first += g;
        second += g * distance;
    }
    template <class T>
    static DEVICE void finish(size_t chunk, size_t column, size_t, float first, float second, float *partials, const T *,
                              const T *, const float *, const T *, const T *, size_t columns)
    {
        store_sums(chunk, column, first, second, partials, columns);
    }
};

/* g = (g [+ other]) where y > 0, in place: the gradient of a block's output, which its shortcut needs too. */
template <bool TWO> struct GatedSums {
    static constexpr int PASSES = 1;
    template <class T>
    static DEVICE void prepare(size_t column, Spot &spot, float *, T *, const T *, const T *, const T *, const float *saved,
                               size_t)
    {
        spot.mean = saved[column];
    }
    template <int PASS, class T>
    static DEVICE void term(size_t index, Spot spot, float &first, float &second, float *, T *g, const T *other, const T *y,
                            const T *x, const float *, size_t)
    {
        float value = g[index];
        if (TWO)
            value += other[index];
        value = gated(value, y[index]);
        g[index] = value;
        first += value;
        second += value * (x[index] - spot.mean);
    }
    template <class T>
    static DEVICE void finish(size_t chunk, size_t column, size_t, float first, float second, float *partials, T *, const T *,
                              const T *, const T *, const float *, size_t columns)
    {
        store_sums(chunk, column, first, second, partials, columns);
    }
};

struct Fold {
    template <class Group, class T>
    static DEVICE void row(size_t column, Group group, float *sums, T *d_weight, T *d_bias, const float *partials,
                           size_t chunks, const float *saved, size_t columns, int accumulate)
    {
        float first = 0, second = 0;
        if (!group.first())
            return;
        for (size_t chunk = 0; chunk < chunks; chunk++) {
            first += partials[chunk * 2 * columns + column];
            second += partials[chunk * 2 * columns + columns + column];
        }
        sums[column] = first;
        sums[columns + column] = second;
        const float to_weight = second * saved[columns + column];
        d_weight[column] = accumulate ? d_weight[column] + to_weight : to_weight;
        d_bias[column] = accumulate ? d_bias[column] + first : first;
    }
};

/* dx = w s (g - sum g / n - (x - mean) s^2 sum g (x - mean) / n), s = 1 / deviation: sums become the two factors
 * w s sum g / n and w s^3 sum g (x - mean) / n. */
struct Coefficients {
    template <class Group, class T>
    static DEVICE void row(size_t column, Group group, float *sums, const float *saved, const T *weight, size_t columns)
    {
        if (!group.first())
            return;
        const float count = saved[2 * columns], deviation = saved[columns + column];
        const float factor = count > 0 ? deviation * weight[column] / count : 0.0f;
        sums[column] *= factor;
        sums[columns + column] *= factor * deviation * deviation;
    }
};

struct Apply {
    template <class X>
    static DEVICE void element(X &dx, float g, float x, float mean, float deviation, float weight, float of_g, float of_x)
    {
        dx = deviation * weight * g - of_g - (x - mean) * of_x;
    }
};

struct ApplyRelu {
    template <class X>
    static DEVICE void element(X &dx, float dy, float x, float mean, float deviation, float weight, float of_g, float of_x,
                               float bias)
    {
        const float factor = deviation * weight, distance = x - mean;
        dx = factor * gated(dy, distance * factor + bias) - of_g - distance * of_x;
    }
};

size_t chunk_rows(size_t rows, size_t columns)
{
    const size_t most = kernel_batch_norm_chunks_most(rows, columns);
    return most ? (rows + most - 1) / most : 1;
}

} // namespace

cudaError_t kernel_batch_norm_sums(enum element_type type, float *partials, const void *dy, const void *x, const float *saved,
                                   const void *weight, const void *bias, size_t rows, size_t columns, cudaStream_t stream)
{
    const size_t n = rows * columns, chunks = kernel_batch_norm_chunks(rows, columns);
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        const Cost cost = {"batch_norm_sums", 6.0 * n, 2.0 * sizeof(T) * n};
        const auto launch_sums = [&](auto kernel) {
            return launch_chunks<decltype(kernel)>(cost, stream, rows, columns, chunk_rows(rows, columns),
                                                   out(partials, 2 * chunks * columns), in(static_cast<const T *>(dy), n),
                                                   in(static_cast<const T *>(x), n), in(saved, 2 * columns),
                                                   in(static_cast<const T *>(weight), columns),
                                                   in(static_cast<const T *>(bias), columns), value(columns));
        };
        return bias ? launch_sums(Sums<true>()) : launch_sums(Sums<false>());
    });
}

cudaError_t kernel_batch_norm_gated_sums(enum element_type type, float *partials, void *g, const void *other, const void *y,
                                         const void *x, const float *saved, size_t rows, size_t columns, cudaStream_t stream)
{
    const size_t n = rows * columns, chunks = kernel_batch_norm_chunks(rows, columns);
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        const Cost cost = {"batch_norm_gated_sums", 5.0 * n, (other ? 5.0 : 4.0) * sizeof(T) * n};
        const auto launch_sums = [&](auto kernel) {
            return launch_chunks<decltype(kernel)>(cost, stream, rows, columns, chunk_rows(rows, columns),
                                                   out(partials, 2 * chunks * columns), inout(static_cast<T *>(g), n),
                                                   in(static_cast<const T *>(other), n), in(static_cast<const T *>(y), n),
                                                   in(static_cast<const T *>(x), n), in(saved, columns), value(columns));
        };
        return other ? launch_sums(GatedSums<true>()) : launch_sums(GatedSums<false>());
    });
}

cudaError_t kernel_batch_norm_fold(enum element_type type, float *sums, void *d_weight, void *d_bias, const float *partials,
                                   size_t rows, const float *saved, size_t columns, int accumulate, cudaStream_t stream)
{
    const size_t chunks = kernel_batch_norm_chunks(rows, columns), n = 2 * chunks * columns;
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        return launch_rows<Fold>({"batch_norm_fold", 1.0 * n, 4.0 * n}, stream, columns, 1, out(sums, 2 * columns),
                                 inout(static_cast<T *>(d_weight), columns), inout(static_cast<T *>(d_bias), columns),
                                 in(partials, n), value(chunks), in(saved, 2 * columns), value(columns), value(accumulate));
    });
}

cudaError_t kernel_batch_norm_coefficients(enum element_type type, float *sums, const float *saved, const void *weight,
                                           size_t columns, cudaStream_t stream)
{
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        return launch_rows<Coefficients>({"batch_norm_coefficients", 6.0 * columns, 24.0 * columns}, stream, columns, 1,
                                         inout(sums, 2 * columns), in(saved, 2 * columns + 1),
                                         in(static_cast<const T *>(weight), columns), value(columns));
    });
}

cudaError_t kernel_batch_norm_apply(enum element_type type, void *dx, const void *dy, const void *x, const float *saved,
                                    const void *weight, const void *bias, const float *coefficients, size_t rows,
                                    size_t columns, cudaStream_t stream)
{
    const size_t n = rows * columns;
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        const Cost cost = {"batch_norm_apply", 7.0 * n, 3.0 * sizeof(T) * n};
        const auto d = out(static_cast<T *>(dx), n);
        const auto g = in(static_cast<const T *>(dy), n), at = in(static_cast<const T *>(x), n);
        const auto mean = by_column(saved, columns), deviation = by_column(saved + columns, columns);
        const auto of_g = by_column(coefficients, columns), of_x = by_column(coefficients + columns, columns);
        const auto scale = by_column(static_cast<const T *>(weight), columns);
        if (bias)
            return launch_matrix<ApplyRelu>(cost, stream, rows, columns, d, g, at, mean, deviation, scale, of_g, of_x,
                                            by_column(static_cast<const T *>(bias), columns));
        return launch_matrix<Apply>(cost, stream, rows, columns, d, g, at, mean, deviation, scale, of_g, of_x);
    });
}
