/* SPDX-License-Identifier: MIT
 *
 * Checkpoints: the parameters, the optimizer's state and where the training stood, in one safetensors file
 * (data/tensors.h). Tensors are named as the parameters; the optimizer's are "optimizer.first/NAME" (momentum, or
 * AdamW's m) and "optimizer.second/NAME" (AdamW's v). All functions are synchronous; one process saves, any number
 * loads.
 */
#ifndef RUN_CHECKPOINT_H
#define RUN_CHECKPOINT_H

#include <stdint.h>

#include "nn/model.h"
#include "nn/optimizer.h"

/* What else a resumed run needs: the sampler follows from these four, so its next batch is the one that comes next. */
struct checkpoint {
    uint64_t step; /* steps done: the next one's number */
    uint64_t seed;
    uint64_t global_batch;
    char sampler[64]; /* schedule_sampler_text */
};

/* The old file at path stays whole until the new one is durable. EXIT_RESOURCE (reported) on failure. */
int checkpoint_save(const char *path, struct replica *replica, const struct optimizer *optimizer,
                    const struct checkpoint *checkpoint);

/* Fills replica, optimizer (state and updates) and *checkpoint. The file must hold this very model (settings, names,
 * shapes) and this kind of optimizer, and nothing else: EXIT_BAD_FILE with found and expected. Everything is checked
 * before anything is changed. Without cJSON: EXIT_RESOURCE. */
int checkpoint_load(const char *path, struct replica *replica, struct optimizer *optimizer,
                    struct checkpoint *checkpoint);

/* Saves the replica's gradients, divided by loss_scale (1: as they are), under their parameters' names, to compare two
 * runs. */
int checkpoint_save_gradients(const char *path, struct replica *replica, float loss_scale);

#endif
