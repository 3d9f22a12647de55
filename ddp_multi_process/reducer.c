/* SPDX-License-Identifier: MIT
 *
 * Two streams and two events a bucket: filled (compute -> communication) and reduced (communication -> compute). These
 * are the only edges between the streams. The next iteration's copies into a bucket come behind this one's copies out
 * of it on the compute stream, so nothing else has to be waited for.
 */
#include "reducer.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/memory.h"
#include "kernels/kernels.h"
#include "run/fault_gradient.h"
#include "sys/exit_codes.h"
#include "sys/fault.h"
#include "sys/log.h"

static const struct model *model_of(const struct reducer *reducer)
{
    return reducer->replica->model;
}

/* ---- layout ------------------------------------------------------------------------------------------------------ */

/* Slices stand one behind the other, without padding. */
static void place_slices(struct reducer *reducer)
{
    size_t at = 0;
    for (int bucket = 0; bucket < reducer->layout.buckets; bucket++) {
        struct range *range = &reducer->ranges[bucket];
        range->first = at;
        for (int i = reducer->layout.first[bucket]; i < reducer->layout.first[bucket + 1]; i++) {
            int index = reducer->layout.tensors[i];
            reducer->places[index] = (struct place){.bucket = bucket, .first = at};
            at += model_of(reducer)->parameters[index].count;
        }
        range->count = at - range->first;
    }
}

/* Elements to the next parameter, with the padding. */
static size_t room_of(const struct model *model, int index)
{
    bool last = index + 1 == model->parameter_count;
    return (last ? model->flat_elements : model->parameters[index + 1].first) - model->parameters[index].first;
}

/* The gradients of a bucket, in registration order, from element `at` on. Returns where they end. */
static size_t place_bucket(struct reducer *reducer, int bucket, int first, size_t at)
{
    struct range *range = &reducer->ranges[bucket];
    range->first = at;
    for (int i = first; i < model_of(reducer)->parameter_count; i++) {
        if (reducer->places[i].bucket != bucket)
            continue;
        reducer->places[i].first = at;
        reducer->offsets[i] = at * element_size(model_of(reducer)->settings.type);
        at += room_of(model_of(reducer), i);
    }
    range->count = at - range->first;
    return at;
}

/* Places the buckets over the replica's gradients; see reducer.h. What is padding now may have been a gradient. */
static int place_views(struct reducer *reducer)
{
    struct replica *replica = reducer->replica;
    size_t at = 0;
    bool moved = false;
    for (int bucket = 0; bucket < reducer->layout.buckets; bucket++)
        reducer->ranges[bucket].count = 0;
    for (int i = 0; i < model_of(reducer)->parameter_count; i++) {
        int bucket = reducer->places[i].bucket;
        if (reducer->ranges[bucket].count == 0)
            at = place_bucket(reducer, bucket, i, at);
        moved = moved || reducer->places[i].first != model_of(reducer)->parameters[i].first;
    }
    replica->gradient_offsets = moved ? reducer->offsets : NULL;
    if (moved)
        GPU_TRY(cudaMemsetAsync(replica->gradients, 0, model_of(reducer)->flat_bytes, replica->compute));
    return EXIT_OK;
}

/* Makes buckets over the parameters in `order` (NULL: registration order). */
static int make_layout(struct reducer *reducer, const int *order, const size_t *limits, int limit_count)
{
    const struct model *model = model_of(reducer);
    size_t *bytes = calloc((size_t)model->parameter_count, sizeof(*bytes));
    if (!bytes) {
        log_error("no memory for the sizes of %d parameters", model->parameter_count);
        return EXIT_RESOURCE;
    }
    for (int i = 0; i < model->parameter_count; i++)
        bytes[i] = model->parameters[i].count * element_size(model->settings.type);
    bucket_layout_free(&reducer->layout);
    int status = bucket_assign(&reducer->layout, bytes, NULL, order, model->parameter_count, limits, limit_count);
    free(bytes);
    if (status)
        return status;
    place_slices(reducer);
    return reducer->settings.views ? place_views(reducer) : EXIT_OK;
}

static int make_one_bucket(struct reducer *reducer)
{
    size_t limit = SIZE_MAX;
    return make_layout(reducer, NULL, &limit, 1);
}

static bool is_permutation(const int *order, int count, bool *seen)
{
    for (int i = 0; i < count; i++) {
        if (order[i] < 0 || order[i] >= count || seen[order[i]])
            return false;
        seen[order[i]] = true;
    }
    return true;
}

