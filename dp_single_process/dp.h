/* SPDX-License-Identifier: MIT
 *
 * DataParallel, one file a step of PyTorch's torch/nn/parallel:
 *
 *     scatter.c         the batch, cut by the chunk rule, to the devices
 *     replicate.c       all parameters from device 0 to the others
 *     parallel_apply.c  a thread per replica: forward, backward
 *     gather.c          outputs to the output device, loss there, output gradients back
 *     reduce.c          gradients summed onto device 0
 *     open.c            devices, replicas, events
 *     strategy.c        the step from all of these, the update on device 0, and the strategy's table
 *
 * n = replicas in use for a batch (at most N = --gpus). Each device has one compute stream, on which everything but the
 * copies from the host runs. Streams of two devices meet only at events: "waits" in comments are cudaStreamWaitEvent,
 * and each of them is needed (tests take them out one by one and see the race).
 */
#ifndef DP_SINGLE_PROCESS_DP_H
#define DP_SINGLE_PROCESS_DP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/sampler.h"
#include "nn/loss.h"
#include "run/loader.h"
#include "run/strategy.h"

#define DP_MAX_DEVICES 64 /* the most --gpus and --accumulate allow */
#define DP_MAX_MICRO_BATCHES 64

/* Parameters are sent, and gradients reduced, in groups: PyTorch coalesces 10 MiB. */
#define DP_GROUP_BYTES ((size_t)10 << 20)

/* A contiguous range of the flat buffers: whole tensors in registration order, so nothing has to be flattened or split.
 */
struct dp_group {
    size_t offset, bytes;
    int first_parameter, parameter_count;
};

/* The group is closed BEFORE a tensor that would pass the limit; a larger tensor is alone. bytes: of each
 * tensor. groups has room for tensor_count; only the parameter ranges are filled. Returns the number of groups. */
int dp_group_tensors(const size_t *bytes, int tensor_count, size_t limit_bytes, struct dp_group *groups);

struct dp_device {
    bool open; /* the batch reaches it, or it is the output device */
    struct replica replica;
    struct timeline timeline;
    struct loss loss;  /* --dp-loss replica */
    float *loss_scale; /* fp16, not on device 0: a copy of the optimizer's; NULL: no loss is taken here */
    /* on this device's streams */
    cudaEvent_t scattered; /* copy: its piece, and the labels of the output device, are here */
    cudaEvent_t forwarded; /* compute: its logits (or its loss) are there */
    cudaEvent_t ended;     /* compute: its gradients are there */
    cudaEvent_t consumed;  /* compute: a micro-batch is done, its input may be overwritten */
    /* on the stream of the device that sends */
    cudaEvent_t replicated; /* device 0's compute: the parameters (and, if resident, the piece) have been sent */
    cudaEvent_t returned;   /* the output device's compute: the output gradient has been sent */
};

/* The first n devices as NCCL's ranks 0 .. n-1; one such set for each n that an update needs. */
struct dp_communicators {
    int n; /* 0: none */
    ncclComm_t comm[DP_MAX_DEVICES];
};

/* One (micro-)batch on its way through the steps. */
struct dp_pass {
    const uint32_t *indices;
    size_t rows;
    int number; /* micro-batch of the update */
    int n;      /* replicas in use */
    struct piece piece[DP_MAX_DEVICES];
    size_t offset; /* rows of the update before it: place in pinned and in resident memory */
    float loss_scale;
    bool first, last;
    uint64_t step;
};

struct dp_workers;

struct dp {
    const struct options *options;
    const struct model *model;
    const struct dataset *dataset;
    int devices_asked;     /* N */
    int devices_used;      /* the most replicas that a micro-batch of this run has */
    int output;            /* --output-device */
    bool per_replica_loss; /* --dp-loss replica, replica-outputs */
    bool gathers;          /* outputs are gathered for the loss: not for N = 1, where the module is called as it is */
    bool keeps_outputs;    /* --dp-loss replica-outputs, N > 1: they are gathered, and nobody here reads them */
    struct dp_device device[DP_MAX_DEVICES];
    struct dp_workers *workers;
    struct optimizer optimizer; /* on device 0 alone */

