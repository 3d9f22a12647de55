/* SPDX-License-Identifier: MIT */
#include "device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/backend.h"

void device_setup(void)
{
    struct gpu_settings settings = {.cores_per_device = 1, .devices_used = 1, .collective_limit_s = 30};
    int count = 0;

    if (gpu_configure(&settings) != 0)
        exit(1);
    if (gpu_device_count(&count) != 0)
        exit(strcmp(gpu_backend_name(), "cuda") == 0 ? 77 : 1);
}

void trial_open(struct trial *trial, const struct model_settings *settings, size_t batch_max)
{
    trial_open_model(trial, "mlp", settings, batch_max);
}

void trial_open_model(struct trial *trial, const char *name, const struct model_settings *settings, size_t batch_max)
{
    assert_int_equal(model_open(&trial->model, name, settings), 0);
    assert_int_equal(replica_open(&trial->replica, &trial->model, 0, batch_max, true), 0);
}

void trial_close(struct trial *trial)
{
    replica_close(&trial->replica);
    model_close(&trial->model);
}

static void copy(struct replica *replica, void *device, void *host_out, const void *host_in, size_t bytes)
{
    void *pinned = NULL;

    if (bytes == 0)
        return;
    assert_int_equal(cudaMallocHost(&pinned, bytes), cudaSuccess);
    if (host_in)
        memcpy(pinned, host_in, bytes);
    assert_int_equal(cudaMemcpyAsync(host_in ? device : pinned, host_in ? pinned : device, bytes,
                                     host_in ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, replica->compute),
                     cudaSuccess);
    assert_int_equal(cudaStreamSynchronize(replica->compute), cudaSuccess);
    if (host_out)
        memcpy(host_out, pinned, bytes);
    assert_int_equal(cudaFreeHost(pinned), cudaSuccess);
}

void device_write(struct replica *replica, void *device, const void *host, size_t bytes)
{
    copy(replica, device, NULL, host, bytes);
}

void device_read(struct replica *replica, void *host, const void *device, size_t bytes)
{
    copy(replica, (void *)device, host, NULL, bytes);
}

char *flat_read(struct replica *replica, const void *flat_device)
{
    char *flat = malloc(replica->model->flat_bytes);

    assert_non_null(flat);
    assert_int_equal(replica_read(replica, flat_device, flat), 0);
    return flat;
}

float *flat_parameter(const struct model *model, char *flat, int index)
{
    return (float *)(void *)(flat + model->parameters[index].offset);
}

double **double_parameters(struct replica *replica)
{
    const struct model *model = replica->model;
    char *flat = flat_read(replica, replica->parameters);
    double **parameters = calloc((size_t)model->parameter_count, sizeof *parameters);

    assert_non_null(parameters);
    for (int i = 0; i < model->parameter_count; i++) {
        size_t count = model->parameters[i].count;
        parameters[i] = calloc(count, sizeof **parameters);
        assert_non_null(parameters[i]);
        for (size_t j = 0; j < count; j++)
            parameters[i][j] = (double)flat_parameter(model, flat, i)[j];
    }
    free(flat);
    return parameters;
}

void double_parameters_free(const struct model *model, double **parameters)
{
    for (int i = 0; i < model->parameter_count; i++)
        free(parameters[i]);
    free(parameters);
}
