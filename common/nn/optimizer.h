/* SPDX-License-Identifier: MIT
 *
 * An update of a replica's parameters: torch.optim's SGD, Adam and AdamW over flat buffers, one launch; before it, where
 * asked for, clipping by the global norm and fp16's dynamic loss scale, decided on the device.
 */
#ifndef NN_OPTIMIZER_H
#define NN_OPTIMIZER_H

#include <stddef.h>

#include "kernels/kernels.h"
#include "nn/model.h"

enum optimizer_kind { OPTIMIZER_SGD, OPTIMIZER_ADAMW, OPTIMIZER_ADAM };
enum lr_schedule { SCHEDULE_CONSTANT, SCHEDULE_COSINE, SCHEDULE_LINEAR };

#define LOSS_SCALE_GROWTH_INTERVAL 2000 /* good steps; torch.cuda.amp.GradScaler's, as 65536, 2 and 0.5 are */

struct optimizer_settings {
    enum optimizer_kind kind;
    float lr, momentum, weight_decay, beta1, beta2, epsilon;
    bool nesterov;
    float clip_norm; /* 0: not clipped */
    enum lr_schedule schedule;
    int warmup_updates;  /* the rate rises linearly over them; 0: none */
    int total_updates;   /* where the schedule ends; 0: nowhere, the rate stays */
    float loss_scale;    /* fp16: the first one */
    int growth_interval; /* 0: LOSS_SCALE_GROWTH_INTERVAL */
};

struct optimizer {
    struct optimizer_settings settings;
    struct replica *replica; /* borrowed: holds parameters and gradients */
    float *first, *second;   /* momentum or m; v: device, flat floats, MEMORY_OPTIMIZER; NULL if not needed */
    bool scaled;             /* fp16 */
    struct update_control *control; /* device; NULL: neither scaled nor clipped */
    float *parts;                   /* device: sums of squares, tensor by tensor in registration order; clipped */
    size_t part_count;
    int updates; /* updates enqueued, skipped ones among them: the next one's place in the schedule */
};

/* Makes the replica hold masters. Allocates state (zero) on its device. */
int optimizer_open(struct optimizer *optimizer, const struct optimizer_settings *settings, struct replica *replica);
void optimizer_close(struct optimizer *optimizer);
int optimizer_reset(struct optimizer *optimizer); /* state as after open; synchronous */

/* Enqueues an update from the replica's gradients on its compute stream: masters, state, and in the same launch the
 * working copy. With a loss scale and an inf or NaN in the gradients everything stays as it is but the scale. */
int optimizer_step(struct optimizer *optimizer);

/* The rate of update number `update`, from 0. */
float optimizer_lr(const struct optimizer_settings *settings, int update);

/* fp16: where the scale lies, for struct loss; else NULL. */
const float *optimizer_loss_scale(const struct optimizer *optimizer);

/* Reads and writes the control, synchronous; without a control all 0, and nothing is written. */
int optimizer_read_control(const struct optimizer *optimizer, struct update_control *control);
int optimizer_write_control(struct optimizer *optimizer, const struct update_control *control);

#endif
