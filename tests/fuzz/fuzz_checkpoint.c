/* SPDX-License-Identifier: MIT
 *
 * Any bytes as a file of tensors and as a checkpoint of a small model. The frame and the checksum are put right first, or nothing
 * would ever get past them: byte 0 is the header's length in 64 bytes, then comes what stands behind the checksum's digits.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/tensors.h"
#include "fuzz.h"
#include "gpu/backend.h"
#include "nn/optimizer.h"
#include "run/checkpoint.h"
#include "sys/checksum.h"

#define PREFIX "{\"__metadata__\":{\"checksum\":\""
#define DIGITS 16
#define DIGITS_AT (8 + sizeof PREFIX - 1)

/* As a writer would have put it round these bytes. */
static size_t seal(uint8_t *file, unsigned blocks, const uint8_t *data, size_t bytes)
{
    size_t header = blocks * (size_t)64 - 8, total = DIGITS_AT + DIGITS + bytes;
    char digits[DIGITS + 1];

    memcpy(file + DIGITS_AT + DIGITS, data, bytes);
    for (int b = 0; b < 8; b++)
        file[b] = (uint8_t)((uint64_t)header >> (8 * b));
    memcpy(file + 8, PREFIX "0000000000000000", DIGITS_AT + DIGITS - 8);
    uint64_t sum = checksum(CHECKSUM_SEED, file, DIGITS_AT); /* in these pieces, as tensors.c */
    sum = checksum(sum, file + DIGITS_AT, DIGITS);
    snprintf(digits, sizeof digits, "%016" PRIx64, checksum(sum, file + DIGITS_AT + DIGITS, bytes));
    memcpy(file + DIGITS_AT, digits, DIGITS);
    return total;
}

/* A model on device 0, with momentum, in fp16: its checkpoints have all that there is. */
static struct training {
    struct model model;
    struct replica replica;
    struct optimizer optimizer;
} training;

static void need(int status)
{
    if (status)
        abort();
}

static void open_training(void)
{
    const struct gpu_settings settings = {.cores_per_device = 1, .devices_used = 1};
    const struct model_settings model = {.inputs = 3, .width = 4, .depth = 1, .classes = 2, .type = ELEMENT_F16};
    const struct optimizer_settings optimizer = {.kind = OPTIMIZER_SGD, .lr = 0.1F, .momentum = 0.9F, .loss_scale = 65536};

    if (training.model.type)
        return;
    need(gpu_configure(&settings));
    need(cudaSetDevice(0) != cudaSuccess);
    need(model_open(&training.model, "mlp", &model));
    need(replica_open(&training.replica, &training.model, 0, 1, true));
    need(optimizer_open(&training.optimizer, &optimizer, &training.replica));
    need(replica_initialize(&training.replica, 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static uint8_t file[FUZZ_MAX_BYTES + 64];
    struct tensor_file tensors;
    struct checkpoint found;

    if (bytes == 0 || bytes > FUZZ_MAX_BYTES)
        return 0;
    open_training();
    const char *path = fuzz_file(file, seal(file, data[0], data + 1, bytes - 1));
    if (tensors_read(path, &tensors) != 0)
        return 0;
    for (size_t i = 0; i < tensors.count; i++) /* reads all that was promised */
        (void)checksum(CHECKSUM_SEED, tensors.views[i].data, tensors.views[i].count * sizeof(float));
    tensors_close(&tensors);
    if (checkpoint_load(path, &training.replica, &training.optimizer, &found) == 0) {
        fuzz_accepted++;
        struct update_control control;
        need(optimizer_read_control(&training.optimizer, &control));
        if (training.optimizer.updates < 0 || !(control.loss_scale > 0) || control.updates < 0 || control.skipped < 0)
            abort();
    }
    return 0;
}

/* A checkpoint of this model, as it is written. */
size_t fuzz_seed(unsigned number, uint8_t *data)
{
    char path[] = "/tmp/dpbench-fuzz-XXXXXX";

    int descriptor = number == 0 ? mkstemp(path) : -1;
    if (descriptor < 0)
        return 0;
    open_training();
    need(checkpoint_save(path, &training.replica, &training.optimizer, &(struct checkpoint){.step = 3, .seed = 1, .global_batch = 8}));
    FILE *file = fopen(path, "rb");
    uint8_t written[FUZZ_MAX_BYTES];
    size_t bytes = file ? fread(written, 1, sizeof(written), file) : 0;
    if (bytes <= DIGITS_AT + DIGITS || bytes == sizeof(written))
        abort();
    fclose(file);
    close(descriptor);
    unlink(path);
    data[0] = (uint8_t)((written[0] + 256 * (size_t)written[1] + 8) / 64);
    memcpy(data + 1, written + DIGITS_AT + DIGITS, bytes - DIGITS_AT - DIGITS);
    return bytes - DIGITS_AT - DIGITS + 1;
}
