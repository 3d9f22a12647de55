/* SPDX-License-Identifier: MIT
 *
 * See loader.h. Requests have numbers; request q lies in slot q modulo the slots in use. Of the requests [begin, end)
 * the first may be in use, the others wait or are being filled. Each thread fills its share of every request, in the
 * order of numbers.
 */
#include "run/loader.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/memory.h"
#include "run/schedule.h"
#include "sys/exit_codes.h"
#include "sys/fault.h"
#include "sys/log.h"

#define SLOTS (1 + LOADER_PREFETCH)
#define MAX_THREADS 1024 /* the most --loaders and --gpus allow */

struct slot {
    uint64_t step;
    uint32_t *indices; /* [rows_max] */
    size_t count;
    char *values;    /* pinned: the inputs of rows_max samples */
    int32_t *labels; /* pinned [rows_max][targets] */
    int unfinished;  /* threads whose share is not there yet; under the mutex */
    bool dropped;    /* nobody wants it any more: not to be filled; under the mutex */
};

struct loader {
    const struct options *options;
    const struct dataset *dataset;
    const struct model *model;
    int devices, device;
    size_t rows_max;
    struct slot slot[SLOTS];
    int slots;        /* in use: 1 without threads */
    size_t used;      /* rows of the present request that have been taken */
    bool in_use;      /* request `begin` has been taken */
    uint64_t begin;   /* of the training thread alone */
    uint64_t matched; /* likewise */

    pthread_mutex_t mutex;
    pthread_cond_t given, filled;
    /* under the mutex: */
    uint64_t end;
    int status; /* of the first thread that failed */
    bool stop;
    /* */
    int thread_count;
    pthread_t thread[MAX_THREADS];
    int next_thread; /* its number, for the thread that starts; under the mutex */
};

static struct slot *slot_of(struct loader *loader, uint64_t request)
{
    return &loader->slot[request % (uint64_t)loader->slots];
}

static void gather(const struct loader *loader, const struct slot *slot, const uint32_t *indices, size_t at,
                   size_t count)
{
    if (count && !loader->options->shape_only)
        dataset_gather(loader->dataset, indices, count, slot->values + at * loader->model->input_bytes,
                       slot->labels + at * loader->model->targets);
}

/* ---- the threads ------------------------------------------------------------------------------------------------- */

/* The one place where a planted fault makes a loader fail. */
static int fill_share(const struct loader *loader, const struct slot *slot, int thread)
{
    struct piece share = chunk_piece(slot->count, loader->thread_count, thread);

    if (thread == 0 && fault_planted("loader", loader->device, slot->step)) {
        log_error("loader: planted fault at step %" PRIu64, slot->step);
        return EXIT_CHECK_FAILED;
    }
    gather(loader, slot, slot->indices + share.first, share.first, share.count);
    return EXIT_OK;
}

/* Request `next` by this thread, or waits for it. The mutex is held, but not while rows are gathered. */
static void serve(struct loader *loader, int thread, uint64_t next)
{
    struct slot *slot = slot_of(loader, next);
    int status = EXIT_OK;

    if (!slot->dropped) {
        pthread_mutex_unlock(&loader->mutex);
        status = fill_share(loader, slot, thread);
        pthread_mutex_lock(&loader->mutex);
    }
    if (status && !loader->status)
        loader->status = status;
    if (--slot->unfinished == 0)
        pthread_cond_broadcast(&loader->filled);
}