/* Rank 0's ready order for everybody: ranks that reduced in different orders would sum different parameters. */
static int rebuild(struct reducer *reducer)
{
    int count = model_of(reducer)->parameter_count;
    size_t limits[] = {BUCKET_FIRST_LIMIT, reducer->settings.cap_bytes};
    TRY(reducer->world->broadcast(reducer->world, reducer->ready_order, (size_t)count * sizeof(int)));
    bool *seen = calloc((size_t)count, sizeof(*seen));
    bool good = seen && is_permutation(reducer->ready_order, count, seen);
    free(seen);
    if (!good) {
        log_error("rank 0's order of %d gradients names one of them twice, or none", count);
        return EXIT_CHECK_FAILED;
    }
    return make_layout(reducer, reducer->ready_order, limits, 2);
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static int open_events(struct reducer *reducer, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        GPU_TRY(cudaEventCreateWithFlags(&reducer->filled[i], cudaEventDisableTiming));
        GPU_TRY(cudaEventCreateWithFlags(&reducer->reduced[i], cudaEventDisableTiming));
    }
    return EXIT_OK;
}

static int open_parts(struct reducer *reducer)
{
    const struct model *model = model_of(reducer);
    size_t count = (size_t)model->parameter_count;
    reducer->places = calloc(count, sizeof(*reducer->places));
    reducer->ranges = calloc(count, sizeof(*reducer->ranges));
    reducer->offsets = calloc(count, sizeof(*reducer->offsets));
    reducer->missing = calloc(count, sizeof(*reducer->missing));
    reducer->ready_order = calloc(count, sizeof(*reducer->ready_order));
    reducer->filled = calloc(count, sizeof(cudaEvent_t));
    reducer->reduced = calloc(count, sizeof(cudaEvent_t));
    if (!reducer->places || !reducer->ranges || !reducer->offsets || !reducer->missing || !reducer->ready_order || !reducer->filled || !reducer->reduced) {
        log_error("no memory for the buckets of %zu parameters", count);
        return EXIT_RESOURCE;
    }
    if (reducer->settings.views)
        reducer->memory = reducer->replica->gradients;
    else
        TRY(gpu_malloc((void **)&reducer->memory, model->parameter_elements * element_size(model->settings.type),
                   MEMORY_COMMUNICATION));
    GPU_TRY(cudaStreamCreateWithFlags(&reducer->communication, cudaStreamNonBlocking));
    TRY(open_events(reducer, count));
    return make_one_bucket(reducer);
}

int reducer_open(struct reducer *reducer, struct world *world, struct replica *replica, struct timeline *timeline,
                 ncclComm_t comm, const struct reducer_settings *settings)
{
    *reducer = (struct reducer){.world = world,
                                .replica = replica,
                                .timeline = timeline,
                                .comm = comm,
                                .settings = *settings};
    int status = open_parts(reducer);
    if (status)
        reducer_close(reducer);
    return status;
}

void reducer_close(struct reducer *reducer)
{
    int count = reducer->replica ? model_of(reducer)->parameter_count : 0;
    for (int i = 0; i < count; i++) {
        if (reducer->filled && reducer->filled[i])
            (void)cudaEventDestroy(reducer->filled[i]);
        if (reducer->reduced && reducer->reduced[i])
            (void)cudaEventDestroy(reducer->reduced[i]);
    }
    if (reducer->communication)
        (void)cudaStreamDestroy(reducer->communication);
    if (!reducer->settings.views)
        gpu_free(reducer->memory);
    else if (reducer->replica)
        reducer->replica->gradient_offsets = NULL;
    bucket_layout_free(&reducer->layout);
    free(reducer->places);
    free(reducer->ranges);
    free(reducer->offsets);
    free(reducer->missing);
    free(reducer->ready_order);
    free(reducer->filled);
    free(reducer->reduced);
    *reducer = (struct reducer){0};
}

int reducer_restart(struct reducer *reducer)
{
    reducer->iteration = 0;
    return make_one_bucket(reducer);
}

/* ---- an iteration ------------------------------------------------------------------------------------------------ */

int reducer_begin_update(struct reducer *reducer)
{
    reducer->iteration++;
    return reducer->iteration == 2 ? rebuild(reducer) : EXIT_OK;
}

int reducer_begin(struct reducer *reducer, uint64_t step, bool accumulated)
{
    reducer->accumulated = accumulated;
    reducer->step = step;
    reducer->next = 0;
    reducer->ready_count = 0;
    for (int bucket = 0; bucket < reducer->layout.buckets; bucket++)
        reducer->missing[bucket] = reducer->layout.first[bucket + 1] - reducer->layout.first[bucket];
    return EXIT_OK;
}

/* A gradient's slice of its bucket. */
static void *place_of(const struct reducer *reducer, int index)
{
    return reducer->memory + reducer->places[index].first * element_size(model_of(reducer)->settings.type);
}

