/* SPDX-License-Identifier: MIT
 *
 * Softmax cross-entropy, forward and backward in one launch, and the count of right answers.
 */
#include "kernels/kernel_math.h"

using namespace kernel;

namespace {

/* logits and d_logits [rows][classes]; they may be the same buffer: all lanes have read the label's logit before the sum's
 * end, where they meet, and each element is overwritten by the lane that reads it. */
struct SoftmaxCrossEntropy {
    template <class Group, class T>
    static DEVICE void row(size_t row, Group group, float *losses, T *d_logits, const T *logits,
                           const int32_t *labels, size_t classes, float scale, const float *loss_scale)
    {
        const T *x = logits + row * classes;
        const int32_t label = labels[row];
        const bool valid = label >= 0 && static_cast<size_t>(label) < classes;
        const float chosen = valid ? static_cast<float>(x[label]) : NAN;
        const float top = group.max(classes, [=](size_t i) -> float { return x[i]; });
        const float sum = group.sum(classes, [=](size_t i) { return exponential_falling(x[i] - top); });
        if (group.first())
            losses[row] = logf(sum) - (chosen - top);
        if (!d_logits)
            return;
        T *d = d_logits + row * classes;
        if (!valid) {
            group.each(classes, [=](size_t i) { d[i] = 0.0f; });
            return;
        }
        scale = loss_scale ? scale * *loss_scale : scale;
        const float factor = scale / sum;
        group.each(classes, [=](size_t i) { d[i] = exponential_falling(x[i] - top) * factor; });
        if (group.owns(static_cast<size_t>(label)))
            d[label] = exponential_falling(chosen - top) * factor - scale;
    }
};

/* Right if the label's logit is the largest and no earlier one equals it. */
struct CountCorrect {
    template <class Group, class T>
    static DEVICE void row(size_t row, Group group, int32_t *correct, const T *logits, const int32_t *labels,
                           size_t classes)
    {
        const T *x = logits + row * classes;
        const int32_t label = labels[row];
        if (label < 0 || static_cast<size_t>(label) >= classes)
            return;
        const float top = group.max(classes, [=](size_t i) -> float { return x[i]; });
        const float earlier = group.sum(static_cast<size_t>(label), [=](size_t i) { return x[i] == top ? 1.0f : 0.0f; });
        if (group.first() && x[label] == top && earlier == 0.0f)
            atomic_add(correct, 1);
    }
};

} // namespace

/* FLOPs: about 20 for each of two exponentials, 5 for the rest. */
cudaError_t kernel_softmax_cross_entropy(enum element_type type, float *losses, void *d_logits, const void *logits,
                                         const int32_t *labels, size_t rows, size_t classes, float scale,
                                         const float *loss_scale, cudaStream_t stream)
{
    const size_t n = rows * classes;
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        const double bytes = (d_logits ? 2.0 : 1.0) * sizeof(T) * n + 8.0 * rows;
        return launch_rows<SoftmaxCrossEntropy>({"softmax_cross_entropy", (d_logits ? 45.0 : 22.0) * n, bytes}, stream, rows,
                                                classes, out(losses, rows), out(static_cast<T *>(d_logits), n),
                                                in(static_cast<const T *>(logits), n), in(labels, rows), value(classes),
                                                value(scale), in(loss_scale, 1));
    });
}

cudaError_t kernel_count_correct(enum element_type type, int32_t *correct, const void *logits, const int32_t *labels,
                                 size_t rows, size_t classes, cudaStream_t stream)
{
    cudaError_t error = cudaMemsetAsync(correct, 0, sizeof *correct, stream);
    if (error)
        return error;
    const size_t n = rows * classes;
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        return launch_rows<CountCorrect>({"count_correct", 2.0 * n, 1.0 * sizeof(T) * n + 4.0 * rows + 4.0}, stream, rows,
                                         classes, inout(correct, 1), in(static_cast<const T *>(logits), n), in(labels, rows),
                                         value(classes));
    });
}
