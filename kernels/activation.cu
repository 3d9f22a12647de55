/* SPDX-License-Identifier: MIT
 *
 * Bias and activations. A layer's forward is y = x W^T by cuBLAS, then one pass here: bias and ReLU together.
 */
#include "kernels/kernel_math.h"

using namespace kernel;

namespace {

struct Bias {
    template <class Y> static DEVICE void element(Y &y, float bias) { y = y + bias; }
};

struct BiasRelu {
    template <class Y> static DEVICE void element(Y &y, float bias) { y = relu(y + bias); }
};

struct ReluForward {
    template <class Y> static DEVICE void element(Y &y, float x) { y = relu(x); }
};

struct ReluBackward {
    template <class Y> static DEVICE void element(Y &dx, float dy, float y) { dx = gated(dy, y); }
};

/* 0.5 (1 + tanh u) = sigmoid(2 u), so GELU is x times a sigmoid; u = sqrt(2/pi) (x + 0.044715 x^3). */
constexpr float ROOT_2_PI = 0.7978845608028654f;
constexpr float CUBIC = 0.044715f;

/* Beyond +-10.6 the sigmoid is 0 or 1 to the last bit, and 2 u is beyond +-101. Bounds keep 0 * inf out of huge inputs, which give
 * their limits; NaN passes both. By bits: what follows a choice of a constant would be worked out for each of its branches. */
constexpr float GELU_BOUND = 10.6f;

DEVICE float gelu_below(float x)
{
    const uint32_t over = 0u - static_cast<uint32_t>(x > GELU_BOUND);
    return bits_float((float_bits(GELU_BOUND) & over) | (float_bits(x) & ~over));
}

DEVICE float gelu_above(float x)
{
    const uint32_t under = 0u - static_cast<uint32_t>(x < -GELU_BOUND);
    return bits_float((float_bits(-GELU_BOUND) & under) | (float_bits(x) & ~under));
}

/* For x within the bounds. */
DEVICE float gelu_sigmoid(float x) { return sigmoid_bounded(2.0f * ROOT_2_PI * (x + CUBIC * x * x * x)); }

DEVICE float gelu(float x)
{
    x = gelu_above(x);
    return x * gelu_sigmoid(gelu_below(x)); /* -inf gives its limit, -0 */
}

struct GeluForward {
    template <class Y> static DEVICE void element(Y &y, float x) { y = gelu(x); }
};

/* x + bias is kept: the backward pass needs it. */
struct BiasGelu {
    template <class Y> static DEVICE void element(Y &y, Y &x, float bias) { y = gelu(store(x, x + bias)); }
};

struct GeluBackward {
    template <class Y> static DEVICE void element(Y &dx, float dy, float x)
    {
        const float b = gelu_above(gelu_below(x));
        const float s = gelu_sigmoid(b);
        const float slope = 2.0f * ROOT_2_PI * (1.0f + 3.0f * CUBIC * b * b); /* d(2u)/dx */
        dx = dy * (s + b * s * (1.0f - s) * slope);
    }
};

} // namespace

/* A pass over y[rows][columns] with a bias. */
template <class K>
static cudaError_t launch_bias(const char *name, double flops, enum element_type type, void *y, const void *bias, size_t rows,
                               size_t columns, cudaStream_t stream)
{
    const size_t n = rows * columns;
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        const double bytes = sizeof(T) * (2.0 * n + columns);
        return launch_matrix<K>({name, flops * n, bytes}, stream, rows, columns, inout(static_cast<T *>(y), n),
                                by_column(static_cast<const T *>(bias), columns));
    });
}

/* y from x, and dx from dy and the x (or y) of the forward pass. */
template <class K>
static cudaError_t launch_forward(const char *name, double flops, enum element_type type, void *y, const void *x, size_t n,
                                  cudaStream_t stream)
{
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        return launch_elements<K>({name, flops * n, 2.0 * sizeof(T) * n}, stream, n, out(static_cast<T *>(y), n),
                                  in(static_cast<const T *>(x), n));
    });
}

template <class K>
static cudaError_t launch_backward(const char *name, double flops, enum element_type type, void *dx, const void *dy,
                                   const void *x, size_t n, cudaStream_t stream)
{
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        return launch_elements<K>({name, flops * n, 3.0 * sizeof(T) * n}, stream, n, out(static_cast<T *>(dx), n),
                                  in(static_cast<const T *>(dy), n), in(static_cast<const T *>(x), n));
    });
}

cudaError_t kernel_bias(enum element_type type, void *y, const void *bias, size_t rows, size_t columns, cudaStream_t stream)
{
    return launch_bias<Bias>("bias", 1, type, y, bias, rows, columns, stream);
}

cudaError_t kernel_bias_relu(enum element_type type, void *y, const void *bias, size_t rows, size_t columns,
                             cudaStream_t stream)
{
    return launch_bias<BiasRelu>("bias_relu", 2, type, y, bias, rows, columns, stream);
}

cudaError_t kernel_relu_forward(enum element_type type, void *y, const void *x, size_t n, cudaStream_t stream)
{
    return launch_forward<ReluForward>("relu_forward", 1, type, y, x, n, stream);
}

cudaError_t kernel_relu_backward(enum element_type type, void *dx, const void *dy, const void *y, size_t n,
                                 cudaStream_t stream)
{
    return launch_backward<ReluBackward>("relu_backward", 1, type, dx, dy, y, n, stream);
}

cudaError_t kernel_bias_gelu(enum element_type type, void *y, void *x, const void *bias, size_t rows, size_t columns,
                             cudaStream_t stream)
{
    const size_t n = rows * columns;
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        const double bytes = sizeof(T) * (3.0 * n + columns);
        return launch_matrix<BiasGelu>({"bias_gelu", 31.0 * n, bytes}, stream, rows, columns, out(static_cast<T *>(y), n),
                                       inout(static_cast<T *>(x), n), by_column(static_cast<const T *>(bias), columns));
    });
}

/* FLOPs: 6 for u, about 20 for the exponential, 4 for the rest. */
cudaError_t kernel_gelu_forward(enum element_type type, void *y, const void *x, size_t n, cudaStream_t stream)
{
    return launch_forward<GeluForward>("gelu_forward", 30, type, y, x, n, stream);
}

cudaError_t kernel_gelu_backward(enum element_type type, void *dx, const void *dy, const void *x, size_t n,
                                 cudaStream_t stream)
{
    return launch_backward<GeluBackward>("gelu_backward", 40, type, dx, dy, x, n, stream);
}
