/* SPDX-License-Identifier: MIT
 *
 * What decides about an update: inf and NaN found wherever they stand, sums of squares, the clipping factor, and the life of a
 * loss scale by torch.cuda.amp.GradScaler's rule.
 */
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/kernels.h"
#include "typed.h"

static struct update_control read_control(const struct update_control *device)
{
    struct update_control control;
    test_read(&control, device, sizeof control);
    return control;
}

static void find(enum element_type type, size_t n, size_t at, float bad)
{
    const struct update_control fresh = {0};
    float *x = test_memory(n * sizeof *x);
    test_random(x, n, 100);
    if (at < n)
        x[at] = bad;
    const bool expected = at < n && !isfinite(bad);
    struct update_control *control = test_device(&fresh, sizeof fresh, 0);
    const void *device = typed_device(type, x, n, element_size(type));
    LAUNCH(kernel_find_inf(type, control, device, n, test_stream));
    const float found = read_control(control).found_inf;
    if (found != (expected ? 1.0f : 0.0f))
        test_fail("%s: %g at %zu of %zu: found_inf is %g", element_name(type), (double)bad, at, n, (double)found);
    free(x);
    test_release();
}

/* At the beginning and end of parts, vectors and the whole; the largest number is none. */
static void run_find_inf(const void *argument)
{
    (void)argument;
    static const float bad[] = {INFINITY, -INFINITY, NAN, 60000, -60000};
    const size_t n = 2 * SQUARES_PART + 33;
    const size_t places[] = {0, 1, 63, SQUARES_PART - 1, SQUARES_PART, 2 * SQUARES_PART, n - 1, n};
    FOR_EACH_TYPE(type) {
        for (size_t i = 0; i < test_size_count; i++)
            find(type, test_sizes[i], test_sizes[i], 0);
        for (size_t b = 0; b < sizeof bad / sizeof bad[0]; b++)
            for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
                find(type, n, places[i], bad[b]);
    }
}

static void run_squares_size(enum element_type type, size_t n)
{
    const size_t count = (n + SQUARES_PART - 1) / SQUARES_PART;
    float *x = test_memory(n * sizeof *x), *parts = test_memory(count * sizeof *parts);
    double *expected = test_memory(count * sizeof *expected);
    /* Eighths up to 16 / 8: every sum of their squares is exact, whatever the order and whoever vectorises. */
    test_random(x, n, 101);
    for (size_t i = 0; i < n; i++)
        x[i] = rintf(fminf(fmaxf(x[i], -2), 2) * 8) / 8;
    const void *device = typed_device(type, x, n, element_size(type));
    float *device_parts = test_device(parts, count * sizeof *parts, 0);
    for (size_t i = 0; i < n; i++)
        expected[i / SQUARES_PART] += (double)x[i] * (double)x[i];
    LAUNCH(kernel_squares(type, device_parts, device, n, test_stream));
    test_read(parts, device_parts, count * sizeof *parts);
    test_floats("squares", parts, expected, count, 0, 0);
    free(x);
    free(parts);
    free(expected);
    test_release();
}

static void run_squares(const void *argument)
{
    (void)argument;
    FOR_EACH_TYPE(type)
        for (size_t i = 0; i < test_size_count; i++)
            run_squares_size(type, test_sizes[i]);
}

/* ---- prepare ------------------------------------------------------------------------------------------------------------------ */

