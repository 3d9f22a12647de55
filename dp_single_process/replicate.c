/* SPDX-License-Identifier: MIT
 *
 * replicate: each forward pass begins with a broadcast of ALL parameters from device 0, in groups of 10 MiB. PyTorch
 * flattens a group on device 0, sends it, and splits it again; here the parameters lie flat in registration order, so a
 * group is a range of bytes and is sent as it lies (with the padding between tensors: P below is the flat size).
 *
 * Bytes: (P + Bf) (n-1), Bf the buffers; in fp16 also 4 to each device but device 0 that takes a loss. Device 0 sends all of them on its own link, however many devices there are.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "dp.h"
#include "gpu/memory.h"
#include "gpu/backend.h"
#include "run/schedule.h"
#include "sys/exit_codes.h"
#include "sys/fault.h"
#include "sys/log.h"

int dp_group_tensors(const size_t *bytes, int tensor_count, size_t limit_bytes, struct dp_group *groups)
{
    size_t filled = 0;
    int group_count = 0;

    for (int i = 0; i < tensor_count; i++) {
        if (group_count == 0 || filled + bytes[i] > limit_bytes) {
            groups[group_count++] = (struct dp_group){.first_parameter = i};
            filled = 0;
        }
        filled += bytes[i];
        groups[group_count - 1].parameter_count++;
    }
    return group_count;
}

/* Groups touch: each ends where the next one begins, the last at the end of the flat buffer. */
static int open_groups(struct dp *dp)
{
    const struct model *model = dp->model;
    size_t *bytes = calloc((size_t)model->parameter_count, sizeof *bytes);

    dp->groups = calloc((size_t)model->parameter_count, sizeof *dp->groups);
    if (!bytes || !dp->groups) {
        free(bytes);
        log_error("replicate: no memory for the groups of %d parameters", model->parameter_count);
        return EXIT_RESOURCE;
    }
    for (int i = 0; i < model->parameter_count; i++)
        bytes[i] = model->parameters[i].count * element_size(model->settings.type);
    dp->group_count = dp_group_tensors(bytes, model->parameter_count, DP_GROUP_BYTES, dp->groups);
    free(bytes);
    size_t end = model->flat_bytes;
    for (int g = dp->group_count - 1; g >= 0; g--) {
        dp->groups[g].offset = model->parameters[dp->groups[g].first_parameter].offset;
        dp->groups[g].bytes = end - dp->groups[g].offset;
        end = dp->groups[g].offset;
    }
    return EXIT_OK;
}

static int open_communicators(struct dp_communicators *set, int n)
{
    int list[DP_MAX_DEVICES];

    for (int i = 0; i < n; i++)
        list[i] = i;
    GPU_TRY(ncclCommInitAll(set->comm, n, list));
    set->n = n;
    return EXIT_OK;
}

const struct dp_communicators *dp_communicators_of(const struct dp *dp, int n)
{
    for (int i = 0; i < 2; i++)
        if (n > 1 && dp->communicators[i].n == n)
            return &dp->communicators[i];
    return NULL;
}

/* All micro-batches but the last have one size, so there are at most two numbers of replicas. */
static int open_transport(struct dp *dp)
{
    int last = schedule_micro_batches(dp->options) - 1;
    int numbers[2] = {dp->devices_used, dp->devices_used};

    if (dp->options->dp_transport != DP_TRANSPORT_NCCL)
        return EXIT_OK;
    if (last >= 0) {
        numbers[0] = chunk_devices_used(schedule_micro_batch(dp->options, 0).count, dp->devices_asked);
        numbers[1] = chunk_devices_used(schedule_micro_batch(dp->options, last).count, dp->devices_asked);
    }
    for (int i = 0; i < 2; i++)
        if (numbers[i] > 1 && !dp_communicators_of(dp, numbers[i]))
            TRY(open_communicators(&dp->communicators[i], numbers[i]));
    return EXIT_OK;
}

/* ---- fp16's loss scale: decided on device 0 by the optimizer, needed where a loss is taken ------------------------ */

static bool takes_loss(const struct dp *dp, int n, int r)
{
    return dp->per_replica_loss ? r < n : r == dp->output;
}

static int open_loss_scales(struct dp *dp)
{
    if (!dp->optimizer.scaled)
        return EXIT_OK;
    for (int r = 1; r < dp->devices_asked; r++) {
        if (!takes_loss(dp, dp->devices_used, r))
            continue;
        GPU_TRY(cudaSetDevice(r));
        TRY(gpu_malloc((void **)&dp->device[r].loss_scale, sizeof(float), MEMORY_COMMUNICATION));
    }
    return EXIT_OK;
}

const float *dp_loss_scale(const struct dp *dp, int r)
{
    return r == 0 ? optimizer_loss_scale(&dp->optimizer) : dp->device[r].loss_scale;
}

/* Sent before the parameters, it needs no wait of its own: a replica waits for its parameters, and an output device for the
 * forward pass of device 0, which comes behind it. */
static int send_loss_scale(struct dp *dp, int n)
{
    const float *scale = optimizer_loss_scale(&dp->optimizer);

    for (int r = 1; r < dp->devices_asked && scale; r++) {
        struct dp_device *device = &dp->device[r];
        if (!takes_loss(dp, n, r))
            continue;
        GPU_TRY(cudaSetDevice(0));
        GPU_TRY(cudaMemcpyPeerAsync(device->loss_scale, r, scale, 0, sizeof *scale, dp_compute(dp, 0)));
    }
    return EXIT_OK;
}

static uint64_t loss_scale_bytes(const struct dp *dp, int n)
{
    uint64_t bytes = 0;

    for (int r = 1; r < dp->devices_asked && dp->optimizer.scaled; r++)
        bytes += takes_loss(dp, n, r) ? sizeof(float) : 0;
    return bytes;
}

