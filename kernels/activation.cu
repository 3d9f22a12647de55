/* SPDX-License-Identifier: MIT
 *
 * Bias and activations. A layer's forward is y = x W^T by cuBLAS, then one pass here: bias and ReLU together.
 */
#include "kernels/kernel_math.h"

using namespace kernel;

namespace {

struct Bias {
    static DEVICE void element(float &y, float bias) { y += bias; }
};

/* NaN goes through, as in PyTorch: `x < 0` is false for it. */
DEVICE float relu(float x) { return x < 0.0f ? 0.0f : x; }

struct BiasRelu {
    static DEVICE void element(float &y, float bias) { y = relu(y + bias); }
};

struct ReluForward {
    static DEVICE void element(float &y, float x) { y = relu(x); }
};

struct ReluBackward {
    static DEVICE void element(float &dx, float dy, float y) { dx = y > 0.0f ? dy : 0.0f; }
};

/* 0.5 (1 + tanh u) = sigmoid(2 u), so GELU is x times a sigmoid; u = sqrt(2/pi) (x + 0.044715 x^3). */
constexpr float ROOT_2_PI = 0.7978845608028654f;
constexpr float CUBIC = 0.044715f;

/* Beyond +-15 the sigmoid is 0 or 1 to the last bit, and bounds keep 0 * inf out of huge inputs; NaN passes both. */
DEVICE float gelu_bounded(float x)
{
    x = x > 15.0f ? 15.0f : x;
    return x < -15.0f ? -15.0f : x;
}

DEVICE float gelu_sigmoid(float x) { return sigmoid(2.0f * ROOT_2_PI * (x + CUBIC * x * x * x)); }

struct GeluForward {
    static DEVICE void element(float &y, float x)
    {
        const float s = gelu_sigmoid(gelu_bounded(x));
        y = (x < -15.0f ? -15.0f : x) * s; /* -inf gives its limit, -0 */
    }
};

struct GeluBackward {
    static DEVICE void element(float &dx, float dy, float x)
    {
        const float b = gelu_bounded(x);
        const float s = gelu_sigmoid(b);
        const float slope = 2.0f * ROOT_2_PI * (1.0f + 3.0f * CUBIC * b * b); /* d(2u)/dx */
        dx = dy * (s + b * s * (1.0f - s) * slope);
    }
};

} // namespace

cudaError_t kernel_bias(float *y, const float *bias, size_t rows, size_t columns, cudaStream_t stream)
{
    const size_t n = rows * columns;
    return launch_matrix<Bias>({"bias", 1.0 * n, 8.0 * n + 4.0 * columns}, stream, rows, columns, inout(y, n),
                               by_column(bias, columns));
}

cudaError_t kernel_bias_relu(float *y, const float *bias, size_t rows, size_t columns, cudaStream_t stream)
{
    const size_t n = rows * columns;
    return launch_matrix<BiasRelu>({"bias_relu", 2.0 * n, 8.0 * n + 4.0 * columns}, stream, rows, columns, inout(y, n),
                                   by_column(bias, columns));
}

cudaError_t kernel_relu_forward(float *y, const float *x, size_t n, cudaStream_t stream)
{
    return launch_elements<ReluForward>({"relu_forward", 1.0 * n, 8.0 * n}, stream, n, out(y, n), in(x, n));
}

cudaError_t kernel_relu_backward(float *dx, const float *dy, const float *y, size_t n, cudaStream_t stream)
{
    return launch_elements<ReluBackward>({"relu_backward", 1.0 * n, 12.0 * n}, stream, n, out(dx, n), in(dy, n), in(y, n));
}

/* FLOPs: 6 for u, about 20 for the exponential, 4 for the rest. */
cudaError_t kernel_gelu_forward(float *y, const float *x, size_t n, cudaStream_t stream)
{
    return launch_elements<GeluForward>({"gelu_forward", 30.0 * n, 8.0 * n}, stream, n, out(y, n), in(x, n));
}

cudaError_t kernel_gelu_backward(float *dx, const float *dy, const float *x, size_t n, cudaStream_t stream)
{
    return launch_elements<GeluBackward>({"gelu_backward", 40.0 * n, 12.0 * n}, stream, n, out(dx, n), in(dy, n), in(x, n));
}
