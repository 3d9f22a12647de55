/* SPDX-License-Identifier: MIT
 *
 * BatchNorm from its kernels. Over several devices two things are exchanged, as torch.nn.SyncBatchNorm does: in the
 * forward pass every device's mean, squared deviations and count (2 C + 1 numbers; PyTorch sends the inverse deviation,
 * which is the same information), combined by counts; in the backward pass the two sums (2 C numbers). The gradients of
 * weight and bias are the device's own: the reducer averages them like all others.
 */
#include "nn/batch_norm.h"

#include "kernels/kernels.h"
#include "sys/exit_codes.h"

static const float momentum = 0.1F, epsilon = 1e-5F;

size_t batch_norm_partials(size_t rows, size_t channels)
{
    return kernel_batch_norm_chunks_most(rows, channels) * (2 * channels + 1);
}

/* Statistics of this batch, or of all devices' batches, into norm->saved and the running ones. */
static int take_statistics(const struct replica *replica, const struct batch_norm_room *room,
                           const struct batch_norm *norm, const void *x, size_t rows)
{
    size_t c = norm->channels, parts = kernel_batch_norm_chunks(rows, c);
    const float *all = room->partials;

    GPU_TRY(kernel_batch_norm_statistics(replica_type(replica), room->partials, x, rows, c, replica->compute));
    if (replica->sync) {
        GPU_TRY(kernel_batch_norm_combine(room->statistics, room->partials, parts, c, replica->compute));
        TRY(replica->sync->gather(replica->sync->context, &all, room->statistics, 2 * c + 1));
        parts = (size_t)replica->sync->parts;
    }
    GPU_TRY(kernel_batch_norm_finish(norm->saved, replica_buffer(replica, norm->running),
                                     replica_buffer(replica, norm->running + 1), all, parts, c, momentum, epsilon,
                                     replica->compute));
    return EXIT_OK;
}

int batch_norm_forward(const struct replica *replica, const struct batch_norm_room *room, const struct batch_norm *norm,
                       void *y, const void *x, const void *residual, bool relu, size_t rows, bool training)
{
    if (rows == 0 && !(training && replica->sync))
        return EXIT_OK;
    if (training)
        TRY(take_statistics(replica, room, norm, x, rows));
    else
        GPU_TRY(kernel_batch_norm_from_running(norm->saved, replica_buffer(replica, norm->running),
                                               replica_buffer(replica, norm->running + 1), norm->channels, epsilon,
                                               replica->compute));
    if (rows)
        GPU_TRY(kernel_batch_norm_normalise(replica_type(replica), y, x, residual, norm->saved,
                                            replica_parameter(replica, norm->weight),
                                            replica_parameter(replica, norm->weight + 1), rows, norm->channels, relu,
                                            replica->compute));
    return EXIT_OK;
}

static int enqueue_sums(const struct replica *replica, const struct batch_norm_room *room,
                        const struct batch_norm *norm, const void *x, const struct batch_norm_gradient *gradient,
                        size_t rows)
{
    enum element_type type = replica_type(replica);
    const void *bias = gradient->gate == GATE_INPUT ? replica_parameter(replica, norm->weight + 1) : NULL;

    if (gradient->gate == GATE_OUTPUT)
        GPU_TRY(kernel_batch_norm_gated_sums(type, room->partials, gradient->g, gradient->other, gradient->y, x,
                                             norm->saved, rows, norm->channels, replica->compute));
    else
        GPU_TRY(kernel_batch_norm_sums(type, room->partials, gradient->g, x, norm->saved,
                                       replica_parameter(replica, norm->weight), bias, rows, norm->channels,
                                       replica->compute));
    return EXIT_OK;
}

int batch_norm_backward(const struct backward *pass, const struct batch_norm_room *room, const struct batch_norm *norm,
                        void *dx, const void *x, const struct batch_norm_gradient *gradient, size_t rows)
{
    struct replica *replica = pass->replica;
    enum element_type type = replica_type(replica);
    const void *weight = replica_parameter(replica, norm->weight), *bias = replica_parameter(replica, norm->weight + 1);
    bool active = rows || replica->sync;

    if (active) {
        TRY(enqueue_sums(replica, room, norm, x, gradient, rows));
        GPU_TRY(kernel_batch_norm_fold(type, room->sums, replica_gradient(replica, norm->weight),
                                       replica_gradient(replica, norm->weight + 1), room->partials, rows, norm->saved,
                                       norm->channels, pass->accumulate, replica->compute));
    }
    TRY(backward_ready(pass, norm->weight));
    TRY(backward_ready(pass, norm->weight + 1));
    if (!active)
        return EXIT_OK;
    if (replica->sync)
        TRY(replica->sync->sum(replica->sync->context, room->sums, 2 * norm->channels));
    GPU_TRY(kernel_batch_norm_coefficients(type, room->sums, norm->saved, weight, norm->channels, replica->compute));
    GPU_TRY(kernel_batch_norm_apply(type, dx, gradient->g, x, norm->saved, weight,
                                    gradient->gate == GATE_INPUT ? bias : NULL, room->sums, rows, norm->channels,
                                    replica->compute));
    return EXIT_OK;
}