/* ---- replicate ---------------------------------------------------------------------------------------------------- */

int dp_replicate_open(struct dp *dp)
{
    TRY(open_groups(dp));
    TRY(open_loss_scales(dp));
    return open_transport(dp);
}

/* After a failure one device may wait in a collective for another one that never comes. */
void dp_abort(struct dp *dp)
{
    for (int i = 0; i < 2; i++) {
        for (int r = 0; r < dp->communicators[i].n; r++)
            (void)ncclCommAbort(dp->communicators[i].comm[r]);
        dp->communicators[i].n = 0;
    }
}

void dp_replicate_close(struct dp *dp)
{
    for (int i = 0; i < 2; i++)
        for (int r = 0; r < dp->communicators[i].n; r++)
            (void)ncclCommDestroy(dp->communicators[i].comm[r]);
    for (int r = 1; r < dp->devices_asked; r++)
        gpu_free(dp->device[r].loss_scale);
    free(dp->groups);
}

static void *at(void *flat, const struct dp_group *group)
{
    return (char *)flat + group->offset;
}

static int broadcast_on(struct dp *dp, const struct dp_communicators *set, const struct dp_group *group, int r,
                        uint64_t step)
{
    enum element_type type = dp->model->settings.type;
    void *parameters = at(dp->device[r].replica.parameters, group);

    if (fault_planted("dp-broadcast", r, step)) {
        log_error("device %d: planted failure in the broadcast of step %" PRIu64, r, step);
        return EXIT_CHECK_FAILED;
    }
    GPU_TRY(cudaSetDevice(r));
    GPU_TRY(ncclBroadcast(parameters, parameters, group->bytes / element_size(type), element_nccl_type(type), 0,
                          set->comm[r], dp_compute(dp, r)));
    return EXIT_OK;
}

/* The model's buffers (BatchNorm's running statistics) follow the parameters; those of the other devices, which have
 * moved since, are lost. */
static int broadcast_buffers(struct dp *dp, const struct dp_communicators *set)
{
    size_t count = dp->model->buffer_bytes / sizeof(float);
    int status = EXIT_OK;

    if (count == 0)
        return EXIT_OK;
    GPU_TRY(ncclGroupStart());
    for (int r = 0; r < set->n && !status; r++) {
        float *buffers = dp->device[r].replica.buffers;
        status = GPU_STATUS(cudaSetDevice(r));
        if (!status)
            status = GPU_STATUS(
                ncclBroadcast(buffers, buffers, count, ncclFloat32, 0, set->comm[r], dp_compute(dp, r)));
    }
    int ended = GPU_STATUS(ncclGroupEnd());
    return status ? status : ended;
}

/* Every rank's broadcast is on its own compute stream: after its last use of the parameters, before its forward pass.
 */
static int broadcast(struct dp *dp, const struct dp_communicators *set, uint64_t step)
{
    for (int g = 0; g < dp->group_count; g++) {
        int status = EXIT_OK;
        GPU_TRY(ncclGroupStart());
        for (int r = 0; r < set->n && !status; r++)
            status = broadcast_on(dp, set, &dp->groups[g], r, step);
        int ended = GPU_STATUS(ncclGroupEnd()); /* also after a failure: an open group would keep the next call */
        TRY(status ? status : ended);
    }
    return broadcast_buffers(dp, set);
}

/* Copies on device 0's compute stream, group by group and device by device; a device waits for its last one. The
 * replicas' own work on the parameters is over: the reduction before waited for it, or the host did. */
static int copy_to_all(struct dp *dp, int n)
{
    void *source = dp->device[0].replica.parameters;

    GPU_TRY(cudaSetDevice(0));
    for (int g = 0; g < dp->group_count; g++) {
        const struct dp_group *group = &dp->groups[g];
        for (int r = 1; r < n; r++) {
            GPU_TRY(cudaMemcpyPeerAsync(at(dp->device[r].replica.parameters, group), r, at(source, group), 0,
                                        group->bytes, dp_compute(dp, 0)));
        }
    }
    for (int r = 1; r < n; r++) {
        if (dp->model->buffer_bytes)
            GPU_TRY(cudaMemcpyPeerAsync(dp->device[r].replica.buffers, r, dp->device[0].replica.buffers, 0,
                                        dp->model->buffer_bytes, dp_compute(dp, 0)));
        GPU_TRY(cudaEventRecord(dp->device[r].replicated, dp_compute(dp, 0)));
    }
    for (int r = 1; r < n; r++)
        GPU_TRY(cudaStreamWaitEvent(dp_compute(dp, r), dp->device[r].replicated, 0));
    return EXIT_OK;
}

int dp_replicate(struct dp *dp, const struct dp_pass *pass)
{
    const struct dp_communicators *set = dp_communicators_of(dp, pass->n);

    phase_begin(PHASE_REPLICATE);
    int status = send_loss_scale(dp, pass->n);
    if (pass->n > 1 && !status)
        status = set ? broadcast(dp, set, pass->step) : copy_to_all(dp, pass->n);
    (void)nvtxRangePop();
    for (int r = 0; r < pass->n && pass->n > 1 && !status; r++) {
        GPU_TRY(cudaSetDevice(r));
        status = timeline_mark(&dp->device[r].timeline, dp_compute(dp, r), PHASE_REPLICATE);
    }
    return status;
}

uint64_t dp_replicate_bytes(const struct dp *dp, const struct dp_pass *pass)
{
    uint64_t model = pass->n > 1 ? (dp->model->flat_bytes + dp->model->buffer_bytes) * (uint64_t)(pass->n - 1) : 0;

    return model + loss_scale_bytes(dp, pass->n);
}
