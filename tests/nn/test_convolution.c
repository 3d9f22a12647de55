/* SPDX-License-Identifier: MIT
 *
 * The convolution layer, whichever way this build has, against plain loops in double: batches of one piece and of several, in
 * fp32 and bf16, gradients overwritten and added to.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/tensors.h"
#include "device.h"
#include "gpu/memory.h"
#include "hashed.h"
#include "nn/resnet.h"
#include "sys/log.h"

#define BATCH 9

/* Unit `unit` of a network alone. x, y (the gradient of the output, too) and the filter as the device has them. */
struct layer {
    struct trial trial;
    struct convolution convolution;
    struct convolution_room room;
    enum element_type type;
    size_t x_count, y_count, w_count;
    float *x, *y, *w;
    void *x_device, *y_device, *result;
};

static uint16_t bf16_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* values := rounded to the type, and onto the device. */
static void put(struct layer *l, void *device, float *values, size_t count)
{
    uint16_t *halves = malloc(count * sizeof *halves);
    assert_non_null(halves);
    for (size_t i = 0; i < count && l->type != ELEMENT_F32; i++) {
        halves[i] = bf16_of(values[i]);
        values[i] = element_value(l->type, halves, i);
    }
    const void *from = l->type == ELEMENT_F32 ? (const void *)values : halves;
    device_write(&l->trial.replica, device, from, count * element_size(l->type));
    free(halves);
}

static float *filled(uint32_t tensor, size_t count)
{
    float *values = malloc(count * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++)
        values[i] = hashed(tensor, i);
    return values;
}

static void allocate(struct layer *l)
{
    size_t most = l->x_count > l->y_count ? l->x_count : l->y_count, size = element_size(l->type);
    assert_int_equal(gpu_malloc(&l->x_device, l->x_count * size, MEMORY_DATA), 0);
    assert_int_equal(gpu_malloc(&l->y_device, l->y_count * size, MEMORY_DATA), 0);
    assert_int_equal(gpu_malloc(&l->result, most * size, MEMORY_DATA), 0);
    assert_int_equal(gpu_malloc(&l->room.workspace, l->room.workspace_bytes, MEMORY_ACTIVATIONS), 0);
    l->x = filled(1, l->x_count);
    l->y = filled(2, l->y_count);
    l->w = filled(3, l->w_count);
    put(l, l->x_device, l->x, l->x_count);
    put(l, l->y_device, l->y, l->y_count);
    put(l, replica_parameter(&l->trial.replica, l->convolution.shape.weight), l->w, l->w_count);
}

static void layer_open(struct layer *l, const char *name, struct model_settings settings, int unit)
{
    static struct resnet_network network;
    *l = (struct layer){.type = settings.type};
    trial_open_model(&l->trial, name, &settings, BATCH);
    resnet_network(&network, &l->trial.model);
    const struct convolution_shape *s = &network.units[unit].shape;
    l->convolution.shape = *s;
    l->x_count = BATCH * s->height * s->height * s->in;
    l->y_count = BATCH * s->out_height * s->out_height * s->out;
    l->w_count = s->out * s->kernel * s->kernel * s->in;
    assert_int_equal(convolution_room_open(&l->room, &l->trial.replica), 0);
    assert_int_equal(convolution_open(&l->convolution, &l->room, &l->trial.replica), 0);
    allocate(l);
}

static void layer_close(struct layer *l)
{
    convolution_close(&l->convolution);
    convolution_room_close(&l->room);
    gpu_free(l->x_device), gpu_free(l->y_device), gpu_free(l->result), gpu_free(l->room.workspace);
    free(l->x), free(l->y), free(l->w);
    trial_close(&l->trial);
}

/* ---- the reference ------------------------------------------------------------------------------------------------ */

