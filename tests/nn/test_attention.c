/* SPDX-License-Identifier: MIT
 *
 * Attention that keeps no P, against plain loops in double: tokens that blocks divide and don't, many blocks of few rows, several
 * heads and samples, in fp32 and 16 bits. What it may write ends with guard bytes and begins as NaN.
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
#include "nn/attention.h"
#include "sys/log.h"

#define GUARD 256 /* bytes */
#define FILL 0xff /* NaN in all types */

enum { QKV, D_O, O, D_QKV, STATISTICS, SCRATCH, SCRATCH_D, BUFFERS };

/* Values are those of the type; qkv and d_o are given, o and d_qkv expected. */
struct trial_attention {
    struct attention a;
    enum element_type type;
    struct trial trial;
    void *buffers[BUFFERS];
    size_t bytes[BUFFERS];
    size_t count; /* batch heads tokens width */
    double *qkv, *d_o, *o, *d_qkv;
};

/* ---- the reference ------------------------------------------------------------------------------------------------- */

/* P of one row of a sample and head: query t, over the keys up to it. */
static void reference_row(const struct attention *a, const double *q, const double *k, size_t t, double *p)
{
    double sum = 0;

    for (size_t s = 0; s <= t; s++) {
        p[s] = 0;
        for (size_t i = 0; i < a->width; i++)
            p[s] += q[t * a->width + i] * k[s * a->width + i];
        sum += p[s] = exp(p[s] / sqrt((double)a->width));
    }
    for (size_t s = 0; s <= t; s++)
        p[s] /= sum;
}

/* o += P V, of one row; d_qkv += its gradients, if d_qkv is not NULL. */
static void reference_pair(const struct trial_attention *t, size_t pair, double *o, double *d_qkv)
{
    size_t width = t->a.width, first = pair * t->a.tokens * width;
    const double *q = t->qkv + first, *k = q + t->count, *v = k + t->count, *d_o = t->d_o + first;
    double p[1024], d_p[1024], *d_q = d_qkv ? d_qkv + first : NULL;

    for (size_t row = 0; row < t->a.tokens; row++) {
        double along = 0;
        reference_row(&t->a, q, k, row, p);
        for (size_t s = 0; s <= row; s++) {
            d_p[s] = 0;
            for (size_t i = 0; i < width; i++) {
                o[first + row * width + i] += p[s] * v[s * width + i];
                d_p[s] += d_o[row * width + i] * v[s * width + i];
            }
            along += p[s] * d_p[s];
        }
        for (size_t at = 0; d_q && at < (row + 1) * width; at++) {
            size_t s = at / width, i = at % width;
            double d_score = p[s] * (d_p[s] - along) / sqrt((double)width);
            d_q[row * width + i] += d_score * k[at];
            d_q[t->count + at] += d_score * q[row * width + i];
            d_q[2 * t->count + at] += p[s] * d_o[row * width + i];
        }
    }
}

/* ---- buffers ------------------------------------------------------------------------------------------------------- */

static void make_buffer(struct trial_attention *t, int buffer, size_t elements, size_t element)
{
    t->bytes[buffer] = elements * element;
    char *fill = malloc(t->bytes[buffer] + GUARD);
    assert_non_null(fill);
    memset(fill, FILL, t->bytes[buffer] + GUARD);
    assert_int_equal(gpu_malloc(&t->buffers[buffer], t->bytes[buffer] + GUARD, MEMORY_ACTIVATIONS), 0);
    device_write(&t->trial.replica, t->buffers[buffer], fill, t->bytes[buffer] + GUARD);
    free(fill);
}

static char *read_buffer(struct trial_attention *t, int buffer)
{
    char *bytes = malloc(t->bytes[buffer] + GUARD);
    assert_non_null(bytes);
    device_read(&t->trial.replica, bytes, t->buffers[buffer], t->bytes[buffer] + GUARD);
    for (size_t i = 0; i < GUARD; i++)
        if ((unsigned char)bytes[t->bytes[buffer] + i] != FILL)
            fail_msg("buffer %d: byte %zu behind its end was written", buffer, i);
    return bytes;
}

