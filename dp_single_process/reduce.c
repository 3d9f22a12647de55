/* SPDX-License-Identifier: MIT
 *
 * reduce: the replicas' gradients are SUMMED onto device 0 (each already carries the scale of the whole batch), group
 * by group as they were sent, in the order of the devices from device 0's own value: bit-equal from run to run. It
 * starts when every replica's backward pass has ended, because all parameters went through one replicate: nothing
 * overlaps.
 *
 * Bytes: P (n-1), all into device 0.
 */
#include "dp.h"
#include "gpu/memory.h"
#include "kernels/kernels.h"
#include "sys/exit_codes.h"

int dp_reduce_open(struct dp *dp)
{
    enum element_type type = dp->model->settings.type;
    size_t largest = 0;

    for (int g = 0; g < dp->group_count; g++)
        largest = dp->groups[g].bytes > largest ? dp->groups[g].bytes : largest;
    GPU_TRY(cudaSetDevice(0));
    if (dp->devices_used > 1 && dp->options->dp_transport == DP_TRANSPORT_P2P)
        TRY(gpu_malloc(&dp->staging, largest, MEMORY_COMMUNICATION));
    if (dp->staging && dp->devices_used > 2 && type != ELEMENT_F32)
        TRY(gpu_malloc((void **)&dp->group_sums, largest / element_size(type) * sizeof(float), MEMORY_COMMUNICATION));
    if (dp->options->accumulate > 1)
        TRY(gpu_malloc((void **)&dp->accumulated, dp->model->float_bytes, MEMORY_GRADIENTS));
    return EXIT_OK;
}

void dp_reduce_close(struct dp *dp)
{
    gpu_free(dp->staging);
    gpu_free(dp->group_sums);
    gpu_free(dp->accumulated);
}

static void *at(void *flat, const struct dp_group *group)
{
    return (char *)flat + group->offset;
}

static int reduce_on(struct dp *dp, const struct dp_communicators *set, const struct dp_group *group, int r)
{
    enum element_type type = dp->model->settings.type;
    void *gradients = at(dp->device[r].replica.gradients, group);

    GPU_TRY(cudaSetDevice(r));
    GPU_TRY(ncclReduce(gradients, gradients, group->bytes / element_size(type), element_nccl_type(type), ncclSum, 0,
                       set->comm[r], dp_compute(dp, r)));
    return EXIT_OK;
}

/* NCCL meets on all compute streams: each rank comes when its backward pass is over. Rank order is device order. */
static int reduce_by_nccl(struct dp *dp, const struct dp_communicators *set)
{
    for (int g = 0; g < dp->group_count; g++) {
        int status = EXIT_OK;
        GPU_TRY(ncclGroupStart());
        for (int r = 0; r < set->n && !status; r++)
            status = reduce_on(dp, set, &dp->groups[g], r);
        int ended = GPU_STATUS(ncclGroupEnd());
        TRY(status ? status : ended);
    }
    return EXIT_OK;
}

/* Adds what was staged from replica r to device 0's group. A chain of 16-bit additions would round n - 1 times: the sum is
 * kept in fp32 from replica 1 to n - 1 and rounded once, as NCCL's is here. */
static int add_staged(struct dp *dp, const struct dp_group *group, int r, int n)
{
    enum element_type type = dp->model->settings.type;
    void *gradients = at(dp->device[0].replica.gradients, group);
    size_t count = group->bytes / element_size(type);
    cudaStream_t stream = dp_compute(dp, 0);

    if (type == ELEMENT_F32 || n == 2)
        return GPU_STATUS(kernel_add(type, gradients, dp->staging, count, stream));
    if (r == 1)
        GPU_TRY(kernel_accumulate(type, dp->group_sums, gradients, 1, count, stream));
    if (r == n - 1)
        return GPU_STATUS(kernel_sum_scale(type, gradients, dp->staging, dp->group_sums, 1, count, stream));
    return GPU_STATUS(kernel_accumulate(type, dp->group_sums, dp->staging, 0, count, stream));
}

static int reduce_by_copies(struct dp *dp, int n)
{
    cudaStream_t stream = dp_compute(dp, 0);

    GPU_TRY(cudaSetDevice(0));
    for (int g = 0; g < dp->group_count; g++) {
        const struct dp_group *group = &dp->groups[g];
        for (int r = 1; r < n; r++) {
            GPU_TRY(cudaMemcpyPeerAsync(dp->staging, 0, at(dp->device[r].replica.gradients, group), r, group->bytes,
                                        stream));
            TRY(add_staged(dp, group, r, n));
        }
    }
    return EXIT_OK;
}

static int wait_for_backward(struct dp *dp, int n)
{
    struct dp_device *first = &dp->device[0];

    GPU_TRY(cudaSetDevice(0));
    for (int r = 1; r < n; r++)
        GPU_TRY(cudaStreamWaitEvent(first->replica.compute, dp->device[r].ended, 0));
    return timeline_mark(&first->timeline, first->replica.compute, PHASE_WAIT);
}

/* PyTorch adds each reduced micro-batch to .grad. Addition commutes bit for bit, so the last one adds the sum before it
 * and the result lies where the optimizer reads it. The sum is fp32 in 16 bit too, and is rounded once. */
static int accumulate(struct dp *dp, const struct dp_pass *pass)
{
    void *gradients = dp->device[0].replica.gradients;
    enum element_type type = dp->model->settings.type;
    size_t count = dp->model->flat_elements;
    cudaStream_t stream = dp_compute(dp, 0);

    if (pass->first && pass->last)
        return EXIT_OK;
    GPU_TRY(cudaSetDevice(0));
    if (pass->last)
        GPU_TRY(kernel_sum_scale(type, gradients, gradients, dp->accumulated, 1, count, stream));
    else
        GPU_TRY(kernel_accumulate(type, dp->accumulated, gradients, pass->first, count, stream));
    return EXIT_OK;
}

int dp_reduce(struct dp *dp, const struct dp_pass *pass)
{
    const struct dp_communicators *set = dp_communicators_of(dp, pass->n);

    if (pass->n == 1 && dp->options->accumulate == 1)
        return EXIT_OK;
    if (pass->n > 1) {
        if (!set)
            TRY(wait_for_backward(dp, pass->n));
        phase_begin(PHASE_REDUCE);
        TRY(set ? reduce_by_nccl(dp, set) : reduce_by_copies(dp, pass->n));
        (void)nvtxRangePop();
    }
    TRY(accumulate(dp, pass));
    for (int r = 0; r < (set ? pass->n : 1); r++) {
        GPU_TRY(cudaSetDevice(r));
        TRY(timeline_mark(&dp->device[r].timeline, dp_compute(dp, r), PHASE_REDUCE));
    }
    return EXIT_OK;
}

uint64_t dp_reduce_bytes(const struct dp *dp, const struct dp_pass *pass)
{
    return pass->n > 1 ? dp->model->flat_bytes * (uint64_t)(pass->n - 1) : 0;
}
