/* SPDX-License-Identifier: MIT */
#include "good_training.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "data/tensors.h"
#include "gpu/backend.h"
#include "run/timeline.h"
#include "sys/log.h"

int configure_devices(void **state)
{
    (void)state;
    log_set_quiet(true);
    const struct gpu_settings settings = {
        .cores_per_device = 1, .devices_used = MAX_RANKS_HERE, .collective_limit_s = 30};
    return gpu_configure(&settings);
}

void good_training_open(struct training *training, const struct strategy *strategy, const char *const *arguments,
                        int steps)
{
    if (training_open(training, strategy, arguments))
        fail_msg("%s: %s", strategy->name, log_last_error());
    assert_in_range(training->options.gpus, 1, MAX_RANKS_HERE);
    training->steps = steps;
}

void good_training_run(struct training *training)
{
    int codes[MAX_RANKS_HERE];
    if (training_run(training, codes))
        fail_msg("%s, %s on %d: %s", training->options.model, training->strategy->name, training->options.gpus,
                 log_last_error());
    assert_int_equal(training->different_ranks, 0);
}

void good_training(struct training *training, const struct strategy *strategy, const struct model_type *type,
                   const char *const *arguments, int steps)
{
    good_training_open(training, strategy, arguments, steps);
    if (type)
        training->model.type = type;
    good_training_run(training);
}

double worst_difference(const struct parameter *x_tensors, const float *x, const struct parameter *y_tensors,
                        const float *y, int count)
{
    double worst = 0;
    for (int t = 0; t < count; t++) {
        double difference = tensor_difference(x + x_tensors[t].first, y + y_tensors[t].first, x_tensors[t].count);
        if (isnan(difference))
            return INFINITY;
        worst = fmax(worst, difference);
    }
    return worst;
}

double parameters_apart(const struct training *a, const struct training *b)
{
    return worst_difference(a->model.parameters, a->parameters, b->model.parameters, b->parameters,
                            a->model.parameter_count);
}

double gradients_apart(const struct training *a, const struct training *b)
{
    return worst_difference(a->model.parameters, a->gradients, b->model.parameters, b->gradients,
                            a->model.parameter_count);
}

static void add_allreduced(void *context, const char *range, int from, int to, uint64_t bytes)
{
    uint64_t *moved = context;
    if (strcmp(range, phase_name(PHASE_ALLREDUCE_EXPOSED)) == 0 && from != to)
        *moved += bytes;
}

uint64_t allreduced_bytes(void)
{
    uint64_t moved = 0;
    assert_true(gpu_traffic_visit(add_allreduced, &moved));
    return moved;
}
