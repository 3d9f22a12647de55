/* SPDX-License-Identifier: MIT
 *
 * BatchNorm's forward pass over rows x columns (NHWC: a row a pixel, a column a channel), its ReLU and residual addition
 * fused in; the backward pass is in batch_norm_backward.cu.
 *
 *     statistics (a pass over x)    combine, or finish    normalise (x [, residual] -> y)
 *
 * Variances are taken about the mean of a chunk of rows, in a second pass that finds the chunk in the cache, and chunks
 * are combined by counts (Chan, Golub, LeVeque 1979), so a mean far from 0 does no harm. Everything per column is float.
 * Layout of statistics: mean [C], sum of squared deviations [C], count [1]. Of saved: mean [C], 1 / deviation [C], count.
 */
#include "kernels/kernel_chunks.h"
#include "kernels/kernel_math.h"

#include <cmath>

using namespace kernel;

namespace {

struct Statistics {
    static constexpr int PASSES = 2;
    template <class... Raw> static DEVICE void prepare(size_t, Spot &, Raw...) {}
    template <int PASS, class T>
    static DEVICE void term(size_t index, Spot spot, float &first, float &second, float *, const T *x, size_t)
    {
        const float value = x[index];
        if (PASS == 1) {
            first += value;
        } else {
            const float distance = value - spot.mean;
            second += distance * distance;
        }
    }
    template <class T>
    static DEVICE void finish(size_t chunk, size_t column, size_t rows, float first, float second, float *partials, const T *,
                              size_t columns)
    {
        float *mine = partials + chunk * (2 * columns + 1);
        mine[column] = first / static_cast<float>(rows);
        mine[columns + column] = second;
        if (column == 0)
            mine[2 * columns] = static_cast<float>(rows);
    }
};

/* One column of all parts: count, mean and sum of squared deviations of the whole. */
struct Whole {
    float count, mean, squares;
};

DEVICE Whole combined(size_t column, const float *parts, size_t part_count, size_t columns)
{
    Whole whole = {0, 0, 0};
    for (size_t part = 0; part < part_count; part++) {
        const float *one = parts + part * (2 * columns + 1);
        const float count = one[2 * columns];
        if (!(count > 0))
            continue;
        const float sum = whole.count + count, distance = one[column] - whole.mean;
        whole.mean += distance * (count / sum);
        whole.squares += one[columns + column] + distance * distance * (whole.count * (count / sum));
        whole.count = sum;
    }
    return whole;
}

struct Combine {
    template <class Group>
    static DEVICE void row(size_t column, Group group, float *out, const float *parts, size_t part_count, size_t columns)
    {
        if (!group.first())
            return;
        const Whole whole = combined(column, parts, part_count, columns);
        out[column] = whole.mean;
        out[columns + column] = whole.squares;
        if (column == 0)
            out[2 * columns] = whole.count;
    }
};

/* Without any row (no rank had one) running statistics stay. One row has no unbiased variance; it counts as 0. */
struct Finish {
    template <class Group>
    static DEVICE void row(size_t column, Group group, float *saved, float *running_mean, float *running_variance,
                           const float *parts, size_t part_count, size_t columns, float momentum, float epsilon)
    {
        if (!group.first())
            return;
        const Whole whole = combined(column, parts, part_count, columns);
        const bool any = whole.count > 0;
        saved[column] = whole.mean;
        saved[columns + column] = 1.0f / sqrtf((any ? whole.squares / whole.count : 0.0f) + epsilon);
        if (column == 0)
            saved[2 * columns] = whole.count;
        if (!any)
            return;
        const float unbiased = whole.squares / (whole.count > 1.0f ? whole.count - 1.0f : 1.0f);
        running_mean[column] += momentum * (whole.mean - running_mean[column]);
        running_variance[column] += momentum * (unbiased - running_variance[column]);
    }
};

struct FromRunning {
    template <class Group>
    static DEVICE void row(size_t column, Group group, float *saved, const float *mean, const float *variance,
                           size_t columns, float epsilon)
    {
        if (!group.first())
            return;
        saved[column] = mean[column];
        saved[columns + column] = 1.0f / sqrtf(variance[column] + epsilon);
        if (column == 0)
            saved[2 * columns] = 0;
    }
};

DEVICE float normal(float x, float mean, float deviation, float weight, float bias)
{
    return (x - mean) * (deviation * weight) + bias;
}

struct Normalise {
    template <class Y>
    static DEVICE void element(Y &y, float x, float mean, float deviation, float weight, float bias)
    {
        y = normal(x, mean, deviation, weight, bias);
    }
};

struct NormaliseRelu {
    template <class Y>
    static DEVICE void element(Y &y, float x, float mean, float deviation, float weight, float bias)
    {
        y = relu(normal(x, mean, deviation, weight, bias));
    }
};

struct NormaliseAddRelu {
    template <class Y>
    static DEVICE void element(Y &y, float x, float mean, float deviation, float weight, float bias, float residual)
    {
        y = relu(normal(x, mean, deviation, weight, bias) + residual);
    }
};

size_t chunk_rows(size_t rows, size_t columns)
{
    const size_t most = kernel_batch_norm_chunks_most(rows, columns);
    return most ? (rows + most - 1) / most : 1;
}

} // namespace