/* A number near x of the type, cut off: bf16 is the upper half of a float, fp16 has 5 bits of its exponent and 10 of its
 * fraction. */
static uint16_t half_of(enum element_type type, float x)
{
    uint32_t bits, size;

    memcpy(&bits, &x, sizeof bits);
    size = bits & 0x7fffffff;
    if (type == ELEMENT_BF16)
        return (uint16_t)(bits >> 16);
    return (uint16_t)((bits >> 16 & 0x8000) | (fabsf(x) < 0x1p-14F ? 0 : (size - (UINT32_C(112) << 23)) >> 13));
}

/* Random values in the buffer, times `size`; the returned copy has those of the type. */
static double *fill_buffer(struct trial_attention *t, int buffer, size_t count, float size)
{
    double *values = malloc((count + 1) * sizeof *values);
    float *floats = malloc((count + 1) * sizeof *floats);
    uint16_t *halves = malloc((count + 1) * sizeof *halves);

    assert_true(values && floats && halves);
    for (size_t i = 0; i < count; i++) {
        floats[i] = hashed((uint32_t)buffer, i) * size;
        halves[i] = half_of(t->type, floats[i]);
        values[i] = t->type == ELEMENT_F32 ? (double)floats[i] : (double)element_value(t->type, halves, i);
    }
    device_write(&t->trial.replica, t->buffers[buffer], t->type == ELEMENT_F32 ? (void *)floats : halves, t->bytes[buffer]);
    free(halves);
    free(floats);
    return values;
}

static void attention_open(struct trial_attention *t)
{
    size_t element = element_size(t->type), count = t->a.batch * t->a.heads * t->a.tokens * t->a.width;

    trial_open_model(&t->trial, "gpt-tiny", &(struct model_settings){.type = t->type}, 1);
    t->count = count;
    for (int buffer = 0; buffer < STATISTICS; buffer++)
        make_buffer(t, buffer, buffer == QKV || buffer == D_QKV ? 3 * count : count, element);
    make_buffer(t, STATISTICS, attention_statistics(&t->a), sizeof(float));
    make_buffer(t, SCRATCH, ATTENTION_SCRATCH * count, element);
    make_buffer(t, SCRATCH_D, ATTENTION_SCRATCH * count, element);
    t->qkv = fill_buffer(t, QKV, 3 * count, 3);
    t->d_o = fill_buffer(t, D_O, count, 2);
    t->o = calloc(count + 1, sizeof *t->o);
    t->d_qkv = calloc(3 * count + 1, sizeof *t->d_qkv);
    assert_true(t->o && t->d_qkv);
    for (size_t pair = 0; pair < t->a.batch * t->a.heads; pair++)
        reference_pair(t, pair, t->o, t->d_qkv);
}

static void attention_close(struct trial_attention *t)
{
    for (int buffer = 0; buffer < BUFFERS; buffer++) {
        free(read_buffer(t, buffer));
        gpu_free(t->buffers[buffer]);
    }
    free(t->qkv), free(t->d_o), free(t->o), free(t->d_qkv);
    trial_close(&t->trial);
}

/* ---- checks -------------------------------------------------------------------------------------------------------- */

static void run(struct trial_attention *t)
{
    const struct attention_scratch scratch = {t->buffers[SCRATCH], t->buffers[SCRATCH_D]};

    assert_int_equal(attention_forward(&t->trial.replica, &t->a, t->buffers[O], t->buffers[STATISTICS], t->buffers[QKV],
                                       t->buffers[SCRATCH]), 0);
    assert_int_equal(attention_backward(&t->trial.replica, &t->a, t->buffers[D_QKV], t->buffers[D_O], t->buffers[STATISTICS],
                                        t->buffers[QKV], &scratch), 0);
}

