/* SPDX-License-Identifier: MIT
 *
 * One launch over the whole flat buffer: the padding between tensors is 0 in parameters and gradients, and all formulas
 * keep 0 at 0.
 */
#include "nn/optimizer.h"

#include <math.h>

#include "gpu/memory.h"
#include "nn/layers.h"
#include "sys/exit_codes.h"

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static size_t parts_of(const struct parameter *parameter)
{
    return (parameter->count + SQUARES_PART - 1) / SQUARES_PART;
}

static int open_control(struct optimizer *optimizer)
{
    const struct model *model = optimizer->replica->model;

    if (!optimizer->scaled && optimizer->settings.clip_norm <= 0)
        return EXIT_OK;
    TRY(gpu_malloc((void **)&optimizer->control, sizeof *optimizer->control, MEMORY_OPTIMIZER));
    if (optimizer->settings.clip_norm <= 0)
        return EXIT_OK;
    for (int i = 0; i < model->parameter_count; i++)
        optimizer->part_count += parts_of(&model->parameters[i]);
    return gpu_malloc((void **)&optimizer->parts, optimizer->part_count * sizeof(float), MEMORY_OPTIMIZER);
}

static int open_all(struct optimizer *optimizer)
{
    const struct optimizer_settings *settings = &optimizer->settings;
    size_t bytes = optimizer->replica->model->float_bytes;
    bool adam = settings->kind != OPTIMIZER_SGD;

    TRY(replica_hold_masters(optimizer->replica));
    GPU_TRY(cudaSetDevice(optimizer->replica->device));
    if (adam || settings->momentum != 0)
        TRY(gpu_malloc((void **)&optimizer->first, bytes, MEMORY_OPTIMIZER));
    if (adam)
        TRY(gpu_malloc((void **)&optimizer->second, bytes, MEMORY_OPTIMIZER));
    TRY(open_control(optimizer));
    return optimizer_reset(optimizer);
}

int optimizer_open(struct optimizer *optimizer, const struct optimizer_settings *settings, struct replica *replica)
{
    *optimizer = (struct optimizer){.settings = *settings, .replica = replica};
    optimizer->scaled = replica_type(replica) == ELEMENT_F16;
    if (settings->growth_interval == 0)
        optimizer->settings.growth_interval = LOSS_SCALE_GROWTH_INTERVAL;
    int status = open_all(optimizer);
    if (status)
        optimizer_close(optimizer);
    return status;
}

void optimizer_close(struct optimizer *optimizer)
{
    gpu_free(optimizer->parts);
    gpu_free(optimizer->control);
    gpu_free(optimizer->second);
    gpu_free(optimizer->first);
    *optimizer = (struct optimizer){0};
}

int optimizer_reset(struct optimizer *optimizer)
{
    const struct update_control fresh = {.loss_scale = optimizer->settings.loss_scale};
    size_t bytes = optimizer->replica->model->float_bytes;
    cudaStream_t stream = optimizer->replica->compute;

    optimizer->updates = 0;
    GPU_TRY(cudaSetDevice(optimizer->replica->device));
    if (optimizer->first)
        GPU_TRY(cudaMemsetAsync(optimizer->first, 0, bytes, stream));
    if (optimizer->second)
        GPU_TRY(cudaMemsetAsync(optimizer->second, 0, bytes, stream));
    TRY(optimizer_write_control(optimizer, &fresh));
    GPU_TRY(cudaStreamSynchronize(stream));
    return EXIT_OK;
}

/* ---- the control ------------------------------------------------------------------------------------------------- */

const float *optimizer_loss_scale(const struct optimizer *optimizer)
{
    const char *control = (const char *)optimizer->control;

    return optimizer->scaled ? (const float *)(const void *)(control + offsetof(struct update_control, loss_scale))
                             : NULL;
}

int optimizer_read_control(const struct optimizer *optimizer, struct update_control *control)
{
    cudaStream_t stream = optimizer->replica->compute;
    struct update_control *pinned = NULL;
    int status = EXIT_OK;

    *control = (struct update_control){0};
    if (!optimizer->control)
        return EXIT_OK;
    GPU_TRY(cudaSetDevice(optimizer->replica->device));
    TRY(gpu_malloc_pinned((void **)&pinned, sizeof *pinned));
    *pinned = *control;
    GPU_GOTO(cudaMemcpyAsync(pinned, optimizer->control, sizeof *pinned, cudaMemcpyDeviceToHost, stream), status, done);
    GPU_GOTO(cudaStreamSynchronize(stream), status, done);
    *control = *pinned;
done:
    (void)cudaFreeHost(pinned);
    return status;
}

int optimizer_write_control(struct optimizer *optimizer, const struct update_control *control)
{
    if (!optimizer->control)
        return EXIT_OK;
    GPU_TRY(cudaSetDevice(optimizer->replica->device));
    GPU_TRY(kernel_control_set(optimizer->control, *control, optimizer->replica->compute));
    GPU_TRY(cudaStreamSynchronize(optimizer->replica->compute));
    return EXIT_OK;
}