cudaError_t kernel_batch_norm_statistics(enum element_type type, float *partials, const void *x, size_t rows, size_t columns,
                                         cudaStream_t stream)
{
    const size_t n = rows * columns, chunks = kernel_batch_norm_chunks(rows, columns);
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        return launch_chunks<Statistics>({"batch_norm_statistics", 4.0 * n, 1.0 * sizeof(T) * n}, stream, rows, columns,
                                         chunk_rows(rows, columns), out(partials, chunks * (2 * columns + 1)),
                                         in(static_cast<const T *>(x), n), value(columns));
    });
}

cudaError_t kernel_batch_norm_combine(float *statistics, const float *parts, size_t part_count, size_t columns,
                                      cudaStream_t stream)
{
    const size_t n = part_count * (2 * columns + 1);
    return launch_rows<Combine>({"batch_norm_combine", 8.0 * n, 4.0 * n}, stream, columns, 1, out(statistics, 2 * columns + 1),
                                in(parts, n), value(part_count), value(columns));
}

cudaError_t kernel_batch_norm_finish(float *saved, float *running_mean, float *running_variance, const float *parts,
                                     size_t part_count, size_t columns, float momentum, float epsilon, cudaStream_t stream)
{
    const size_t n = part_count * (2 * columns + 1);
    return launch_rows<Finish>({"batch_norm_finish", 8.0 * n, 4.0 * n}, stream, columns, 1, out(saved, 2 * columns + 1),
                               inout(running_mean, columns), inout(running_variance, columns), in(parts, n),
                               value(part_count), value(columns), value(momentum), value(epsilon));
}

cudaError_t kernel_batch_norm_from_running(float *saved, const float *running_mean, const float *running_variance,
                                           size_t columns, float epsilon, cudaStream_t stream)
{
    return launch_rows<FromRunning>({"batch_norm_from_running", 3.0 * columns, 16.0 * columns}, stream, columns, 1,
                                    out(saved, 2 * columns + 1), in(running_mean, columns), in(running_variance, columns),
                                    value(columns), value(epsilon));
}

template <class K, class T, class... More>
static cudaError_t launch_normalise(double flops, double reads, void *y, const void *x, const float *saved,
                                    const void *weight, const void *bias, size_t rows, size_t columns, cudaStream_t stream,
                                    More... more)
{
    const size_t n = rows * columns;
    const Cost cost = {"batch_norm_normalise", flops * n, (reads + 1) * sizeof(T) * n};
    return launch_matrix<K>(cost, stream, rows, columns, out(static_cast<T *>(y), n), in(static_cast<const T *>(x), n),
                            by_column(saved, columns), by_column(saved + columns, columns),
                            by_column(static_cast<const T *>(weight), columns),
                            by_column(static_cast<const T *>(bias), columns), more...);
}

cudaError_t kernel_batch_norm_normalise(enum element_type type, void *y, const void *x, const void *residual,
                                        const float *saved, const void *weight, const void *bias, size_t rows,
                                        size_t columns, int with_relu, cudaStream_t stream)
{
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        if (residual)
            return launch_normalise<NormaliseAddRelu, T>(6, 2, y, x, saved, weight, bias, rows, columns, stream,
                                                         in(static_cast<const T *>(residual), rows * columns));
        if (with_relu)
            return launch_normalise<NormaliseRelu, T>(5, 1, y, x, saved, weight, bias, rows, columns, stream);
        return launch_normalise<Normalise, T>(4, 1, y, x, saved, weight, bias, rows, columns, stream);
    });
}
