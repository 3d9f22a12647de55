/* SPDX-License-Identifier: MIT
 *
 * What decides about an update, on the device: the search for inf, the norm of all gradients, and one thread that makes from
 * them the factor, the skip and the next loss scale.
 */
#include "kernels/kernel.h"

#include <cmath>

using namespace kernel;

namespace {

struct SetControl {
    template <class Group> static DEVICE void row(size_t, Group group, update_control *control, update_control values)
    {
        if (group.first())
            *control = values;
    }
};

/* x 0 is 0, and NaN where x is inf or NaN: a sum that vectorises. All that find one store the same value. */
struct FindInf {
    template <class Group, class T>
    static DEVICE void row(size_t row, Group group, update_control *control, const T *x, size_t n)
    {
        const size_t first = row * SQUARES_PART, count = n - first < SQUARES_PART ? n - first : SQUARES_PART;
        const T *part = x + first;
        const float zero = group.sum(count, [=](size_t i) { return static_cast<float>(part[i]) * 0.0f; });
        if (group.first() && !(zero == 0.0f))
            store_relaxed(&control->found_inf, 1.0f);
    }
};

struct Squares {
    template <class Group, class T>
    static DEVICE void row(size_t row, Group group, float *parts, const T *x, size_t n)
    {
        const size_t first = row * SQUARES_PART, count = n - first < SQUARES_PART ? n - first : SQUARES_PART;
        const T *part = x + first;
        const float sum = group.sum(count, [=](size_t i) {
            const float value = part[i];
            return value * value;
        });
        if (group.first())
            parts[row] = sum;
    }
};

/* GradScaler.update: halved when something was found, doubled after growth_interval good steps, if that is finite. */
DEVICE void update_scale(update_control &c, const update_plan &plan, bool skip)
{
    if (skip) {
        c.loss_scale *= plan.backoff;
        c.good_steps = 0;
        c.skipped++;
    } else if (++c.good_steps == plan.growth_interval) {
        const float grown = c.loss_scale * plan.growth;
        c.loss_scale = grown < INFINITY ? grown : c.loss_scale;
        c.good_steps = 0;
    }
}

struct Prepare {
    template <class Group>
    static DEVICE void row(size_t, Group group, update_control *control, update_plan plan, const float *parts, size_t count)
    {
        const float squares = group.sum(count, [=](size_t i) { return parts[i]; });
        if (!group.first())
            return;
        update_control c = *control;
        const bool skip = plan.scaled && c.found_inf != 0.0f;
        c.factor = plan.scaled ? 1.0f / c.loss_scale : 1.0f;
        if (plan.clip_norm > 0.0f) {
            const float clip = plan.clip_norm / (sqrtf(squares) * c.factor + 1e-6f);
            c.factor *= clip > 1.0f ? 1.0f : clip; /* NaN stays NaN */
        }
        c.skip = skip ? 1.0f : 0.0f;
        c.found_inf = 0.0f;
        c.updates += skip ? 0 : 1;
        c.correction1 = static_cast<float>(1.0 / (1.0 - pow(static_cast<double>(plan.beta1), static_cast<double>(c.updates))));
        c.correction2 = static_cast<float>(1.0 / (1.0 - pow(static_cast<double>(plan.beta2), static_cast<double>(c.updates))));
        if (plan.scaled)
            update_scale(c, plan, skip);
        *control = c;
    }
};

/* A row a part. */
template <class K, class To>
cudaError_t launch_parts(const char *name, double flops, enum element_type type, To to, const void *x, size_t n,
                         cudaStream_t stream)
{
    const size_t parts = (n + SQUARES_PART - 1) / SQUARES_PART;
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        return launch_rows<K>({name, flops * n, 1.0 * sizeof(T) * n}, stream, parts, SQUARES_PART, to,
                              in(static_cast<const T *>(x), n), value(n));
    });
}

} // namespace

cudaError_t kernel_control_set(struct update_control *control, struct update_control values, cudaStream_t stream)
{
    return launch_rows<SetControl>({"control_set", 0, 36}, stream, 1, 1, out(control, 1), value(values));
}

cudaError_t kernel_find_inf(enum element_type type, struct update_control *control, const void *x, size_t n,
                            cudaStream_t stream)
{
    return launch_parts<FindInf>("find_inf", 2, type, inout(control, 1), x, n, stream);
}

cudaError_t kernel_squares(enum element_type type, float *parts, const void *x, size_t n, cudaStream_t stream)
{
    return launch_parts<Squares>("squares", 2, type, out(parts, (n + SQUARES_PART - 1) / SQUARES_PART), x, n, stream);
}

cudaError_t kernel_update_prepare(struct update_control *control, struct update_plan plan, const float *parts, size_t count,
                                  cudaStream_t stream)
{
    const double cost = 4.0 * count + 72.0;
    return launch_rows<Prepare>({"update_prepare", 1.0 * count + 100.0, cost}, stream, 1, count, inout(control, 1),
                                value(plan), in(parts, count), value(parts ? count : 0));
}
