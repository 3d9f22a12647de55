/* SPDX-License-Identifier: MIT
 *
 * Fill, scale, copy, add, and casts between the types. All are bound by memory.
 */
#include "kernels/kernel_math.h"

using namespace kernel;

namespace {

struct Fill {
    static DEVICE void element(float &y, float value) { y = value; }
};

struct Scale {
    template <class Y> static DEVICE void element(Y &y, float factor) { y = y * factor; }
};

struct Accumulate {
    static DEVICE void element(float &sum, float x, int first) { sum = first ? x : sum + x; }
};

struct SumScale {
    template <class Y> static DEVICE void element(Y &y, float x, float sum, float factor) { y = factor * (sum + x); }
};

struct CopyScale {
    template <class Y> static DEVICE void element(Y &y, float x, float factor) { y = factor * x; }
};

struct Add {
    template <class Y> static DEVICE void element(Y &y, float x) { y = y + x; }
};

struct Cast {
    template <class Y, class X> static DEVICE void element(Y &y, X x) { y = static_cast<float>(x); }
};

} // namespace

cudaError_t kernel_fill(float *y, float value, size_t n, cudaStream_t stream)
{
    return launch_elements<Fill>({"fill", 0, 4.0 * n}, stream, n, out(y, n), kernel::value(value));
}

cudaError_t kernel_scale(enum element_type type, void *y, float factor, size_t n, cudaStream_t stream)
{
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        return launch_elements<Scale>({"scale", 1.0 * n, 2.0 * sizeof(T) * n}, stream, n, inout(static_cast<T *>(y), n),
                                      value(factor));
    });
}

cudaError_t kernel_accumulate(enum element_type type, float *sums, const void *x, int first, size_t n, cudaStream_t stream)
{
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        return launch_elements<Accumulate>({"accumulate", 1.0 * n, (8.0 + sizeof(T)) * n}, stream, n, inout(sums, n),
                                           in(static_cast<const T *>(x), n), value(first));
    });
}

cudaError_t kernel_sum_scale(enum element_type type, void *y, const void *x, const float *sums, float factor, size_t n,
                             cudaStream_t stream)
{
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        return launch_elements<SumScale>({"sum_scale", 2.0 * n, (4.0 + 2.0 * sizeof(T)) * n}, stream, n,
                                         out(static_cast<T *>(y), n), in(static_cast<const T *>(x), n), in(sums, n),
                                         value(factor));
    });
}

cudaError_t kernel_copy_scale(enum element_type type, void *y, const void *x, float factor, size_t n, cudaStream_t stream)
{
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        return launch_elements<CopyScale>({"copy_scale", 1.0 * n, 2.0 * sizeof(T) * n}, stream, n, out(static_cast<T *>(y), n),
                                          in(static_cast<const T *>(x), n), value(factor));
    });
}

cudaError_t kernel_add(enum element_type type, void *y, const void *x, size_t n, cudaStream_t stream)
{
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        return launch_elements<Add>({"add", 1.0 * n, 3.0 * sizeof(T) * n}, stream, n, inout(static_cast<T *>(y), n),
                                    in(static_cast<const T *>(x), n));
    });
}

cudaError_t kernel_cast(enum element_type to, void *y, enum element_type from, const void *x, size_t n, cudaStream_t stream)
{
    return with_type(to, [&](auto zero_y) {
        return with_type(from, [&](auto zero_x) {
            using Y = decltype(zero_y);
            using X = decltype(zero_x);
            return launch_elements<Cast>({"cast", 0, 1.0 * (sizeof(Y) + sizeof(X)) * n}, stream, n,
                                         out(static_cast<Y *>(y), n), in(static_cast<const X *>(x), n));
        });
    });
}