/* ---- an update --------------------------------------------------------------------------------------------------- */

/* (t + 1) / W while it warms up; then over what is left, with x from 0 to 1: torch's CosineAnnealingLR to 0,
 * (1 + cos(pi x)) / 2, or LinearLR to 0, 1 - x. */
float optimizer_lr(const struct optimizer_settings *settings, int update)
{
    int warmup = settings->warmup_updates, total = settings->total_updates;
    double factor = 1, x = 1;

    if (update < warmup)
        return (float)((double)settings->lr * (update + 1) / warmup);
    if (settings->schedule == SCHEDULE_CONSTANT || total == 0)
        return settings->lr;
    if (total > warmup && update < total)
        x = (double)(update - warmup) / (total - warmup);
    factor = settings->schedule == SCHEDULE_COSINE ? (1 + cos(M_PI * x)) / 2 : 1 - x;
    return (float)((double)settings->lr * factor);
}

/* Sums of squares of each gradient, in registration order wherever they lie. */
static int enqueue_squares(struct optimizer *optimizer)
{
    struct replica *replica = optimizer->replica;
    float *parts = optimizer->parts;

    for (int i = 0; i < replica->model->parameter_count; i++) {
        const struct parameter *p = &replica->model->parameters[i];
        GPU_TRY(kernel_squares(replica_type(replica), parts, replica_gradient(replica, i), p->count, replica->compute));
        parts += parts_of(p);
    }
    return EXIT_OK;
}

static int prepare(struct optimizer *optimizer)
{
    const struct optimizer_settings *s = &optimizer->settings;
    struct replica *replica = optimizer->replica;
    const struct update_plan plan = {.scaled = optimizer->scaled,
                                     .clip_norm = s->clip_norm,
                                     .growth = 2,
                                     .backoff = 0.5F,
                                     .growth_interval = s->growth_interval,
                                     .beta1 = s->beta1,
                                     .beta2 = s->beta2};

    if (!optimizer->control)
        return EXIT_OK;
    if (optimizer->scaled)
        GPU_TRY(kernel_find_inf(replica_type(replica), optimizer->control, replica->gradients,
                                replica->model->flat_elements, replica->compute));
    if (optimizer->parts)
        TRY(enqueue_squares(optimizer));
    GPU_TRY(kernel_update_prepare(optimizer->control, plan, optimizer->parts, optimizer->part_count, replica->compute));
    return EXIT_OK;
}

/* Elements [first, first + count) of the flat buffers; their gradients from g on. With a control the state is 0 before
 * the first update, which may be skipped: `first` is said without one alone. */
static int update_range(struct optimizer *optimizer, size_t first, const void *g, size_t count)
{
    const struct optimizer_settings *s = &optimizer->settings;
    struct replica *replica = optimizer->replica;
    enum element_type type = replica_type(replica);
    char *working = (char *)replica->parameters + first * element_size(type);
    const struct update update = {.p = replica->masters + first,
                                  .working = type == ELEMENT_F32 ? NULL : working,
                                  .type = type,
                                  .g = g,
                                  .n = count,
                                  .control = optimizer->control};
    float *m = optimizer->first ? optimizer->first + first : NULL;
    float lr = optimizer_lr(s, optimizer->updates);

    if (s->kind == OPTIMIZER_SGD)
        return GPU_STATUS(kernel_sgd(&update, m, lr, s->momentum, s->nesterov, s->weight_decay,
                                     optimizer->updates == 0 && !optimizer->control, replica->compute));
    return GPU_STATUS(kernel_adam(&update, m, optimizer->second + first, lr, s->beta1, s->beta2, s->epsilon,
                                  s->weight_decay, s->kind == OPTIMIZER_ADAMW, optimizer->updates + 1,
                                  replica->compute));
}

/* Elements to the next parameter, with the padding. */
static size_t room_of(const struct model *model, int index)
{
    bool last = index + 1 == model->parameter_count;

    return (last ? model->flat_elements : model->parameters[index + 1].first) - model->parameters[index].first;
}

/* One launch for each run of parameters whose gradients follow each other as they do: all of them, unless DDP's buckets
 * are the gradients and do not hold neighbours alone. */
static int update_all(struct optimizer *optimizer)
{
    const struct replica *replica = optimizer->replica;
    const struct model *model = replica->model;
    size_t element = element_size(model->settings.type);

    for (int i = 0, next; i < model->parameter_count; i = next) {
        const char *g = replica_gradient(replica, i);
        size_t count = room_of(model, i);
        for (next = i + 1; next < model->parameter_count; next++) {
            if ((const char *)replica_gradient(replica, next) != g + count * element)
                break;
            count += room_of(model, next);
        }
        TRY(update_range(optimizer, model->parameters[i].first, g, count));
    }
    return EXIT_OK;
}

int optimizer_step(struct optimizer *optimizer)
{
    TRY(prepare(optimizer));
    TRY(update_all(optimizer));
    optimizer->updates++;
    return EXIT_OK;
}
