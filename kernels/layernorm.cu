/* SPDX-License-Identifier: MIT
 *
 * LayerNorm over the rows of x[rows][columns], with the sum before it: what a layer adds to the residual stream is added here,
 * where the row is in the cache (or in registers) anyway.
 *
 *     y = xhat gamma + beta,  xhat = (x - mean) rstd,  rstd = 1 / sqrt(variance + epsilon), the variance of the whole row
 *     dx = rstd (g - mean(g) - xhat mean(g xhat)),  g = gamma dy;  dgamma = sum dy xhat, dbeta = sum dy over the rows
 */
#include "kernels/kernel_math.h"

using namespace kernel;

namespace {

/* x is rounded to its type before its mean is taken: the backward pass reads that x again. */
struct LayernormForward {
    template <class Group, class T>
    static DEVICE void row(size_t row, Group group, T *y_rows, float *mean, float *rstd, T *x_rows, const T *residual_rows,
                           const T *bias, const T *gamma, const T *beta, size_t columns, float epsilon)
    {
        T *x = x_rows + row * columns, *y = y_rows + row * columns;
        float sum;
        if (residual_rows) {
            const T *residual = residual_rows + row * columns;
            sum = group.sum(columns, [=](size_t i) { return store(x[i], residual[i] + (x[i] + bias[i])); });
        } else {
            sum = group.sum(columns, [=](size_t i) -> float { return x[i]; });
        }
        const float middle = sum / static_cast<float>(columns);
        const float squares = group.sum(columns, [=](size_t i) { return (x[i] - middle) * (x[i] - middle); });
        const float scale = 1.0f / sqrtf(squares / static_cast<float>(columns) + epsilon);
        if (group.first()) {
            mean[row] = middle;
            rstd[row] = scale;
        }
        group.each(columns, [=](size_t i) { y[i] = (x[i] - middle) * scale * gamma[i] + beta[i]; });
    }
};

struct LayernormBackward {
    template <class Group, class T>
    static DEVICE void row(size_t row, Group group, T *dx_rows, const T *dy_rows, const T *x_rows, const float *mean,
                           const float *rstd, const T *gamma, size_t columns, int accumulate)
    {
        const T *dy = dy_rows + row * columns, *x = x_rows + row * columns;
        T *dx = dx_rows + row * columns;
        const float middle = mean[row], scale = rstd[row], share = 1.0f / static_cast<float>(columns);
        const float g = group.sum(columns, [=](size_t i) { return gamma[i] * dy[i]; }) * share;
        const float along =
            group.sum(columns, [=](size_t i) { return gamma[i] * dy[i] * ((x[i] - middle) * scale); }) * share;
        if (accumulate)
            group.each(columns, [=](size_t i) {
                dx[i] = dx[i] + scale * (gamma[i] * dy[i] - g - (x[i] - middle) * scale * along);
            });
        else
            group.each(columns,
                       [=](size_t i) { dx[i] = scale * (gamma[i] * dy[i] - g - (x[i] - middle) * scale * along); });
    }
};

struct LayernormParameters {
    template <class T>
    static DEVICE Pair term(size_t row, size_t index, T *, T *, const T *dy, const T *x, const float *mean,
                            const float *rstd, int)
    {
        const float d = dy[index];
        return {d * ((x[index] - mean[row]) * rstd[row]), d};
    }
    template <class T>
    static DEVICE void finish(size_t column, Pair sums, T *dgamma, T *dbeta, const T *, const T *, const float *, const float *,
                              int accumulate)
    {
        dgamma[column] = accumulate ? dgamma[column] + sums.first : sums.first;
        dbeta[column] = accumulate ? dbeta[column] + sums.second : sums.second;
    }
};

} // namespace

cudaError_t kernel_layernorm_forward(enum element_type type, void *y, float *mean, float *rstd, void *x, const void *residual,
                                     const void *bias, const void *gamma, const void *beta, size_t rows, size_t columns,
                                     float epsilon, cudaStream_t stream)
{
    const size_t n = rows * columns;
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        const double bytes = sizeof(T) * ((residual ? 4.0 : 2.0) * n + 3.0 * columns) + 8.0 * rows;
        return launch_rows<LayernormForward>(
            {"layernorm_forward", (residual ? 10.0 : 8.0) * n, bytes}, stream, rows, columns, out(static_cast<T *>(y), n),
            out(mean, rows), out(rstd, rows), inout(static_cast<T *>(x), n), in(static_cast<const T *>(residual), n),
            in(static_cast<const T *>(bias), columns), in(static_cast<const T *>(gamma), columns),
            in(static_cast<const T *>(beta), columns), value(columns), value(epsilon));
    });
}

cudaError_t kernel_layernorm_backward(enum element_type type, void *dx, const void *dy, const void *x, const float *mean,
                                      const float *rstd, const void *gamma, size_t rows, size_t columns, int accumulate,
                                      cudaStream_t stream)
{
    const size_t n = rows * columns;
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        const double bytes = sizeof(T) * ((accumulate ? 4.0 : 3.0) * n + columns) + 8.0 * rows;
        return launch_rows<LayernormBackward>(
            {"layernorm_backward", 16.0 * n, bytes}, stream, rows, columns, inout(static_cast<T *>(dx), n),
            in(static_cast<const T *>(dy), n), in(static_cast<const T *>(x), n), in(mean, rows), in(rstd, rows),
            in(static_cast<const T *>(gamma), columns), value(columns), value(accumulate));
    });
}

cudaError_t kernel_layernorm_parameters(enum element_type type, void *dgamma, void *dbeta, const void *dy, const void *x,
                                        const float *mean, const float *rstd, size_t rows, size_t columns, int accumulate,
                                        cudaStream_t stream)
{
    const size_t n = rows * columns;
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        return launch_column_pairs<LayernormParameters>(
            {"layernorm_parameters", 5.0 * n, sizeof(T) * (2.0 * n + 2.0 * columns) + 8.0 * rows}, stream, rows, columns,
            inout(static_cast<T *>(dgamma), columns), inout(static_cast<T *>(dbeta), columns),
            in(static_cast<const T *>(dy), n), in(static_cast<const T *>(x), n), in(mean, rows), in(rstd, rows),
            value(accumulate));
    });
}
