/* SPDX-License-Identifier: MIT
 *
 * Optimizer updates over flat buffers: torch.optim's SGD, Adam and AdamW, one launch for all parameters. Parameters and state
 * are floats; gradients and the working copy that the update writes have the model's type. What the update reads of
 * update_control.cu's decisions is the same for all elements.
 */
#include "kernels/kernel.h"

#include <cmath>

using namespace kernel;

namespace {

/* No control: gradients are taken as they are. */
struct Plain {};

DEVICE float gradient_of(Plain, float g) { return g; }
DEVICE float gradient_of(const update_control &control, float g) { return control.factor * g; }

/* A skipped update stores what is there. */
DEVICE float kept(Plain, float, float fresh) { return fresh; }
DEVICE float kept(const update_control &control, float old, float fresh) { return control.skip != 0.0f ? old : fresh; }

struct Sgd {
    template <class W, class C>
    static DEVICE void element(float &p, W &&working, float g, C control, float lr, float decay)
    {
        p = kept(control, p, p - lr * (gradient_of(control, g) + decay * p));
        working = p;
    }
};

struct SgdFactors {
    float lr, momentum, decay;
    int nesterov, first;
};

struct SgdMomentum {
    template <class W, class C>
    static DEVICE void element(float &p, W &&working, float g, C control, float &m, SgdFactors f)
    {
        const float gradient = gradient_of(control, g) + f.decay * p;
        const float fresh = f.first ? gradient : f.momentum * m + gradient;
        const float step = f.nesterov ? f.momentum * fresh + gradient : fresh;
        m = kept(control, m, fresh);
        p = kept(control, p, p - f.lr * step);
        working = p;
    }
};

/* The bias corrections of step t, and 1 - beta, are computed once on the host, in double. */
struct AdamFactors {
    float lr, decay, decay_factor; /* g + decay p (Adam); 1 - lr decay (AdamW) */
    float beta1, rest1, beta2, rest2;
    float correction1, correction2; /* 1 / (1 - beta^t) */
    float epsilon;
};

DEVICE float correction1(Plain, const AdamFactors &f) { return f.correction1; }
DEVICE float correction2(Plain, const AdamFactors &f) { return f.correction2; }
DEVICE float correction1(const update_control &control, const AdamFactors &) { return control.correction1; }
DEVICE float correction2(const update_control &control, const AdamFactors &) { return control.correction2; }

struct Adam {
    template <class W, class C>
    static DEVICE void element(float &p, W &&working, float g, C control, float &m, float &v, AdamFactors f)
    {
        const float gradient = gradient_of(control, g) + f.decay * p;
        const float m1 = f.beta1 * m + f.rest1 * gradient;
        const float v1 = f.beta2 * v + f.rest2 * (gradient * gradient);
        const float step = f.lr * (m1 * correction1(control, f)) / (sqrtf(v1 * correction2(control, f)) + f.epsilon);
        m = kept(control, m, m1);
        v = kept(control, v, v1);
        p = kept(control, p, p * f.decay_factor - step);
        working = p;
    }
};

/* Launches K with the update's own arguments in front. */
template <class K, class... Arguments>
cudaError_t launch_update(const char *name, double flops, double state_bytes, const struct update &u, cudaStream_t stream,
                          Arguments... arguments)
{
    const size_t n = u.n;
    return with_type(u.type, [&](auto zero) {
        using T = decltype(zero);
        const auto p = inout(u.p, n);
        const auto g = in(static_cast<const T *>(u.g), n);
        const auto working = out(static_cast<T *>(u.working), n);
        const Cost cost = {name, flops * n, (8.0 + state_bytes + sizeof(T) * (u.working ? 2.0 : 1.0)) * n};
        if (u.working && u.control)
            return launch_elements<K>(cost, stream, n, p, working, g, same(u.control), arguments...);
        if (u.working)
            return launch_elements<K>(cost, stream, n, p, working, g, value(Plain()), arguments...);
        if (u.control)
            return launch_elements<K>(cost, stream, n, p, nothing(), g, same(u.control), arguments...);
        return launch_elements<K>(cost, stream, n, p, nothing(), g, value(Plain()), arguments...);
    });
}

} // namespace

cudaError_t kernel_sgd(const struct update *update, float *m, float lr, float momentum, int nesterov, float decay, int first,
                       cudaStream_t stream)
{
    if (momentum == 0.0f)
        return launch_update<Sgd>("sgd", 4.0, 0.0, *update, stream, value(lr), value(decay));
    const SgdFactors factors = {lr, momentum, decay, nesterov, first};
    return launch_update<SgdMomentum>("sgd_momentum", 6.0, 8.0, *update, stream, inout(m, update->n), value(factors));
}

cudaError_t kernel_adam(const struct update *update, float *m, float *v, float lr, float beta1, float beta2, float epsilon,
                        float decay, int decoupled, int t, cudaStream_t stream)
{
    AdamFactors factors = {};
    factors.lr = lr;
    factors.decay = decoupled ? 0.0f : decay;
    factors.decay_factor = decoupled ? static_cast<float>(1.0 - static_cast<double>(lr) * decay) : 1.0f;
    factors.beta1 = beta1;
    factors.rest1 = static_cast<float>(1.0 - static_cast<double>(beta1));
    factors.beta2 = beta2;
    factors.rest2 = static_cast<float>(1.0 - static_cast<double>(beta2));
    factors.correction1 = static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(beta1), t)));
    factors.correction2 = static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(beta2), t)));
    factors.epsilon = epsilon;
    return launch_update<Adam>(decoupled ? "adamw" : "adam", 14.0, 16.0, *update, stream, inout(m, update->n),
                               inout(v, update->n), value(factors));
}