static void *load(void *argument)
{
    struct loader *loader = argument;
    uint64_t next = 0;

    (void)pthread_setname_np(pthread_self(), "loader");
    pthread_mutex_lock(&loader->mutex);
    int thread = loader->next_thread++;
    for (;;) {
        while (!loader->stop && next == loader->end)
            pthread_cond_wait(&loader->given, &loader->mutex);
        if (loader->stop)
            break;
        serve(loader, thread, next++);
    }
    pthread_mutex_unlock(&loader->mutex);
    return NULL;
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static int open_slot(struct loader *loader, struct slot *slot)
{
    size_t rows = loader->rows_max ? loader->rows_max : 1;

    slot->indices = calloc(rows, sizeof *slot->indices);
    if (!slot->indices) {
        log_error("loader: no memory for %zu indices", rows);
        return EXIT_RESOURCE;
    }
    TRY(gpu_malloc_pinned((void **)&slot->values, rows * loader->model->input_bytes));
    TRY(gpu_malloc_pinned((void **)&slot->labels, rows * loader->model->label_bytes));
    return EXIT_OK;
}

/* thread_count is what threads cut requests by: it stands before the first one is given. */
static int start_threads(struct loader *loader, int count)
{
    for (int i = 0; i < count; i++) {
        int error = pthread_create(&loader->thread[i], NULL, load, loader);
        if (error) {
            log_error("loader: thread %d of %d can't be started: %s", i, count, strerror(error));
            return EXIT_RESOURCE;
        }
        loader->thread_count++;
    }
    return EXIT_OK;
}

static int open_parts(struct loader *loader, int threads)
{
    pthread_mutex_init(&loader->mutex, NULL);
    pthread_cond_init(&loader->given, NULL);
    pthread_cond_init(&loader->filled, NULL);
    for (int i = 0; i < loader->slots; i++)
        TRY(open_slot(loader, &loader->slot[i]));
    return start_threads(loader, threads);
}

int loader_open(struct loader **opened, const struct run *run, size_t rows_max, int devices, int device)
{
    const struct options *options = run->options;
    int own_devices = devices == 1 ? options->gpus : 1;
    int threads = options->shape_only ? 0 : options->loaders * own_devices;
    struct loader *loader = calloc(1, sizeof *loader);

    *opened = NULL;
    if (!loader) {
        log_error("loader: no memory");
        return EXIT_RESOURCE;
    }
    loader->options = options;
    loader->dataset = run->dataset;
    loader->model = run->model;
    loader->devices = devices;
    loader->device = device;
    loader->rows_max = rows_max;
    loader->slots = threads ? SLOTS : 1;
    int status = open_parts(loader, threads);
    if (status)
        loader_close(loader);
    else
        *opened = loader;
    return status;
}

void loader_close(struct loader *loader)
{
    if (!loader)
        return;
    pthread_mutex_lock(&loader->mutex);
    loader->stop = true;
    pthread_cond_broadcast(&loader->given);
    pthread_mutex_unlock(&loader->mutex);
    for (int i = 0; i < loader->thread_count; i++)
        (void)pthread_join(loader->thread[i], NULL);
    for (int i = 0; i < SLOTS; i++) {
        if (loader->slot[i].values)
            (void)cudaFreeHost(loader->slot[i].values);
        if (loader->slot[i].labels)
            (void)cudaFreeHost(loader->slot[i].labels);
        free(loader->slot[i].indices);
    }
    pthread_cond_destroy(&loader->filled);
    pthread_cond_destroy(&loader->given);
    pthread_mutex_destroy(&loader->mutex);
    free(loader);
}

/* ---- requests: the training thread ------------------------------------------------------------------------------- */

/* Hands the next slot, whose indices and count are set, to the threads. */
static void give(struct loader *loader, uint64_t step)
{
    struct slot *slot = slot_of(loader, loader->end);

    slot->step = step;
    pthread_mutex_lock(&loader->mutex);
    slot->dropped = false;
    slot->unfinished = loader->thread_count;
    loader->end++;
    pthread_cond_broadcast(&loader->given);
    pthread_mutex_unlock(&loader->mutex);
}

void loader_announce(struct loader *loader, uint64_t step, const uint32_t *indices)
{
    struct slot *slot = slot_of(loader, loader->end);

    if (loader->thread_count == 0 || loader->end - loader->begin >= SLOTS)
        return;
    slot->count = 0;
    for (int k = 0; k < schedule_micro_batches(loader->options); k++) {
        struct piece piece = schedule_piece(loader->options, k, loader->devices, loader->device);
        memcpy(slot->indices + slot->count, indices + piece.first, piece.count * sizeof *indices);
        slot->count += piece.count;
    }
    give(loader, step);
}

/* Until request `number` is filled or dropped by all threads. */
static int await(struct loader *loader, uint64_t number)
{
    pthread_mutex_lock(&loader->mutex);
    while (slot_of(loader, number)->unfinished > 0 && !loader->status)
        pthread_cond_wait(&loader->filled, &loader->mutex);
    int status = loader->status;
    pthread_mutex_unlock(&loader->mutex);
    return status;
}

/* Nobody will take what has been announced. */
static int drop_all(struct loader *loader)
{
    int status = EXIT_OK;

    pthread_mutex_lock(&loader->mutex);
    for (uint64_t request = loader->begin; request < loader->end; request++)
        slot_of(loader, request)->dropped = true;
    pthread_mutex_unlock(&loader->mutex);
    for (; loader->begin < loader->end && !status; loader->begin++)
        status = await(loader, loader->begin);
    return status;
}

static bool holds(const struct slot *slot, size_t at, const uint32_t *indices, size_t count)
{
    return at + count <= slot->count && (count == 0 || !memcmp(slot->indices + at, indices, count * sizeof *indices));
}

void loader_release(struct loader *loader)
{
    if (loader->in_use)
        loader->begin++;
    loader->in_use = false;
}

/* Makes request `begin` the one that holds these rows, ready to be taken. */
static int begin_update(struct loader *loader, uint64_t step, const uint32_t *indices, size_t count)
{
    loader_release(loader);
    struct slot *slot = slot_of(loader, loader->begin);
    if (loader->begin < loader->end && slot->step == step && holds(slot, 0, indices, count)) {
        loader->matched++;
    } else {
        int status = drop_all(loader);
        if (status)
            return status;
        slot = slot_of(loader, loader->begin);
        memcpy(slot->indices, indices, count * sizeof *indices);
        slot->count = count;
        give(loader, step);
    }
    loader->in_use = true;
    loader->used = 0;
    return await(loader, loader->begin);
}

int loader_take(struct loader *loader, uint64_t step, const uint32_t *indices, size_t count, bool first, void **values,
                int32_t **labels)
{
    size_t at = first ? 0 : loader->used;

    if (at + count > loader->rows_max) {
        log_error("loader: %zu rows found, expected at most %zu", at + count, loader->rows_max);
        return EXIT_CHECK_FAILED;
    }
    if (first)
        TRY(begin_update(loader, step, indices, count));
    struct slot *slot = slot_of(loader, loader->begin);
    if (loader->thread_count == 0 || !holds(slot, at, indices, count))
        gather(loader, slot, indices, at, count);
    *values = slot->values + at * loader->model->input_bytes;
    *labels = slot->labels + at * loader->model->targets;
    loader->used = at + count;
    return EXIT_OK;
}

uint64_t loader_foreseen(const struct loader *loader)
{
    return loader->matched;
}
