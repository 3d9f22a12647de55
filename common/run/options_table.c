/* SPDX-License-Identifier: MIT
 *
 * One row an option, in the order in which --help lists them.
 */
#include "run/options_table.h"

#include <string.h>

#define MEMBER(name) offsetof(struct options, name)

const struct option_row option_rows[] = {
    /* what is trained */
    {"strategy", OPTION_NAME, FOR_DP, SCOPE_KEY, MEMBER(strategy), .choices = {"dp", "single"}, .key = "strategy",
     .value = "NAME", .meaning = "dp: DataParallel; single: one device, no wrapper"},
    {"gpus", OPTION_INTEGER, FOR_BOTH, SCOPE_KEY, MEMBER(gpus), 1, 64, .key = "gpus", .value = "N",
     .meaning = "devices"},
    {"model", OPTION_TEXT, FOR_BOTH, SCOPE_KEY, MEMBER(model), .key = "model", .value = "NAME",
     .meaning = "what is trained"},
    {"inputs", OPTION_SIZE, FOR_BOTH, SCOPE_VARIANT, MEMBER(model_settings.inputs), 1, 1 << 20, .key = "inputs",
     .value = "N", .meaning = "mlp, resnet: floats a sample (default: the data's, else the model's)"},
    {"width", OPTION_SIZE, FOR_BOTH, SCOPE_VARIANT, MEMBER(model_settings.width), 1, 1 << 16, .key = "width",
     .value = "N", .meaning = "mlp: neurons of a hidden layer; resnet: channels of the first stage; lstm: of the hidden state "
                              "(default: the model's)"},
    {"depth", OPTION_SIZE, FOR_BOTH, SCOPE_VARIANT, MEMBER(model_settings.depth), 1, 64, .key = "depth", .value = "N",
     .meaning = "mlp: hidden layers; resnet: blocks a stage (default: the model's)"},
    {"classes", OPTION_SIZE, FOR_BOTH, SCOPE_VARIANT, MEMBER(model_settings.classes), 1, 1 << 20, .key = "classes",
     .value = "N", .meaning = "mlp, resnet: outputs (default: the data's, else the model's)"},
    {"data", OPTION_TEXT, FOR_BOTH, SCOPE_KEY, MEMBER(data), .key = "data", .value = "WHAT",
     .meaning = "digits, synthetic, a folder (MNIST, CIFAR-10, CIFAR-100), or a file of text for models of tokens"},
    {"sampler", OPTION_CHOICE, FOR_BOTH, SCOPE_VARIANT, MEMBER(sampler), .choices = {"chunk", "distributed"},
     .key = "sampler", .value = "NAME",
     .meaning = "the next B of the epoch's order, or dealt out as DistributedSampler does"},
    {"drop-last", OPTION_FLAG, FOR_BOTH, SCOPE_VARIANT, MEMBER(drop_last), .key = "drop_last",
     .meaning = "distributed: leave samples out, not in twice, when N does not divide them"},
    {"loaders", OPTION_INTEGER, FOR_BOTH, SCOPE_VARIANT, MEMBER(loaders), 0, 16, .key = "loaders", .value = "L",
     .meaning = "threads a device that load the next batches (0: the training thread does)"},
    {"global-batch", OPTION_SIZE, FOR_BOTH, SCOPE_KEY, MEMBER(global_batch), 0, 1 << 24, .key = "global_batch",
     .value = "B", .meaning = "samples of an update over all devices (default 128)"},
    {"batch-per-gpu", OPTION_SIZE, FOR_BOTH, SCOPE_KEY, MEMBER(batch_per_gpu), 0, 1 << 24, .key = "batch_per_gpu",
     .value = "b", .meaning = "the same, said per device: B = b x N (default: B / N)"},
    {"accumulate", OPTION_INTEGER, FOR_BOTH, SCOPE_KEY, MEMBER(accumulate), 1, 64, .key = "accumulate", .value = "K",
     .meaning = "micro-batches that the global batch is cut into"},
    {"precision", OPTION_NAME, FOR_BOTH, SCOPE_KEY, MEMBER(precision), .choices = {"fp32", "bf16", "fp16"},
     .key = "precision", .value = "NAME", .meaning = "of tensors and products; updates are made in fp32"},
    {"loss", OPTION_CHOICE, FOR_BOTH, SCOPE_VARIANT, MEMBER(loss), .choices = {"mean", "sum"}, .key = "loss",
     .value = "NAME", .meaning = "mean or sum over the samples"},
    {"loss-average", OPTION_CHOICE, FOR_BOTH, SCOPE_VARIANT, MEMBER(loss_average), .choices = {"samples", "ranks"},
     .key = "loss_average", .value = "NAME",
     .meaning = "uneven shards: over the samples, or PyTorch's mean of the ranks' means"},
    {"optimizer", OPTION_CHOICE, FOR_BOTH, SCOPE_KEY, MEMBER(optimizer.kind), .choices = {"sgd", "adamw", "adam"},
     .key = "optimizer", .value = "NAME", .meaning = "adam: weight decay as part of the gradient; adamw: beside it"},
    {"lr", OPTION_FLOAT, FOR_BOTH, SCOPE_VARIANT, MEMBER(optimizer.lr), 0, 1e6, .key = "lr", .value = "X",
     .meaning = "learning rate (default sgd 0.01, adam and adamw 0.001)"},
    {"momentum", OPTION_FLOAT, FOR_BOTH, SCOPE_VARIANT, MEMBER(optimizer.momentum), 0, 1, .key = "momentum",
     .value = "X", .meaning = "of sgd"},
    {"weight-decay", OPTION_FLOAT, FOR_BOTH, SCOPE_VARIANT, MEMBER(optimizer.weight_decay), 0, 1e6,
     .key = "weight_decay", .value = "X", .meaning = "pull of the weights to 0 (default sgd and adam 0, adamw 0.01)"},
    {"nesterov", OPTION_FLAG, FOR_BOTH, SCOPE_VARIANT, MEMBER(optimizer.nesterov), .key = "nesterov",
     .meaning = "sgd: step along the gradient and the momentum that comes next"},
    {"clip-norm", OPTION_FLOAT, FOR_BOTH, SCOPE_VARIANT, MEMBER(optimizer.clip_norm), 0, 1e30, .key = "clip_norm",
     .value = "X", .meaning = "the most that the norm of all gradients together may be; 0: any"},
    {"schedule", OPTION_CHOICE, FOR_BOTH, SCOPE_VARIANT, MEMBER(optimizer.schedule),
     .choices = {"constant", "cosine", "linear"}, .key = "schedule", .value = "NAME",
     .meaning = "of the learning rate: to 0 at the end"},
    {"schedule-updates", OPTION_INTEGER, FOR_BOTH, SCOPE_VARIANT, MEMBER(optimizer.total_updates), 1, 1e9,
     .key = "schedule_updates", .value = "T", .meaning = "the schedule's end (default: the end of this run)"},
    {"lr-warmup", OPTION_INTEGER, FOR_BOTH, SCOPE_VARIANT, MEMBER(optimizer.warmup_updates), 0, 1e8,
     .key = "lr_warmup", .value = "W", .meaning = "updates over which the learning rate rises linearly"},
    {"lr-scale", OPTION_CHOICE, FOR_BOTH, SCOPE_VARIANT, MEMBER(lr_scale), .choices = {"none", "linear", "sqrt"},
     .key = "lr_scale", .value = "NAME", .meaning = "learning rate times 1, N or the root of N"},
    {"loss-scale", OPTION_FLOAT, FOR_BOTH, SCOPE_VARIANT, MEMBER(optimizer.loss_scale), 1, 1e30, .key = "loss_scale",
     .value = "X", .meaning = "fp16: the first one; doubled after 2000 good updates, halved at inf"},
    {"seed", OPTION_SEED, FOR_BOTH, SCOPE_RUN, MEMBER(seed), .key = "seed", .value = "S",
     .meaning = "of initial weights, shuffling and synthetic data"},

    /* how long, and with what proof */
    {"steps", OPTION_INTEGER, FOR_BOTH, SCOPE_RUN, MEMBER(steps), 1, 1e8, .key = "steps", .value = "K",
     .meaning = "timed updates"},
    {"warmup", OPTION_INTEGER, FOR_BOTH, SCOPE_RUN, MEMBER(warmup), 0, 1e8, .key = "warmup", .value = "W",
     .meaning = "updates before them: training too, but not timed"},
    {"epochs", OPTION_INTEGER, FOR_BOTH, SCOPE_RUN, MEMBER(epochs), 1, 1e6, .key = "epochs", .value = "E",
     .meaning = "train to the end of epoch E instead (default: --steps)"},
    {"checksum", OPTION_FLAG, FOR_BOTH, SCOPE_RUN, MEMBER(checksum), .key = "checksum",
     .meaning = "3 updates from the initial weights first, and a checksum over the weights they lead to"},
    {"save-gradients", OPTION_TEXT, FOR_BOTH, SCOPE_RUN, MEMBER(save_gradients), .key = "save_gradients",
     .value = "FILE", .meaning = "the gradients of the first update from the initial weights, as safetensors"},
    {"save", OPTION_TEXT, FOR_BOTH, SCOPE_RUN, MEMBER(save), .key = "save", .value = "FILE",
     .meaning = "write a checkpoint at the end"},
    {"resume", OPTION_TEXT, FOR_BOTH, SCOPE_RUN, MEMBER(resume), .key = "resume", .value = "FILE",
     .meaning = "go on from a checkpoint"},

    /* where it runs */
    {"device", OPTION_CHOICE, FOR_BOTH, SCOPE_RUN, MEMBER(device), .choices = {"auto", "cuda", "soft"}, .key = "device",
     .value = "NAME", .meaning = "auto takes CUDA if a device answers, else soft GPUs"},
    {"device-memory", OPTION_MEBIBYTES, FOR_BOTH, SCOPE_VARIANT, MEMBER(device_memory), 1, 1 << 24,
     .key = "device_memory", .value = "MIB", .meaning = "the most a device may hold (default: all it has)"},
    {"cores-per-device", OPTION_INTEGER, FOR_BOTH, SCOPE_LOCAL, MEMBER(cores_per_device), 1, 1024, .value = "C",
     .meaning = "soft GPUs: cores of each (default: usable cores / N, at least 1)"},
    {"timeout", OPTION_REAL, FOR_BOTH, SCOPE_RUN, MEMBER(timeout), 0.1, 86400, .key = "timeout", .value = "SEC",
     .meaning = "limit of a collective, and of a step (soft GPUs: in which no device ends a task)"},
    {"shape-only", OPTION_FLAG, FOR_BOTH, SCOPE_RUN, MEMBER(shape_only), .key = "shape_only",
     .meaning = "soft GPUs: record the graph and compute nothing"},
    {"find-batch", OPTION_FLAG, FOR_BOTH, SCOPE_RUN, MEMBER(find_batch), .key = "find_batch",
     .meaning = "soft GPUs: the largest batch per device that fits; trains nothing"},

    /* what is written */
    {"json", OPTION_TEXT, FOR_BOTH, SCOPE_LOCAL, MEMBER(json), .value = "FILE",
     .meaning = "results, one object a line"},
    {"trace", OPTION_TEXT, FOR_BOTH, SCOPE_RUN, MEMBER(trace), .key = "trace", .value = "FILE",
     .meaning = "timeline for Perfetto or Chrome"},
    {"record", OPTION_TEXT, FOR_BOTH, SCOPE_LOCAL, MEMBER(record), .value = "FILE",
     .meaning = "soft GPUs: graph of the run"},

    /* DataParallel's own */
    {"dp-transport", OPTION_CHOICE, FOR_DP, SCOPE_VARIANT, MEMBER(dp_transport), .choices = {"nccl", "p2p"},
     .key = "transport", .value = "NAME", .meaning = "replicate and reduce by NCCL, or by copies between devices"},
    {"dp-loss", OPTION_CHOICE, FOR_DP, SCOPE_VARIANT, MEMBER(dp_loss), .choices = {"gathered", "replica", "replica-outputs"},
     .key = "dp_loss", .value = "NAME", .meaning = "on the gathered outputs; each replica its own; the same, with the outputs gathered beside it"},
    {"output-device", OPTION_INTEGER, FOR_DP, SCOPE_VARIANT, MEMBER(output_device), 0, 63, .key = "output_device",
     .value = "I", .meaning = "where outputs are gathered and the loss is taken"},

    /* DistributedDataParallel's own */
    {"bucket-cap-mb", OPTION_REAL, FOR_DDP, SCOPE_VARIANT, MEMBER(bucket_cap_mib), 0, 1 << 20, .key = "bucket_cap_mb",
     .value = "X", .meaning = "MiB after which a bucket is closed (the first: 1)"},
    {"no-overlap", OPTION_FLAG, FOR_DDP, SCOPE_VARIANT, MEMBER(no_overlap), .key = "no_overlap",
     .meaning = "all-reduce after the backward pass, not during it"},
    {"sync-bn", OPTION_FLAG, FOR_DDP, SCOPE_VARIANT, MEMBER(sync_bn), .key = "sync_bn",
     .meaning = "SyncBatchNorm: statistics over all ranks' samples"},
    {"gradient-as-bucket-view", OPTION_FLAG, FOR_DDP, SCOPE_VARIANT, MEMBER(gradient_as_bucket_view),
     .key = "gradient_as_bucket_view", .meaning = "gradients live in their buckets: no copies, P bytes less"},
    {"rendezvous-timeout", OPTION_REAL, FOR_DDP, SCOPE_LOCAL, MEMBER(rendezvous_timeout), 0.1, 86400, .value = "SEC",
     .meaning = "until all ranks must have joined"},
    {"local-rank", OPTION_INTEGER, FOR_DDP, SCOPE_LOCAL, MEMBER(local_rank), 0, 63, .value = "R",
     .meaning = "also --local_rank, as launchers give it (default: LOCAL_RANK)"},

    /* of later versions */
    {"find-unused", OPTION_LATER, FOR_DDP, .meaning = "the search for unused parameters"},
    {"static-graph", OPTION_LATER, FOR_DDP, .meaning = "the static graph"},
    {"comm-hook", OPTION_LATER, FOR_DDP, .value = "NAME", .meaning = "communication hooks"},

    /* internal: asked by dp-train and ddp-train */
    {"device-count", OPTION_FLAG, FOR_BOTH, SCOPE_LOCAL, MEMBER(device_count),
     .meaning = "print how many devices can be used"},
};

const size_t option_row_count = sizeof option_rows / sizeof option_rows[0];
_Static_assert(sizeof option_rows / sizeof option_rows[0] <= OPTION_ROWS_MAX,
               "options.c marks the rows given in OPTION_ROWS_MAX places");

const struct option_row *option_named(const char *name)
{
    const struct option_row *row = option_rows;

    while (strcmp(row->name, name) != 0)
        row++;
    return row;
}

void options_set_defaults(struct options *options, const char *program)
{
    bool ddp = program[0] == 'd' && program[1] == 'd';

    *options = (struct options){
        .program = program,
        .strategy = ddp ? "ddp" : "dp",
        .gpus = 1,
        .model = "mlp",
        .data = "synthetic",
        .global_batch = 128,
        .steps = 20,
        .warmup = 3,
        .precision = "fp32",
        .optimizer =
            {.lr = 0.01F, .momentum = 0.9F, .beta1 = 0.9F, .beta2 = 0.999F, .epsilon = 1e-8F, .loss_scale = 65536},
        .seed = 1,
        .accumulate = 1,
        .loaders = 1,
        .timeout = 30,
        .bucket_cap_mib = 25,
        .rendezvous_timeout = 60,
        .local_rank = -1,
    };
}
