/* SPDX-License-Identifier: MIT
 *
 * A few updates of a strategy, without the engine: what the tests of DDP compare.
 */
#ifndef TESTS_DDP_TRAINING_H
#define TESTS_DDP_TRAINING_H

#include "run/strategy.h"

/* What a training of `steps` updates is, and what came out of it. */
struct training {
    const struct strategy *strategy;
    int steps;
    struct options options; /* strategy, gpus and batch included */
    struct dataset dataset;
    struct model model;
    float *parameters;                       /* [flat] masters of rank 0's device 0 after the last update */
    float *gradients;                        /* [flat] likewise, of the last update, as floats */
    float *first_gradients;                  /* [flat] likewise, of the first */
    struct update_control control;           /* of rank 0's optimizer at the end */
    double loss_first, loss_last;            /* sums over all ranks */
    int collectives_first, collectives_last; /* of rank 0 in the first and in the last update */
    int different_ranks;                     /* ranks whose parameters are not rank 0's, bit for bit */
    float *buffers;                          /* [buffer_bytes] of rank 0's device 0 after an evaluation behind it all */
    double evaluation_loss;                  /* of that evaluation, rank 0's */
    int moved_apart, different_buffers;      /* ranks whose buffers are not rank 0's: before and after that evaluation */
    int different_evaluations;               /* ranks whose evaluation has not rank 0's loss */
    const char *save;                        /* NULL, or where rank 0 writes a checkpoint at the end */
    struct model *other_models;              /* [gpus] or NULL: a model for each rank, in place of `model` */
};

/* Parses the command line (a list that ends with NULL, without the program's name) and opens data and model. 0 or an
 * exit code. */
int training_open(struct training *training, const struct strategy *strategy, const char *const *arguments);
void training_close(struct training *training);

/* Runs it: ranks as threads if there are several. codes[ranks]: exit codes. */
int training_run(struct training *training, int *codes);

#endif
