/* SPDX-License-Identifier: MIT
 *
 * parallel_apply: one thread per replica launches its forward and, later, its backward pass. The threads live as long
 * as the strategy; between jobs they sleep. One replica needs no thread: the caller does it, as PyTorch does.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#include "dp.h"
#include "gpu/backend.h"
#include "run/fault_gradient.h"
#include "sys/exit_codes.h"
#include "sys/fault.h"
#include "sys/log.h"

struct worker {
    struct dp_workers *workers;
    int device;
    pthread_t thread;
    int status; /* of the last job */
};

struct dp_workers {
    struct dp *dp;
    pthread_mutex_t mutex;
    pthread_cond_t given, ended;
    /* under the mutex: */
    uint64_t jobs; /* given so far: a worker runs each number once */
    dp_job *job;   /* NULL: go home */
    const struct dp_pass *pass;
    int n, running;
    /* */
    int count; /* threads that were started */
    struct worker worker[DP_MAX_DEVICES];
};

/* The one place where a planted fault makes a DP thread fail. */
static int run_job(struct dp *dp, const struct dp_pass *pass, dp_job *job, int device)
{
    if (fault_planted("dp-thread", device, pass->step)) {
        log_error("DP thread of device %d: planted fault at step %" PRIu64, device, pass->step);
        return EXIT_CHECK_FAILED;
    }
    return job(dp, pass, device);
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct dp_workers *workers = worker->workers;
    uint64_t done = 0;

    pthread_mutex_lock(&workers->mutex);
    for (;;) {
        while (workers->jobs == done)
            pthread_cond_wait(&workers->given, &workers->mutex);
        done = workers->jobs;
        if (!workers->job)
            break;
        if (worker->device >= workers->n)
            continue;
        dp_job *job = workers->job;
        const struct dp_pass *pass = workers->pass;
        pthread_mutex_unlock(&workers->mutex);
        gpu_record_note("job_begin", "", (uint32_t)done);
        int status = run_job(workers->dp, pass, job, worker->device);
        gpu_record_note("job_end", "", (uint32_t)done);
        pthread_mutex_lock(&workers->mutex);
        worker->status = status;
        if (--workers->running == 0)
            pthread_cond_signal(&workers->ended);
    }
    pthread_mutex_unlock(&workers->mutex);
    return NULL;
}

int dp_workers_open(struct dp *dp)
{
    struct dp_workers *workers;

    if (dp->devices_used < 2)
        return EXIT_OK;
    workers = calloc(1, sizeof *workers);
    if (!workers) {
        log_error("parallel_apply: no memory for %d threads", dp->devices_used);
        return EXIT_RESOURCE;
    }
    dp->workers = workers;
    workers->dp = dp;
    pthread_mutex_init(&workers->mutex, NULL);
    pthread_cond_init(&workers->given, NULL);
    pthread_cond_init(&workers->ended, NULL);
    for (int i = 0; i < dp->devices_used; i++) {
        struct worker *worker = &workers->worker[i];
        *worker = (struct worker){.workers = workers, .device = i};
        if (pthread_create(&worker->thread, NULL, work, worker) != 0) {
            log_error("parallel_apply: the thread of device %d could not be started", i);
            return EXIT_RESOURCE;
        }
        workers->count++;
    }
    return EXIT_OK;
}

static void give(struct dp_workers *workers, dp_job *job, const struct dp_pass *pass)
{
    workers->job = job;
    workers->pass = pass;
    workers->n = workers->running = pass ? pass->n : 0;
    workers->jobs++;
    pthread_cond_broadcast(&workers->given);
}

void dp_workers_close(struct dp *dp)
{
    struct dp_workers *workers = dp->workers;

    if (!workers)
        return;
    pthread_mutex_lock(&workers->mutex);
    give(workers, NULL, NULL);
    pthread_mutex_unlock(&workers->mutex);
    for (int i = 0; i < workers->count; i++)
        pthread_join(workers->worker[i].thread, NULL);
    pthread_cond_destroy(&workers->ended);
    pthread_cond_destroy(&workers->given);
    pthread_mutex_destroy(&workers->mutex);
    free(workers);
    dp->workers = NULL;
}

int dp_parallel_apply(struct dp *dp, const struct dp_pass *pass, dp_job *job)
{
    struct dp_workers *workers = dp->workers;
    int status = EXIT_OK;

    if (pass->n == 1)
        return run_job(dp, pass, job, 0);
    pthread_mutex_lock(&workers->mutex);
    give(workers, job, pass);
    gpu_record_note("job_give", "", (uint32_t)workers->jobs);
    while (workers->running > 0)
        pthread_cond_wait(&workers->ended, &workers->mutex);
    gpu_record_note("job_join", "", (uint32_t)workers->jobs);
    for (int i = 0; i < pass->n && !status; i++)
        status = workers->worker[i].status;
    pthread_mutex_unlock(&workers->mutex);
    return status;
}

/* With --dp-loss replica the loss belongs to the replica's module, and what is gathered is one number: the replica
 * sends it itself, behind its loss. */
static int enqueue_replica_loss(struct dp *dp, const struct dp_pass *pass, int r)
{
    struct dp_device *device = &dp->device[r];
    struct replica *replica = &device->replica;
    float *slot = dp->scalars + pass->number * dp->devices_asked + r;

    phase_begin(PHASE_LOSS);
    TRY(loss_enqueue(&device->loss, replica->d_logits, replica->logits, replica->labels, pass->piece[r].count,
                     pass->loss_scale, replica->compute));
    TRY(phase_end(&device->timeline, replica->compute, PHASE_LOSS));
    phase_begin(PHASE_GATHER);
    GPU_TRY(cudaMemcpyPeerAsync(slot, dp->output, device->loss.sum, r, sizeof(float), replica->compute));
    return phase_end(&device->timeline, replica->compute, PHASE_GATHER);
}

int dp_forward(struct dp *dp, const struct dp_pass *pass, int r)
{
    struct dp_device *device = &dp->device[r];
    struct replica *replica = &device->replica;

    GPU_TRY(cudaSetDevice(r));
    phase_begin(PHASE_FORWARD);
    TRY(dp->model->type->forward(replica, pass->piece[r].count, true));
    TRY(phase_end(&device->timeline, replica->compute, PHASE_FORWARD));
    if (dp->per_replica_loss)
        TRY(enqueue_replica_loss(dp, pass, r));
    GPU_TRY(cudaEventRecord(device->forwarded, replica->compute));
    return EXIT_OK;
}

int dp_backward(struct dp *dp, const struct dp_pass *pass, int r)
{
    struct dp_device *device = &dp->device[r];
    struct replica *replica = &device->replica;

    GPU_TRY(cudaSetDevice(r));
    phase_begin(PHASE_BACKWARD);
    TRY(dp->model->type->backward(replica, dp_output_gradient(dp, pass, r), pass->piece[r].count, false, NULL, NULL));
    TRY(fault_in_gradient(replica, r, pass->step));
    TRY(phase_end(&device->timeline, replica->compute, PHASE_BACKWARD));
    GPU_TRY(cudaEventRecord(device->ended, replica->compute));
    return EXIT_OK;
}
