/* SPDX-License-Identifier: MIT
 *
 * The command line that both trainers share. GNU style; numbers parsed whole and independent of the locale; unknown
 * options refused with the nearest known one; every refusal names option, value found and what is allowed (EXIT_USAGE).
 */
#ifndef RUN_OPTIONS_H
#define RUN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/sampler.h"
#include "nn/model.h"
#include "nn/optimizer.h"

enum device_choice { DEVICE_AUTO, DEVICE_CUDA, DEVICE_SOFT };
enum loss_average { LOSS_AVERAGE_SAMPLES, LOSS_AVERAGE_RANKS };
enum loss_reduction { LOSS_MEAN, LOSS_SUM };
enum lr_scale { LR_SCALE_NONE, LR_SCALE_LINEAR, LR_SCALE_SQRT };
enum dp_transport { DP_TRANSPORT_NCCL, DP_TRANSPORT_P2P };
enum dp_loss { DP_LOSS_GATHERED, DP_LOSS_REPLICA, DP_LOSS_REPLICA_OUTPUTS };

struct options {
    const char *program;  /* "dp-train" or "ddp-train" */
    const char *strategy; /* "single", "dp" or "ddp" */
    int gpus;
    const char *model;
    struct model_settings model_settings; /* --inputs --width --depth --classes */
    const char *data;
    enum sampler_kind sampler;
    bool drop_last;      /* distributed sampler */
    size_t global_batch; /* always resolved; batch_per_gpu = ceil(global/gpus) for the row */
    size_t batch_per_gpu;
    bool batch_is_per_gpu;     /* --batch-per-gpu was given: the global batch follows the number of devices */
    int steps, warmup, epochs; /* epochs > 0 sets steps */
    const char *precision;     /* "fp32", "bf16", "fp16" */
    struct optimizer_settings optimizer; /* as given: see options_optimizer */
    enum lr_scale lr_scale;
    uint64_t seed;
    int accumulate;
    int loaders; /* threads that load, for each device */
    enum device_choice device;
    size_t device_memory; /* bytes; 0: all */
    int cores_per_device; /* soft: 0: usable cores / devices, at least 1 */
    enum loss_average loss_average;
    enum loss_reduction loss;
    double timeout;                                                     /* seconds, collective limit; 30 */
    const char *json, *trace, *record, *save, *resume, *save_gradients; /* paths or NULL */
    bool shape_only, checksum;
    bool find_batch;   /* implies shape_only */
    bool device_count; /* --device-count (dp-train and ddp-train ask their backends): print it and end */
    enum dp_transport dp_transport;
    enum dp_loss dp_loss;
    int output_device;         /* DP */
    double bucket_cap_mib;     /* DDP: 25 */
    bool no_overlap;           /* DDP */
    bool sync_bn;              /* DDP: SyncBatchNorm */
    bool gradient_as_bucket_view; /* DDP */
    double rendezvous_timeout; /* DDP: 60 */
    int local_rank;            /* DDP: --local_rank; -1: not given */
};

/* Parses into *options with defaults. 0, or EXIT_USAGE (reported), or -1: --help or --version was printed, exit 0. */
int options_parse(struct options *options, const char *program, int argc, char **argv);

/* What the optimizer is to be: the learning rate is scaled by --lr-scale and the number of devices. */
struct optimizer_settings options_optimizer(const struct options *options);
/* "sgd", "adamw", "adam" */
const char *options_optimizer_name(const struct options *options);

/* The number of devices when it is not --gpus' (a rank under torchrun: WORLD_SIZE). Resolves the batch anew. */
void options_set_gpus(struct options *options, int gpus);

/* The options that all ranks must agree on, as one line of text in canonical order ("model=mlp;global_batch=128;...").
 * The rendezvous compares it; the caller frees. */
char *options_canonical(const struct options *options);

/* The options that make the `variant` column: those that differ from the default and are no key column of their own,
 * canonical order, "bucket_cap_mb=25;transport=nccl". The caller frees. */
char *options_variant(const struct options *options);

#endif
