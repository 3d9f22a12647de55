/* SPDX-License-Identifier: MIT
 *
 * Optimizer updates over flat buffers: torch.optim's SGD and AdamW, one launch for all parameters.
 */
#include "kernels/kernel.h"

#include <cmath>

using namespace kernel;

namespace {

struct Sgd {
    static DEVICE void element(float &p, float g, float lr, float decay) { p -= lr * (g + decay * p); }
};

struct SgdMomentum {
    static DEVICE void element(float &p, float g, float &m, float lr, float momentum, float decay, int first)
    {
        const float gradient = g + decay * p;
        m = first ? gradient : momentum * m + gradient;
        p -= lr * m;
    }
};

/* The bias corrections of step t, and 1 - beta, are computed once on the host, in double. */
struct AdamwFactors {
    float lr, decay_factor; /* 1 - lr decay */
    float beta1, rest1, beta2, rest2;
    float correction1, correction2; /* 1 / (1 - beta^t) */
    float epsilon;
};

struct Adamw {
    static DEVICE void element(float &p, float g, float &m, float &v, AdamwFactors f)
    {
        m = f.beta1 * m + f.rest1 * g;
        v = f.beta2 * v + f.rest2 * (g * g);
        p = p * f.decay_factor - f.lr * (m * f.correction1) / (sqrtf(v * f.correction2) + f.epsilon);
    }
};

} // namespace

cudaError_t kernel_sgd(float *p, const float *g, float *m, size_t n, float lr, float momentum, float decay, int first,
                       cudaStream_t stream)
{
    if (momentum == 0.0f)
        return launch_elements<Sgd>({"sgd", 4.0 * n, 12.0 * n}, stream, n, inout(p, n), in(g, n), value(lr), value(decay));
    return launch_elements<SgdMomentum>({"sgd_momentum", 6.0 * n, 20.0 * n}, stream, n, inout(p, n), in(g, n), inout(m, n),
                                        value(lr), value(momentum), value(decay), value(first));
}

cudaError_t kernel_adamw(float *p, const float *g, float *m, float *v, size_t n, float lr, float beta1, float beta2,
                         float epsilon, float decay, int t, cudaStream_t stream)
{
    AdamwFactors factors = {};
    factors.lr = lr;
    factors.decay_factor = static_cast<float>(1.0 - static_cast<double>(lr) * decay);
    factors.beta1 = beta1;
    factors.rest1 = static_cast<float>(1.0 - static_cast<double>(beta1));
    factors.beta2 = beta2;
    factors.rest2 = static_cast<float>(1.0 - static_cast<double>(beta2));
    factors.correction1 = static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(beta1), t)));
    factors.correction2 = static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(beta2), t)));
    factors.epsilon = epsilon;
    return launch_elements<Adamw>({"adamw", 14.0 * n, 28.0 * n}, stream, n, inout(p, n), in(g, n), inout(m, n), inout(v, n),
                                  value(factors));
}
