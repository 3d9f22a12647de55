/* SPDX-License-Identifier: MIT
 *
 * LayerNorm, with the sum of the residual stream before it.
 */
#include "kernels/kernels.h"
#include "nn/layers.h"
#include "sys/exit_codes.h"

int layernorm_forward(const struct replica *replica, void *y, float *statistics, void *x, const struct residual *residual,
                      size_t rows, int weight)
{
    size_t columns = replica->model->parameters[weight].count;
    const void *bias = residual ? replica_parameter(replica, residual->bias) : NULL;

    if (rows)
        GPU_TRY(kernel_layernorm_forward(replica_type(replica), y, statistics, statistics + rows, x,
                                         residual ? residual->stream : NULL, bias, replica_parameter(replica, weight),
                                         replica_parameter(replica, weight + 1), rows, columns, LAYERNORM_EPSILON,
                                         replica->compute));
    return EXIT_OK;
}

int layernorm_backward(const struct backward *pass, void *dx, bool add, const void *dy, const float *statistics, const void *x,
                       size_t rows, int weight)
{
    struct replica *replica = pass->replica;
    size_t columns = replica->model->parameters[weight].count;

    if (rows)
        GPU_TRY(kernel_layernorm_parameters(replica_type(replica), replica_gradient(replica, weight),
                                            replica_gradient(replica, weight + 1), dy, x, statistics, statistics + rows, rows,
                                            columns, pass->accumulate, replica->compute));
    TRY(backward_ready(pass, weight));
    TRY(backward_ready(pass, weight + 1));
    if (rows)
        GPU_TRY(kernel_layernorm_backward(replica_type(replica), dx, dy, x, statistics, statistics + rows,
                                          replica_parameter(replica, weight), rows, columns, add, replica->compute));
    return EXIT_OK;
}