/* Enqueues the all-reduce of a full bucket behind the copies that filled it. */
static int reduce_bucket(struct reducer *reducer, int bucket)
{
    enum element_type type = model_of(reducer)->settings.type;
    void *data = reducer->memory + reducer->ranges[bucket].first * element_size(type);
    size_t count = reducer->ranges[bucket].count;
    if (bucket == 0 && fault_planted("skip-collective", reducer->world->rank, reducer->step))
        return EXIT_OK;
    if (bucket == 0 && fault_planted("other-count", reducer->world->rank, reducer->step))
        count--;
    GPU_TRY(cudaEventRecord(reducer->filled[bucket], reducer->replica->compute));
    GPU_TRY(cudaStreamWaitEvent(reducer->communication, reducer->filled[bucket], 0));
    TRY(timeline_communication_begin(reducer->timeline, reducer->communication));
    GPU_TRY(ncclAllReduce(data, data, count, element_nccl_type(type), ncclSum, reducer->comm, reducer->communication));
    TRY(timeline_communication_end(reducer->timeline, reducer->communication));
    GPU_TRY(cudaEventRecord(reducer->reduced[bucket], reducer->communication));
    return EXIT_OK;
}

/* All buckets whose turn has come and that are full. */
static int reduce_full_buckets(struct reducer *reducer)
{
    int status = EXIT_OK;
    phase_begin(PHASE_ALLREDUCE_EXPOSED); /* the name under which the bytes are counted, hidden or not */
    while (!status && reducer->next < reducer->layout.buckets && reducer->missing[reducer->next] == 0)
        status = reduce_bucket(reducer, reducer->next++);
    (void)nvtxRangePop();
    return status;
}

/* place := gradient / N, with what the micro-batches before have left in fp32 sums. */
static int fill_place(struct reducer *reducer, int index)
{
    struct replica *replica = reducer->replica;
    const struct parameter *parameter = &model_of(reducer)->parameters[index];
    enum element_type type = model_of(reducer)->settings.type;
    float factor = 1.0F / (float)reducer->world->size;
    void *place = place_of(reducer, index), *gradient = replica_gradient(replica, index);
    if (reducer->settings.views && !(replica->sums && reducer->accumulated))
        return GPU_STATUS(kernel_scale(type, gradient, factor, parameter->count, replica->compute));
    if (replica->sums && reducer->accumulated)
        return GPU_STATUS(kernel_sum_scale(type, place, gradient, replica->sums + parameter->first, factor,
                                           parameter->count, replica->compute));
    return GPU_STATUS(kernel_copy_scale(type, place, gradient, factor, parameter->count, replica->compute));
}

int reducer_ready(void *context, int index)
{
    struct reducer *reducer = context;
    struct place place = reducer->places[index];
    if (reducer->iteration == 1)
        reducer->ready_order[reducer->ready_count] = index;
    reducer->ready_count++;
    if (index == 0)
        TRY(fault_in_gradient(reducer->replica, reducer->world->rank, reducer->step));
    TRY(fill_place(reducer, index));
    reducer->missing[place.bucket]--;
    if (reducer->missing[place.bucket] > 0 || place.bucket != reducer->next || !reducer->settings.overlap)
        return EXIT_OK;
    return reduce_full_buckets(reducer);
}

static int copy_back(struct reducer *reducer, int bucket)
{
    for (int i = reducer->layout.first[bucket]; i < reducer->layout.first[bucket + 1]; i++) {
        int index = reducer->layout.tensors[i];
        size_t bytes = model_of(reducer)->parameters[index].count * element_size(model_of(reducer)->settings.type);
        GPU_TRY(cudaMemcpyAsync(replica_gradient(reducer->replica, index), place_of(reducer, index), bytes,
                                cudaMemcpyDeviceToDevice, reducer->replica->compute));
    }
    return EXIT_OK;
}

int reducer_finish(struct reducer *reducer)
{
    struct timeline *timeline = reducer->timeline;
    cudaStream_t compute = reducer->replica->compute;
    int buckets = reducer->layout.buckets;
    if (reducer->ready_count != model_of(reducer)->parameter_count) {
        log_error("the backward pass made %d of %d gradients ready", reducer->ready_count,
                  model_of(reducer)->parameter_count);
        return EXIT_CHECK_FAILED;
    }
    TRY(reduce_full_buckets(reducer));
    /* Two marks a bucket, as far as the timeline has room (the update needs one more): then all waiting and copying is
     * one mark, and the copies count as exposed. */
    bool separate = timeline->marks + 2 * buckets + 1 <= TIMELINE_MAX_MARKS;
    for (int bucket = 0; bucket < buckets; bucket++) {
        GPU_TRY(cudaStreamWaitEvent(compute, reducer->reduced[bucket], 0));
        if (separate)
            TRY(timeline_mark(timeline, compute, PHASE_ALLREDUCE_EXPOSED));
        if (reducer->settings.views)
            continue;
        TRY(copy_back(reducer, bucket));
        if (separate)
            TRY(timeline_mark(timeline, compute, PHASE_BACKWARD));
    }
    return separate ? EXIT_OK : timeline_mark(timeline, compute, PHASE_ALLREDUCE_EXPOSED);
}

size_t reducer_bytes(const struct reducer *reducer)
{
    const struct model *model = model_of(reducer);
    return reducer->settings.views ? model->flat_bytes
                                   : model->parameter_elements * element_size(model->settings.type);
}
