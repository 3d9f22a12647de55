/* SPDX-License-Identifier: MIT
 *
 * gather: the outputs of all replicas are put together on the output device, piece by piece, and the loss of the whole
 * batch is taken there while the others wait. Backward through the gather is a scatter of the output gradient, same
 * pieces. Both directions count as `gather`: to the output device the outputs, from it their gradients.
 *
 * Bytes: O (n-1)/n each way. With many classes this is DataParallel's famous memory imbalance: O and its gradient on
 * one device. --dp-loss replica avoids it: each replica takes its own loss, and n numbers are gathered (4 (n-1) bytes;
 * their gradients are a constant that every replica knows, so nothing comes back). --dp-loss replica-outputs does that
 * and gathers the outputs beside it, as a module that returns (loss, logits) is gathered whole: Hugging Face's models. A
 * replica's backward pass then begins when its outputs are there: backward through a gather follows the gather.
 */
#include <stdlib.h>

#include "dp.h"
#include "gpu/memory.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

static int open_per_replica(struct dp *dp)
{
    size_t count = (size_t)dp->options->accumulate * (size_t)dp->devices_asked;

    for (int r = 0; r < dp->devices_used; r++)
        TRY(loss_open(&dp->device[r].loss, dp->model, r, dp->device[r].replica.batch_max));
    for (int r = 0; r < dp->devices_used; r++)
        dp->device[r].loss.loss_scale = dp_loss_scale(dp, r);
    GPU_TRY(cudaSetDevice(dp->output));
    TRY(gpu_malloc((void **)&dp->scalars, count * sizeof(float), MEMORY_OUTPUTS));
    TRY(gpu_malloc_pinned((void **)&dp->host_scalars, count * sizeof(float)));
    return dp->keeps_outputs ? gpu_malloc(&dp->gathered, dp->gathered_max * dp->model->output_bytes, MEMORY_OUTPUTS)
                             : EXIT_OK;
}

static int open_losses(struct dp *dp)
{
    int count = dp->options->accumulate;

    dp->losses = calloc((size_t)count, sizeof *dp->losses);
    if (!dp->losses) {
        log_error("gather: no memory for %d losses", count);
        return EXIT_RESOURCE;
    }
    for (; dp->loss_count < count; dp->loss_count++)
        TRY(loss_open(&dp->losses[dp->loss_count], dp->model, dp->output, dp->gathered_max));
    for (int k = 0; k < count; k++)
        dp->losses[k].loss_scale = dp_loss_scale(dp, dp->output);
    return EXIT_OK;
}

int dp_gather_open(struct dp *dp)
{
    struct replica *output = &dp->device[dp->output].replica;

    if (dp->per_replica_loss)
        return open_per_replica(dp);
    TRY(open_losses(dp));
    GPU_TRY(cudaSetDevice(dp->output));
    if (!dp->dataset->resident)
        TRY(gpu_malloc((void **)&dp->gathered_labels, dp->gathered_max * dp->model->label_bytes, MEMORY_DATA));
    if (!dp->gathers) {
        dp->gathered = output->logits;
        dp->d_gathered = output->d_logits;
        return EXIT_OK;
    }
    /* Its piece is a view of d_gathered, as PyTorch's is; freed first, so that the two are never there at once. */
    gpu_free(output->d_logits);
    output->d_logits = NULL;
    TRY(gpu_malloc(&dp->gathered, dp->gathered_max * dp->model->output_bytes, MEMORY_OUTPUTS));
    TRY(gpu_malloc(&dp->d_gathered, dp->gathered_max * dp->model->output_bytes, MEMORY_OUTPUTS));
    return EXIT_OK;
}

void dp_gather_close(struct dp *dp)
{
    for (int i = 0; i < dp->loss_count; i++)
        loss_close(&dp->losses[i]);
    free(dp->losses);
    for (int r = 0; r < dp->devices_used; r++)
        if (dp->device[r].loss.samples_max)
            loss_close(&dp->device[r].loss);
    if (dp->host_scalars)
        (void)cudaFreeHost(dp->host_scalars);
    gpu_free(dp->scalars);
    if (!dp->dataset->resident)
        gpu_free(dp->gathered_labels);
    if (dp->gathers || dp->keeps_outputs)
        gpu_free(dp->gathered);
    if (dp->gathers)
        gpu_free(dp->d_gathered);
}

/* The output device's stream waits for the replicas: the time until the slowest is there is waiting, not gathering. */
static int wait_for_replicas(struct dp *dp, const struct dp_pass *pass)
{
    struct dp_device *output = &dp->device[dp->output];

    GPU_TRY(cudaSetDevice(dp->output));
    for (int r = 0; r < pass->n; r++)
        if (r != dp->output)
            GPU_TRY(cudaStreamWaitEvent(output->replica.compute, dp->device[r].forwarded, 0));
    return timeline_mark(&output->timeline, output->replica.compute, PHASE_WAIT);
}

