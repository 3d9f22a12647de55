/* SPDX-License-Identifier: MIT
 *
 * The cell of torch.nn.LSTM, one step in time. The products are cuBLAS's; here is what stands between them, one pass forward and
 * one back, a row a sample:
 *
 *     i, f, o = sigmoid(a_i), ...;  g = tanh(a_g);  a = x W_ih^T + h' W_hh^T + b_ih + b_hh
 *     c = f c' + i g;  h = o tanh c                                        (c', h' of the step before)
 *
 *     s = dc + dh o (1 - tanh^2 c)                                         dc: from the step behind
 *     da_i = s g i (1 - i);  da_f = s c' f (1 - f);  da_g = s i (1 - g^2);  da_o = dh tanh c o (1 - o);  dc' = s f
 *
 * c and its gradient are fp32 in all types: c is a sum over time, and 8 or 11 bits lose what a step adds to it. tanh c is computed
 * again on the way back, which costs less than keeping it.
 */
#include "kernels/kernel_math.h"

using namespace kernel;

namespace {

/* A function costs about 20 FLOPs for its exponential; a sigmoid 3 more, a tanh 14 more. */
constexpr double SIGMOID = 23, TANH = 34;
constexpr double FORWARD = 3 * SIGMOID + 2 * TANH + 8 + 4; /* an element of h: biases, then c and h */
constexpr double BACKWARD = TANH + 24;

struct LstmForward {
    template <class Group, class T>
    static DEVICE void row(size_t row, Group group, T *gate_rows, float *c_rows, T *h_rows, T *out_rows, const float *before_rows,
                           const T *bias_ih, const T *bias_hh, size_t columns, size_t stride)
    {
        T *gates = gate_rows + 4 * row * columns, *h = h_rows + row * columns, *out = out_rows + row * stride;
        float *c = c_rows + row * columns;
        const float *before = before_rows + row * columns;
        const auto input = [=](size_t i) { return gates[i] + (bias_ih[i] + bias_hh[i]); };
        group.each(columns, [=](size_t k) {
            const float i = sigmoid(input(k)), f = sigmoid(input(columns + k));
            const float g = hyperbolic_tangent(input(2 * columns + k)), o = sigmoid(input(3 * columns + k));
            const float state = f * before[k] + i * g;
            gates[k] = i;
            gates[columns + k] = f;
            gates[2 * columns + k] = g;
            gates[3 * columns + k] = o;
            c[k] = state;
            const T shown = o * hyperbolic_tangent(state);
            h[k] = shown;
            out[k] = shown;
        });
    }
};

struct LstmBackward {
    template <class T>
    static DEVICE void element(size_t k, size_t columns, T *gates, float *dc, float along, float dh, float c, float before)
    {
        const float i = gates[k], f = gates[columns + k], g = gates[2 * columns + k], o = gates[3 * columns + k];
        const float t = hyperbolic_tangent(c);
        const float s = along + dh * o * (1.0f - t * t);
        gates[k] = s * g * i * (1.0f - i);
        gates[columns + k] = s * before * f * (1.0f - f);
        gates[2 * columns + k] = s * i * (1.0f - g * g);
        gates[3 * columns + k] = dh * t * o * (1.0f - o);
        dc[k] = s * f;
    }

    template <class Group, class T>
    static DEVICE void row(size_t row, Group group, T *gate_rows, float *dc_rows, const float *c_rows, const float *before_rows,
                           const T *d_out_rows, const T *d_h_rows, size_t columns, size_t stride)
    {
        T *gates = gate_rows + 4 * row * columns;
        float *dc = dc_rows + row * columns;
        const float *c = c_rows + row * columns, *before = before_rows + row * columns;
        const T *d_out = d_out_rows + row * stride;
        if (d_h_rows) {
            const T *d_h = d_h_rows + row * columns;
            group.each(columns, [=](size_t k) { element(k, columns, gates, dc, dc[k], d_out[k] + d_h[k], c[k], before[k]); });
        } else {
            group.each(columns, [=](size_t k) { element(k, columns, gates, dc, 0.0f, d_out[k], c[k], before[k]); });
        }
    }
};

/* Row: one of y. */
struct TurnTokens {
    template <class Group>
    static DEVICE void row(size_t row, Group group, int32_t *y_rows, const int32_t *x, size_t rows, size_t columns)
    {
        int32_t *y = y_rows + row * rows;
        group.each(rows, [=](size_t i) { y[i] = x[i * columns + row]; });
    }
};

/* Elements from the first to the last of rows that begin every `stride`. */
size_t extent(size_t rows, size_t columns, size_t stride) { return rows ? (rows - 1) * stride + columns : 0; }

} // namespace

cudaError_t kernel_lstm_forward(enum element_type type, void *gates, float *c, void *h, void *out_rows, const float *c_before,
                                const void *bias_ih, const void *bias_hh, size_t rows, size_t columns, size_t stride,
                                cudaStream_t stream)
{
    const size_t n = rows * columns;
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        const double bytes = sizeof(T) * (10.0 * n + 8.0 * columns) + 8.0 * n;
        return launch_rows<LstmForward>({"lstm_forward", FORWARD * n, bytes}, stream, rows, columns,
                                        inout(static_cast<T *>(gates), 4 * n), out(c, n), out(static_cast<T *>(h), n),
                                        out(static_cast<T *>(out_rows), extent(rows, columns, stride)), in(c_before, n),
                                        in(static_cast<const T *>(bias_ih), 4 * columns),
                                        in(static_cast<const T *>(bias_hh), 4 * columns), value(columns), value(stride));
    });
}

cudaError_t kernel_lstm_backward(enum element_type type, void *gates, float *d_c, const float *c, const float *c_before,
                                 const void *d_out, const void *d_h, size_t rows, size_t columns, size_t stride,
                                 cudaStream_t stream)
{
    const size_t n = rows * columns;
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        const double bytes = sizeof(T) * (d_h ? 10.0 : 9.0) * n + (d_h ? 16.0 : 12.0) * n;
        return launch_rows<LstmBackward>({"lstm_backward", BACKWARD * n, bytes}, stream, rows, columns,
                                         inout(static_cast<T *>(gates), 4 * n), inout(d_c, n), in(c, n), in(c_before, n),
                                         in(static_cast<const T *>(d_out), extent(rows, columns, stride)),
                                         in(static_cast<const T *>(d_h), n), value(columns), value(stride));
    });
}

cudaError_t kernel_turn_tokens(int32_t *y, const int32_t *x, size_t rows, size_t columns, cudaStream_t stream)
{
    const size_t n = rows * columns;
    if (n == 0)
        return cudaSuccess;
    return launch_rows<TurnTokens>({"turn_tokens", 0, 8.0 * n}, stream, columns, rows, out(y, n), in(x, n), value(rows),
                                   value(columns));
}