/* factor = min(1, clip / (norm / scale + 1e-6)) / scale: clip_grad_norm_ behind unscale_. */
static void run_clip(const void *argument)
{
    (void)argument;
    static const float scales[] = {0, 4}, norms[] = {0, 0.5f, 1, 100, INFINITY, NAN};
    for (size_t s = 0; s < 2; s++) {
        for (size_t i = 0; i < sizeof norms / sizeof norms[0]; i++) {
            const struct update_plan plan = {.scaled = scales[s] > 0, .clip_norm = 1, .growth = 2, .backoff = 0.5f,
                                             .growth_interval = 10, .beta1 = 0.9f, .beta2 = 0.999f};
            const struct update_control before = {.loss_scale = scales[s], .updates = 2};
            float parts[33]; /* more than a warp has lanes */
            for (int k = 0; k < 33; k++)
                parts[k] = norms[i] * norms[i] / 33;
            struct update_control *control = test_device(&before, sizeof before, 0);
            const float *device = test_device(parts, sizeof parts, 0);
            LAUNCH(kernel_update_prepare(control, plan, device, 33, test_stream));
            const struct update_control after = read_control(control);
            const double inverse = scales[s] > 0 ? 1 / (double)scales[s] : 1;
            const double clip = 1 / ((double)norms[i] * inverse + 1e-6);
            const double expected[] = {inverse * (clip > 1 ? 1 : clip), 1 / (1 - pow((double)0.9f, 3)),
                                       1 / (1 - pow((double)0.999f, 3))};
            const float found[] = {after.factor, after.correction1, after.correction2};
            test_floats("factor and corrections", found, expected, 3, 1e-6, 0);
            if (after.skip != 0 || after.updates != 3)
                test_fail("norm %g: skip %g, %d updates", (double)norms[i], (double)after.skip, (int)after.updates);
            test_release();
        }
    }
}

struct life {
    const char *found; /* '!' an inf was found, '.' not: update by update */
    float scale, after;
    int good, updates, skipped;
};

/* Growth after 3 good updates; a scale that would not be finite stays. */
static const struct life lives[] = {
    {"", 65536, 65536, 0, 0, 0},     {"!", 65536, 32768, 0, 0, 1},      {"..!", 65536, 32768, 0, 2, 1},
    {"...", 65536, 131072, 0, 3, 0}, {"..!..!...", 8, 4, 0, 7, 2},      {"!!!!", 1, 0.0625f, 0, 0, 4},
    {".", 65536, 65536, 1, 1, 0},    {"...", 3e38f, 3e38f, 0, 3, 0},    {"......", 2, 8, 0, 6, 0},
};

static void run_life(const struct life *life)
{
    const struct update_plan plan = {.scaled = 1, .growth = 2, .backoff = 0.5f, .growth_interval = 3};
    struct update_control now = {.loss_scale = life->scale};
    struct update_control *control = test_device(&now, sizeof now, 0);
    for (const char *at = life->found; *at; at++) {
        now = read_control(control);
        const float inverse = 1 / now.loss_scale;
        now.found_inf = *at == '!' ? 1 : 0;
        LAUNCH(kernel_control_set(control, now, test_stream));
        LAUNCH(kernel_update_prepare(control, plan, NULL, 0, test_stream));
        now = read_control(control);
        if (now.skip != (*at == '!' ? 1 : 0) || now.found_inf != 0 || now.factor != inverse)
            test_fail("%s: skip %g, found_inf %g, factor %g", life->found, (double)now.skip, (double)now.found_inf,
                      (double)now.factor);
    }
    if (now.loss_scale != life->after || now.good_steps != life->good || now.updates != life->updates ||
        now.skipped != life->skipped)
        test_fail("'%s' from %g: scale %g, %d good, %d updates, %d skipped", life->found, (double)life->scale,
                  (double)now.loss_scale, (int)now.good_steps, (int)now.updates, (int)now.skipped);
    test_release();
}

static void run_loss_scale(const void *argument)
{
    (void)argument;
    for (size_t i = 0; i < sizeof lives / sizeof lives[0]; i++)
        run_life(&lives[i]);
}

const struct test_case control_cases[] = {
    {"find_inf", run_find_inf, NULL},
    {"squares", run_squares, NULL},
    {"clip_norm", run_clip, NULL},
    {"loss_scale", run_loss_scale, NULL},
    {NULL, NULL, NULL},
};
