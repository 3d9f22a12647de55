/* SPDX-License-Identifier: MIT
 *
 * Sums. No float atomics anywhere: each sum has one order, that of kernel.h's idiom for its shape.
 */
#include "kernels/kernel.h"

using namespace kernel;

namespace {

struct ColumnSums {
    template <class T> static DEVICE float term(size_t index, T *, const T *x, int) { return x[index]; }
    template <class T> static DEVICE void finish(size_t column, float sum, T *out, const T *, int accumulate)
    {
        out[column] = accumulate ? out[column] + sum : sum;
    }
};

/* One long row: a single block on a GPU. Meant for the losses of a batch, not for millions. */
struct Sum {
    template <class Group> static DEVICE void row(size_t, Group group, float *out, const float *x, size_t n)
    {
        const float sum = group.sum(n, [=](size_t i) { return x[i]; });
        if (group.first())
            out[0] = sum;
    }
};

} // namespace

cudaError_t kernel_column_sums(enum element_type type, void *out, const void *x, size_t rows, size_t columns, int accumulate,
                               cudaStream_t stream)
{
    const size_t n = rows * columns;
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        return launch_columns<ColumnSums>({"column_sums", 1.0 * n, sizeof(T) * (1.0 * n + columns)}, stream, rows, columns,
                                          inout(static_cast<T *>(out), columns), in(static_cast<const T *>(x), n),
                                          value(accumulate));
    });
}

cudaError_t kernel_sum(float *out, const float *x, size_t n, cudaStream_t stream)
{
    return launch_rows<Sum>({"sum", 1.0 * n, 4.0 * n + 4.0}, stream, 1, n, kernel::out(out, 1), in(x, n), value(n));
}
