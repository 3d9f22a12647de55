/* SPDX-License-Identifier: MIT
 *
 * Faults of a backward pass: in numbers, what an overflow looks like to all that comes behind it; a device that stops.
 */
#include "run/fault_gradient.h"

#include <math.h>

#include "gpu/backend.h"
#include "kernels/kernels.h"
#include "nn/layers.h"
#include "sys/exit_codes.h"
#include "sys/fault.h"

int fault_in_gradient(const struct replica *replica, int index, uint64_t step)
{
    if (fault_planted("stall-device", index, step))
        TRY(gpu_stall(replica->compute));
    bool inf = fault_planted("inf-gradient", index, step), nan = fault_planted("nan-gradient", index, step);

    if (!inf && !nan)
        return EXIT_OK;
    /* The last element: x inf is inf, or NaN for 0. */
    char *gradient = replica_gradient(replica, 0);
    size_t last = replica->model->parameters[0].count - 1;
    enum element_type type = replica_type(replica);
    return GPU_STATUS(kernel_scale(type, gradient + last * element_size(type), inf ? INFINITY : NAN, 1,
                                   replica->compute));
}