/* Calls f for each product of the batch: elements of y, x and w. */
static void reference(const struct layer *l, size_t batch, double *to_y, double *to_x, double *to_w)
{
    const struct convolution_shape *s = &l->convolution.shape;
    const size_t pixels = s->out_height * s->out_height;
    for (size_t at = 0; at < batch * pixels * s->out; at++) {
        const size_t o = at % s->out, pixel = at / s->out;
        for (size_t tap = 0; tap < s->kernel * s->kernel; tap++) {
            const size_t h = pixel % pixels / s->out_height * s->stride + tap / s->kernel - s->kernel / 2;
            const size_t w = pixel % s->out_height * s->stride + tap % s->kernel - s->kernel / 2;
            if (h >= s->height || w >= s->height) /* negative ones are large */
                continue;
            const size_t x = ((pixel / pixels * s->height + h) * s->height + w) * s->in;
            const size_t f = (o * s->kernel * s->kernel + tap) * s->in;
            for (size_t c = 0; c < s->in; c++) {
                to_y[at] += (double)l->x[x + c] * (double)l->w[f + c];
                to_x[x + c] += (double)l->y[at] * (double)l->w[f + c];
                to_w[f + c] += (double)l->y[at] * (double)l->x[x + c];
            }
        }
    }
}

static void expect(struct layer *l, const char *what, const void *device, const double *wanted, size_t count, double factor)
{
    void *raw = malloc(count * sizeof(float));
    float *found = malloc(count * sizeof *found), *expected = malloc(count * sizeof *expected);
    assert_true(raw && found && expected);
    device_read(&l->trial.replica, raw, device, count * element_size(l->type));
    for (size_t i = 0; i < count; i++) {
        found[i] = element_value(l->type, raw, i);
        expected[i] = (float)(factor * wanted[i]);
    }
    double difference = tensor_difference(found, expected, count), allowed = l->type == ELEMENT_F32 ? 1e-5 : 0x1.8p-8;
    if (!(difference <= allowed))
        fail_msg("%s differs from the reference by %g, allowed is %g", what, difference, allowed);
    free(raw), free(found), free(expected);
}

static void check_batch(struct layer *l, size_t batch)
{
    const struct convolution_shape *s = &l->convolution.shape;
    const struct replica *r = &l->trial.replica;
    struct backward pass = {&l->trial.replica, batch, false, NULL, NULL};
    double *sums = calloc(l->x_count + l->y_count + l->w_count, sizeof *sums);
    double *x = sums, *y = x + l->x_count, *w = y + l->y_count;

    assert_non_null(sums);
    reference(l, batch, y, x, w);
    assert_int_equal(convolution_forward(&l->convolution, &l->room, r, l->result, l->x_device, batch), 0);
    expect(l, "y", l->result, y, batch * s->out_height * s->out_height * s->out, 1);
    assert_int_equal(convolution_backward_data(&l->convolution, &l->room, &pass, l->result, l->y_device), 0);
    expect(l, "dx", l->result, x, batch * s->height * s->height * s->in, 1);
    for (int times = 1; times <= 2; times++) {
        pass.accumulate = times == 2;
        assert_int_equal(convolution_backward_filter(&l->convolution, &l->room, &pass, l->y_device, l->x_device), 0);
        expect(l, times == 2 ? "dw, added to" : "dw", replica_gradient(r, s->weight), w, l->w_count, times);
    }
    free(sums);
}

static void check_layer(const char *name, struct model_settings settings, int unit)
{
    for (int type = 0; type < 2; type++) {
        struct layer layer;
        settings.type = type ? ELEMENT_BF16 : ELEMENT_F32;
        layer_open(&layer, name, settings, unit);
        check_batch(&layer, BATCH);
        check_batch(&layer, 1);
        layer_close(&layer);
    }
}

/* 128 x 128 windows of 7 x 7 x 3: 9.2 MiB of patches an image in fp32, so without cuDNN a batch of 9 is three pieces, in bf16
 * two. */
static void test_pieces(void **state)
{
    (void)state;
    check_layer("resnet50", (struct model_settings){.inputs = 3 * 256 * 256, .width = 4, .depth = 1, .classes = 3}, 0);
}

/* resnet50's stem (7 x 7, stride 2), and of its second stage 1 x 1, 3 x 3 with stride 2, the shortcut (1 x 1, stride 2). */
static void test_windows(void **state)
{
    static const int units[] = {0, 5, 6, 8};
    (void)state;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        check_layer("resnet50", (struct model_settings){.inputs = 3 * 31 * 31, .width = 4, .depth = 1, .classes = 3}, units[i]);
}

int main(void)
{
    log_set_program("test_convolution");
    device_setup();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