    /* scatter */
    size_t rows_max;          /* of an update */
    struct loader *loader;    /* NULL: resident */
    char *host_values;        /* pinned: the inputs of the micro-batch that is being scattered */
    int32_t *host_labels;     /* pinned [rows][targets] */
    char *resident;           /* device 0: the same inputs; NULL: not resident */
    int32_t *resident_labels; /* [rows_max][targets] on the output device, or on device 0 for --dp-loss replica */

    /* replicate, reduce */
    struct dp_group *groups;
    int group_count;
    struct dp_communicators communicators[2];
    void *staging;      /* device 0: one group of another device's gradients; p2p, n > 1 */
    float *group_sums;  /* device 0: sums of a group, 16 bit, p2p, n > 2: gradients are rounded once */
    float *accumulated; /* device 0 [flat]: sum of the micro-batches before, fp32; --accumulate > 1 */

    /* gather and loss, on the output device; rows of a micro-batch */
    size_t gathered_max;
    void *gathered, *d_gathered; /* [gathered_max][targets][classes] */
    int32_t *gathered_labels;    /* [gathered_max][targets]; resident: points into resident_labels */
    struct loss *losses;         /* gathered: one a micro-batch */
    int loss_count;
    float *scalars;      /* --dp-loss replica: [accumulate][N] sums of the replicas' losses */
    float *host_scalars; /* pinned, the same */

    /* the update so far */
    int micro_batches;
    int replicas[DP_MAX_MICRO_BATCHES]; /* n of each */
    size_t samples;
};

static inline cudaStream_t dp_compute(const struct dp *dp, int device)
{
    return dp->device[device].replica.compute;
}

/* ---- open.c: of the strategy's table ---- */
int dp_open(void **state, const struct run *run);
void dp_close(void *state, bool failed);

/* ---- scatter.c ---- */
int dp_scatter_open(struct dp *dp);
void dp_scatter_close(struct dp *dp);
int dp_scatter(struct dp *dp, const struct dp_pass *pass);
/* Between devices, of one micro-batch; likewise in the files below. */
uint64_t dp_scatter_bytes(const struct dp *dp, const struct dp_pass *pass);

/* ---- replicate.c ---- */
int dp_replicate_open(struct dp *dp);
void dp_abort(struct dp *dp); /* the communicators: no collective waits any longer */
void dp_replicate_close(struct dp *dp);
int dp_replicate(struct dp *dp, const struct dp_pass *pass);
uint64_t dp_replicate_bytes(const struct dp *dp, const struct dp_pass *pass);
/* Where the loss on device r finds its scale; NULL: none (not fp16). */
const float *dp_loss_scale(const struct dp *dp, int r);
/* The communicators of n ranks; NULL for n = 1 or --dp-transport p2p. */
const struct dp_communicators *dp_communicators_of(const struct dp *dp, int n);

/* ---- parallel_apply.c ---- */
typedef int dp_job(struct dp *dp, const struct dp_pass *pass, int device);
int dp_workers_open(struct dp *dp);
void dp_workers_close(struct dp *dp);
/* Runs the job for devices 0 .. n-1, each on its own thread; alone on the caller's. Waits until all have ended. The
 * first failure by device is returned. */
int dp_parallel_apply(struct dp *dp, const struct dp_pass *pass, dp_job *job);
dp_job dp_forward, dp_backward;

/* ---- gather.c ---- */
int dp_gather_open(struct dp *dp);
void dp_gather_close(struct dp *dp);
int dp_gather(struct dp *dp, const struct dp_pass *pass);           /* outputs, or losses, to the output device */
int dp_loss(struct dp *dp, const struct dp_pass *pass);             /* gathered */
int dp_return_gradients(struct dp *dp, const struct dp_pass *pass); /* of the outputs, to the devices: gathered */
uint64_t dp_gather_bytes(const struct dp *dp, const struct dp_pass *pass);
/* d loss / d logits of this device's piece, where its backward pass reads it. */
const void *dp_output_gradient(const struct dp *dp, const struct dp_pass *pass, int device);

/* ---- reduce.c ---- */
int dp_reduce_open(struct dp *dp);
void dp_reduce_close(struct dp *dp);
int dp_reduce(struct dp *dp, const struct dp_pass *pass);
uint64_t dp_reduce_bytes(const struct dp *dp, const struct dp_pass *pass);

/* ---- strategy.c ---- */
extern const struct strategy strategy_dp;

#endif
