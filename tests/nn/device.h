/* SPDX-License-Identifier: MIT
 *
 * A model on device 0 for tests, and the ways to fill and read it. Everything here fails the test if it fails.
 */
#ifndef TESTS_NN_DEVICE_H
#define TESTS_NN_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "nn/model.h"

/* Sets the backend up; on CUDA without a device ends the program with 77 (skipped). First thing in main. */
void device_setup(void);

/* A model (trial_open: an mlp) and its replica with gradients. */
struct trial {
    struct model model;
    struct replica replica;
};

void trial_open(struct trial *trial, const struct model_settings *settings, size_t batch_max);
void trial_open_model(struct trial *trial, const char *name, const struct model_settings *settings, size_t batch_max);
void trial_close(struct trial *trial);

/* Copies between host and device through pinned memory; done when they return. */
void device_write(struct replica *replica, void *device, const void *host, size_t bytes);
void device_read(struct replica *replica, void *host, const void *device, size_t bytes);

/* A flat buffer of the replica, in new memory (free). */
char *flat_read(struct replica *replica, const void *flat_device);
/* Parameter `index` in such a buffer. */
float *flat_parameter(const struct model *model, char *flat, int index);
/* The replica's parameters in double, an array each, in registration order: for references and finite differences. */
double **double_parameters(struct replica *replica);
void double_parameters_free(const struct model *model, double **parameters);

#endif
