/* SPDX-License-Identifier: MIT
 *
 * Three steps of each optimizer against torch.optim's formulas in double: with gradients and a working copy of each type,
 * with a control that scales gradients, skips a step and counts the others, and without.
 */
#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "typed.h"

#define STEPS 3

enum kind { SGD, ADAMW, ADAM };

struct setting {
    enum kind kind;
    float lr, momentum, decay, beta1, beta2, epsilon;
    int nesterov;
};

/* Flat buffers as a trainer has them, and the same in double. */
struct state {
    const struct setting *set;
    enum element_type type;
    size_t n;
    float *host;
    float *p, *m, *v; /* device */
    void *g, *working; /* device; working: NULL in fp32 */
    double *dp, *dg, *dm, *dv;
    struct update_control *control; /* device; or NULL */
    double factor;                  /* of gradients, by the control */
    int updates;                    /* done: t */
};

static double *doubles(const float *x, size_t n)
{
    double *copy = test_memory(n * sizeof *copy);
    for (size_t i = 0; i < n; i++)
        copy[i] = (double)x[i];
    return copy;
}

/* Without a control m holds NaN: the first step of SGD must not read it. With one, or for Adam, state starts at 0. */
static struct state make_state(const struct setting *set, enum element_type type, size_t n, bool controlled, size_t offset)
{
    struct state s = {.set = set, .type = type, .n = n, .host = test_memory(n * sizeof(float)), .factor = controlled ? 0.25 : 1};
    const struct update_control fresh = {0};
    test_random(s.host, n, 50);
    s.dp = doubles(s.host, n);
    s.p = test_device(s.host, n * sizeof(float), offset);
    s.g = typed_random(type, s.host, n, 51, 1, offset);
    s.dg = doubles(s.host, n);
    for (size_t i = 0; i < n; i++)
        s.host[i] = 0;
    s.dv = doubles(s.host, n);
    s.v = test_device(s.host, n * sizeof(float), offset);
    s.working = type == ELEMENT_F32 ? NULL : typed_device(type, s.host, n, offset);
    for (size_t i = 0; i < n && set->kind == SGD && !controlled; i++)
        s.host[i] = NAN;
    s.dm = doubles(s.host, n);
    s.m = test_device(s.host, n * sizeof(float), offset);
    s.control = controlled ? test_device(&fresh, sizeof fresh, 0) : NULL;
    return s;
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

static void reference_sgd(struct state *s, size_t i, bool first)
{
    const struct setting *set = s->set;
    const double gradient = s->factor * s->dg[i] + (double)set->decay * s->dp[i];
    s->dm[i] = first ? gradient : (double)set->momentum * s->dm[i] + gradient;
    const double step = set->nesterov ? gradient + (double)set->momentum * s->dm[i] : s->dm[i];
    s->dp[i] -= (double)set->lr * (set->momentum == 0 ? gradient : step);
}

static void reference_adam(struct state *s, size_t i, int t)
{
    const struct setting *set = s->set;
    const double b1 = (double)set->beta1, b2 = (double)set->beta2, lr = (double)set->lr, decay = (double)set->decay;
    const double gradient = s->factor * s->dg[i] + (set->kind == ADAM ? decay * s->dp[i] : 0);
    s->dp[i] -= set->kind == ADAMW ? lr * decay * s->dp[i] : 0;
    s->dm[i] = b1 * s->dm[i] + (1 - b1) * gradient;
    s->dv[i] = b2 * s->dv[i] + (1 - b2) * gradient * gradient;
    s->dp[i] -= lr * s->dm[i] / (1 - pow(b1, t)) / (sqrt(s->dv[i] / (1 - pow(b2, t))) + (double)set->epsilon);
}

/* The control's decision for this step, as kernel_update_prepare leaves it. */
static void decide(struct state *s, bool skip)
{
    const int t = s->updates + (skip ? 0 : 1);
    struct update_control control = {.factor = skip ? NAN : (float)s->factor, .skip = skip ? 1 : 0, .updates = t};
    control.correction1 = (float)(1 / (1 - pow((double)s->set->beta1, t)));
    control.correction2 = (float)(1 / (1 - pow((double)s->set->beta2, t)));
    LAUNCH(kernel_control_set(s->control, control, test_stream));
}

static void step(struct state *s, bool skip)
{
    const struct setting *set = s->set;
    const struct update update = {
        .p = s->p, .working = s->working, .type = s->type, .g = s->g, .n = s->n, .control = s->control};
    const bool first = s->updates == 0;
    if (s->control)
        decide(s, skip);
    s->updates += skip ? 0 : 1;
    if (set->kind == SGD)
        LAUNCH(kernel_sgd(&update, set->momentum == 0 ? NULL : s->m, set->lr, set->momentum, set->nesterov, set->decay,
                          first && !s->control, test_stream));
    else
        LAUNCH(kernel_adam(&update, s->m, s->v, set->lr, set->beta1, set->beta2, set->epsilon, set->decay, set->kind == ADAMW,
                           s->control ? 77 : s->updates, test_stream));
    for (size_t i = 0; i < s->n && !skip; i++) {
        if (set->kind == SGD)
            reference_sgd(s, i, first);
        else
            reference_adam(s, i, s->updates);
    }
}

static void check(struct state *s, const char *name, const float *device, const double *expected, size_t offset)
{
    char label[96];
    snprintf(label, sizeof label, "%s n %zu offset %zu of %s%s", name, s->n, offset, element_name(s->type),
             s->control ? " with control" : "");
    test_read(s->host, device, s->n * sizeof(float));
    test_floats(label, s->host, expected, s->n, 2e-6, 2e-6);
}

/* The working copy is p, rounded: also where an update was skipped. */
static void check_working(struct state *s)
{
    double *p = test_memory(s->n * sizeof *p);
    test_read(s->host, s->p, s->n * sizeof(float));
    for (size_t i = 0; i < s->n; i++)
        p[i] = (double)s->host[i];
    typed_read(s->type, s->host, s->working, s->n);
    typed_check(s->type, "working copy", s->host, p, s->n, 0, 0);
    free(p);
}

static void run_size(const struct setting *set, enum element_type type, size_t n, bool controlled, size_t offset)
{
    struct state s = make_state(set, type, n, controlled, offset);
    for (int i = 0; i < STEPS; i++) {
        if (controlled && i != 1)
            step(&s, true);
        step(&s, false);
    }
    if (controlled)
        step(&s, true);
    check(&s, "p", s.p, s.dp, offset);
    if (set->momentum != 0 || set->kind != SGD)
        check(&s, "m", s.m, s.dm, offset);
    if (set->kind != SGD)
        check(&s, "v", s.v, s.dv, offset);
    if (s.working)
        check_working(&s);
    free_state(&s);
}

static void run_optimizer(const void *argument)
{
    FOR_EACH_TYPE(type) {
        for (size_t i = 0; i < test_size_count; i++) {
            run_size(argument, type, test_sizes[i], false, 0);
            run_size(argument, type, test_sizes[i], false, 4);
            run_size(argument, type, test_sizes[i], true, 0);
        }
    }
}

static const struct setting plain = {.lr = 0.1f}, decayed = {.lr = 0.1f, .decay = 0.1f},
                            momentum = {.lr = 0.1f, .momentum = 0.9f, .decay = 0.01f},
                            nesterov = {.lr = 0.1f, .momentum = 0.9f, .decay = 0.01f, .nesterov = 1},
                            adamw = {ADAMW, .lr = 1e-3f, .decay = 0.01f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f},
                            adam = {ADAM, .lr = 1e-3f, .decay = 0.01f, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f};

const struct test_case optimizer_cases[] = {
    {"sgd", run_optimizer, &plain},
    {"sgd_decay", run_optimizer, &decayed},
    {"sgd_momentum", run_optimizer, &momentum},
    {"sgd_nesterov", run_optimizer, &nesterov},
    {"adamw", run_optimizer, &adamw},
    {"adam", run_optimizer, &adam},
    {NULL, NULL, NULL},
};