/* The same as before when all is run once more, over what the first run left. */
static void expect(struct trial_attention *t, const char *what, int buffer, const double *expected, size_t count)
{
    static const double allowed[] = {[ELEMENT_F32] = 1e-5, [ELEMENT_BF16] = 0x1p-6, [ELEMENT_F16] = 0x1p-9};
    char *bytes = read_buffer(t, buffer);
    float *found = malloc((count + 1) * sizeof *found), *wanted = malloc((count + 1) * sizeof *wanted);

    assert_true(found && wanted);
    for (size_t i = 0; i < count; i++) {
        found[i] = element_value(t->type, bytes, i);
        wanted[i] = (float)expected[i];
    }
    double difference = count ? tensor_difference(found, wanted, count) : 0;
    if (!(difference <= allowed[t->type]))
        fail_msg("%s of %zu x %zu x %zu x %zu in %s: differs from the reference by %g, allowed is %g", what, t->a.batch,
                 t->a.heads, t->a.tokens, t->a.width, element_name(t->type), difference, allowed[t->type]);
    run(t);
    char *again = read_buffer(t, buffer);
    assert_memory_equal(bytes, again, t->bytes[buffer]);
    free(again), free(bytes), free(found), free(wanted);
}

/* Batch, tokens, heads, width. Blocks have a quarter of the tokens, at least 64 rows, at most 4 x width. */
static const struct attention shapes[] = {
    {2, 1, 1, 4}, {1, 7, 3, 4}, {2, 33, 2, 5}, {3, 64, 2, 32}, {1, 130, 2, 32}, {1, 200, 1, 8}, {2, 300, 2, 64}, {0, 33, 2, 5},
};

static void test_against_reference(void **state)
{
    (void)state;
    for (enum element_type type = ELEMENT_F32; type <= ELEMENT_F16; type++) {
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            struct trial_attention t = {.a = shapes[i], .type = type};
            attention_open(&t);
            run(&t);
            expect(&t, "o", O, t.o, t.count);
            expect(&t, "d_q", D_QKV, t.d_qkv, t.count);
            expect(&t, "d_qkv", D_QKV, t.d_qkv, 3 * t.count);
            attention_close(&t);
        }
    }
}

/* sum d_o o, of which d_qkv is the gradient. */
static double reference_loss(struct trial_attention *t)
{
    double loss = 0;

    memset(t->o, 0, t->count * sizeof *t->o);
    for (size_t pair = 0; pair < t->a.batch * t->a.heads; pair++)
        reference_pair(t, pair, t->o, NULL);
    for (size_t i = 0; i < t->count; i++)
        loss += t->d_o[i] * t->o[i];
    return loss;
}

/* 24 elements each of Q, K and V. */
static void test_against_differences(void **state)
{
    struct trial_attention t = {.a = {1, 130, 2, 32}};
    const double step = 1e-3;

    (void)state;
    attention_open(&t);
    run(&t);
    float *found = (float *)(void *)read_buffer(&t, D_QKV);
    for (size_t n = 0; n < 72; n++) {
        size_t i = n / 24 * t.count + n % 24 * (t.count / 24) + n;
        double value = t.qkv[i], difference;
        t.qkv[i] = value + step;
        difference = reference_loss(&t);
        t.qkv[i] = value - step;
        difference = (difference - reference_loss(&t)) / (2 * step);
        t.qkv[i] = value;
        if (!(fabs((double)found[i] - difference) <= 1e-5 + 1e-4 * fabs(difference)))
            fail_msg("element %zu of d_qkv: %g, by differences %g", i, (double)found[i], difference);
    }
    free(found);
    attention_close(&t);
}

int main(void)
{
    log_set_program("test_attention");
    device_setup();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_reference),
        cmocka_unit_test(test_against_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
