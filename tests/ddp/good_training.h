/* SPDX-License-Identifier: MIT
 *
 * Trainings that must succeed, and what is compared of them. Everything here fails the test if it fails.
 */
#ifndef TESTS_DDP_GOOD_TRAINING_H
#define TESTS_DDP_GOOD_TRAINING_H

#include "training.h"

#define MAX_RANKS_HERE 8
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* Setup of a group of tests: MAX_RANKS_HERE devices; warnings are not printed. */
int configure_devices(void **state);

/* As training_open; for so many updates. */
void good_training_open(struct training *training, const struct strategy *strategy, const char *const *arguments,
                        int steps);
/* As training_run; all ranks end with rank 0's parameters. */
void good_training_run(struct training *training);
/* Both. type: in place of the model's own; NULL: that. */
void good_training(struct training *training, const struct strategy *strategy, const struct model_type *type,
                   const char *const *arguments, int steps);

/* max|x - y| / max|y| of the worst of `count` tensors, each found by its own description; infinite if any is not
 * finite. */
double worst_difference(const struct parameter *x_tensors, const float *x, const struct parameter *y_tensors,
                        const float *y, int count);
/* The same of a's and b's parameters, and of their last gradients. */
double parameters_apart(const struct training *a, const struct training *b);
double gradients_apart(const struct training *a, const struct training *b);

/* What all-reduces have moved between devices since gpu_traffic_reset. */
uint64_t allreduced_bytes(void);

#endif