static int take_outputs(struct dp *dp, const struct dp_pass *pass)
{
    cudaStream_t stream = dp_compute(dp, dp->output);

    for (int r = 0; r < pass->n; r++) {
        const struct piece *piece = &pass->piece[r];
        void *to = (char *)dp->gathered + piece->first * dp->model->output_bytes;
        const void *from = dp->device[r].replica.logits;
        size_t bytes = piece->count * dp->model->output_bytes;
        if (r == dp->output)
            GPU_TRY(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
        else
            GPU_TRY(cudaMemcpyPeerAsync(to, dp->output, from, r, bytes, stream));
    }
    return EXIT_OK;
}

/* The losses are on the output device already: each replica sent its own. */
static int read_losses(struct dp *dp, const struct dp_pass *pass)
{
    int at = pass->number * dp->devices_asked;

    GPU_TRY(cudaMemcpyAsync(dp->host_scalars + at, dp->scalars + at, (size_t)pass->n * sizeof(float),
                            cudaMemcpyDeviceToHost, dp_compute(dp, dp->output)));
    return EXIT_OK;
}

/* Device r goes on when the output device has come to this event. */
static int wait_on(struct dp *dp, int r, cudaEvent_t event)
{
    struct dp_device *device = &dp->device[r];

    GPU_TRY(cudaSetDevice(r));
    GPU_TRY(cudaStreamWaitEvent(device->replica.compute, event, 0));
    return timeline_mark(&device->timeline, device->replica.compute, PHASE_WAIT);
}

/* The gather is done: the backward passes may begin. */
static int let_go(struct dp *dp, const struct dp_pass *pass)
{
    cudaEvent_t gathered = dp->device[dp->output].returned;

    GPU_TRY(cudaEventRecord(gathered, dp_compute(dp, dp->output)));
    for (int r = 0; r < pass->n; r++)
        if (r != dp->output)
            TRY(wait_on(dp, r, gathered));
    GPU_TRY(cudaSetDevice(dp->output));
    return EXIT_OK;
}

int dp_gather(struct dp *dp, const struct dp_pass *pass)
{
    struct dp_device *output = &dp->device[dp->output];

    if (!dp->gathers && !dp->per_replica_loss)
        return EXIT_OK;
    TRY(wait_for_replicas(dp, pass));
    phase_begin(PHASE_GATHER);
    if (dp->per_replica_loss)
        TRY(read_losses(dp, pass));
    if (dp->gathers || dp->keeps_outputs)
        TRY(take_outputs(dp, pass));
    if (dp->keeps_outputs)
        TRY(let_go(dp, pass));
    return phase_end(&output->timeline, output->replica.compute, PHASE_GATHER);
}

int dp_loss(struct dp *dp, const struct dp_pass *pass)
{
    struct dp_device *output = &dp->device[dp->output];

    GPU_TRY(cudaSetDevice(dp->output));
    phase_begin(PHASE_LOSS);
    TRY(loss_enqueue(&dp->losses[pass->number], dp->d_gathered, dp->gathered, dp->gathered_labels, pass->rows,
                     pass->loss_scale, output->replica.compute));
    return phase_end(&output->timeline, output->replica.compute, PHASE_LOSS);
}

/* Each device waits for its own piece and starts at once when it is there. */
static int return_piece(struct dp *dp, const struct dp_pass *pass, int r)
{
    const struct piece *piece = &pass->piece[r];
    struct dp_device *device = &dp->device[r];
    cudaStream_t stream = dp_compute(dp, dp->output);

    GPU_TRY(cudaSetDevice(dp->output));
    const char *from = (const char *)dp->d_gathered + piece->first * dp->model->output_bytes;
    GPU_TRY(cudaMemcpyPeerAsync(device->replica.d_logits, r, from, dp->output, piece->count * dp->model->output_bytes,
                                stream));
    GPU_TRY(cudaEventRecord(device->returned, stream));
    return wait_on(dp, r, device->returned);
}

int dp_return_gradients(struct dp *dp, const struct dp_pass *pass)
{
    struct dp_device *output = &dp->device[dp->output];

    if (!dp->gathers)
        return EXIT_OK;
    phase_begin(PHASE_GATHER);
    for (int r = 0; r < pass->n; r++)
        if (r != dp->output)
            TRY(return_piece(dp, pass, r));
    GPU_TRY(cudaSetDevice(dp->output));
    return phase_end(&output->timeline, output->replica.compute, PHASE_GATHER);
}

const void *dp_output_gradient(const struct dp *dp, const struct dp_pass *pass, int device)
{
    if (dp->per_replica_loss || device != dp->output)
        return dp->device[device].replica.d_logits;
    return (const char *)dp->d_gathered + pass->piece[device].first * dp->model->output_bytes;
}

uint64_t dp_gather_bytes(const struct dp *dp, const struct dp_pass *pass)
{
    size_t own = dp->output < pass->n ? pass->piece[dp->output].count : 0;
    uint64_t outputs = (uint64_t)(pass->rows - own) * dp->model->output_bytes;
    uint64_t losses = sizeof(float) * (uint64_t)(dp->output < pass->n ? pass->n - 1 : pass->n);

    if (dp->per_replica_loss)
        return losses + (dp->keeps_outputs ? outputs : 0);
    return dp->gathers ? 2 * outputs : 0;
}
