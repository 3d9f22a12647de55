/* SPDX-License-Identifier: MIT
 *
 * Three steps of each optimizer against torch.optim's formulas in double.
 */
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/kernels.h"

#define STEPS 3

struct setting {
    float lr, momentum, decay, beta1, beta2, epsilon;
};

/* Flat buffers as a trainer has them, and the same in double. */
struct state {
    size_t n;
    float *host;
    float *p, *g, *m, *v; /* device */
    double *dp, *dg, *dm, *dv;
};

static struct state make_state(size_t n, size_t offset)
{
    struct state s = {.n = n, .host = test_memory(n * sizeof(float))};
    float **device[] = {&s.p, &s.g, &s.m, &s.v};
    double **host[] = {&s.dp, &s.dg, &s.dm, &s.dv};
    for (uint32_t i = 0; i < 4; i++) {
        *host[i] = test_memory(n * sizeof(double));
        test_random(s.host, n, 50 + i);
        if (i == 3)
            for (size_t j = 0; j < n; j++)
                s.host[j] = 0; /* v starts at 0 and stays positive */
        for (size_t j = 0; j < n; j++)
            (*host[i])[j] = (double)s.host[j];
        *device[i] = test_device(s.host, n * sizeof(float), offset);
    }
    return s;
}

static void check(struct state *s, const char *name, const float *device, const double *expected, size_t offset)
{
    char label[64];
    snprintf(label, sizeof label, "%s n %zu offset %zu", name, s->n, offset);
    test_read(s->host, device, s->n * sizeof(float));
    test_floats(label, s->host, expected, s->n, 2e-6, 2e-6);
}

static void free_state(struct state *s)
{
    free(s->host);
    free(s->dp);
    free(s->dg);
    free(s->dm);
    free(s->dv);
    test_release();
}

/* The first step must not read m: it holds NaN. */
static void run_sgd_size(size_t n, size_t offset, const struct setting *set)
{
    struct state s = make_state(n, offset);
    LAUNCH(kernel_fill(s.m, NAN, n, test_stream));
    for (int t = 0; t < STEPS; t++) {
        float *m = set->momentum == 0 ? NULL : s.m;
        const struct update update = {.p = s.p, .g = s.g, .n = n};
        LAUNCH(kernel_sgd(&update, m, set->lr, set->momentum, 0, set->decay, t == 0, test_stream));
        for (size_t i = 0; i < n; i++) {
            const double gradient = s.dg[i] + (double)set->decay * s.dp[i];
            s.dm[i] = t == 0 ? gradient : (double)set->momentum * s.dm[i] + gradient;
            s.dp[i] -= (double)set->lr * (set->momentum == 0 ? gradient : s.dm[i]);
        }
    }
    check(&s, "p", s.p, s.dp, offset);
    if (set->momentum != 0)
        check(&s, "m", s.m, s.dm, offset);
    free_state(&s);
}

static void run_sgd(const void *argument)
{
    for (size_t i = 0; i < test_size_count; i++) {
        run_sgd_size(test_sizes[i], 0, argument);
        run_sgd_size(test_sizes[i], 4, argument);
    }
}

static void run_adamw_size(size_t n, size_t offset, const struct setting *set)
{
    struct state s = make_state(n, offset);
    const double b1 = (double)set->beta1, b2 = (double)set->beta2;
    for (int t = 1; t <= STEPS; t++) {
        const struct update update = {.p = s.p, .g = s.g, .n = n};
        LAUNCH(kernel_adam(&update, s.m, s.v, set->lr, set->beta1, set->beta2, set->epsilon, set->decay, 1, t, test_stream));
        for (size_t i = 0; i < n; i++) {
            s.dp[i] -= (double)set->lr * (double)set->decay * s.dp[i];
            s.dm[i] = b1 * s.dm[i] + (1 - b1) * s.dg[i];
            s.dv[i] = b2 * s.dv[i] + (1 - b2) * s.dg[i] * s.dg[i];
            s.dp[i] -= (double)set->lr * s.dm[i] / (1 - pow(b1, t)) / (sqrt(s.dv[i] / (1 - pow(b2, t))) + (double)set->epsilon);
        }
    }
    check(&s, "p", s.p, s.dp, offset);
    check(&s, "m", s.m, s.dm, offset);
    check(&s, "v", s.v, s.dv, offset);
    free_state(&s);
}

static void run_adamw(const void *argument)
{
    for (size_t i = 0; i < test_size_count; i++) {
        run_adamw_size(test_sizes[i], 0, argument);
        run_adamw_size(test_sizes[i], 4, argument);
    }
}

static const struct setting plain = {.lr = 0.1f}, decayed = {.lr = 0.1f, .decay = 0.1f},
                            momentum = {.lr = 0.1f, .momentum = 0.9f, .decay = 0.01f},
                            adamw = {.lr = 1e-3f, .decay = 0.01f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f};

const struct test_case optimizer_cases[] = {
    {"sgd", run_sgd, &plain},
    {"sgd_decay", run_sgd, &decayed},
    {"sgd_momentum", run_sgd, &momentum},
    {"adamw", run_adamw, &adamw},
    {NULL, NULL, NULL},
};
