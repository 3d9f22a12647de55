/* SPDX-License-Identifier: MIT
 *
 * The rule of equality (docs/architecture.md) for every model that there is, with ranks as threads: on N = 1, 2, 4 with equal
 * pieces dp and ddp have the same bits; elsewhere, and against one device, the gradients of step 1 agree within 1e-5 and the loss
 * within 1 %. A model with BatchNorm is compared with one device only where its statistics are synchronised. And for models of each
 * kind: the scale of gradients under accumulation, and what is sent.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ddp_multi_process/strategy.h"
#include "dp_single_process/dp.h"
#include "good_training.h"
#include "gpu/backend.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

#define STEPS 2

/* A model, small enough to be trained often. */
struct subject {
    const char *model, *sizes[8];
    bool batch_norm;
    int times; /* as many samples as a cell says: variances of few samples enlarge every rounding; 0: one a device is enough */
};

static const struct subject subjects[] = {
    {"mlp", {"--data", "digits", "--width", "64", "--depth", "3"}, false, 1},
    {"resnet20", {"--data", "digits", "--width", "4", "--depth", "1"}, true, 1},
    {"resnet50", {"--inputs", "768", "--width", "8", "--depth", "1"}, true, 4},
    {"gpt-tiny", {NULL}, false, 1},
    {"gpt-nano", {NULL}, false, 0},
    {"lstm", {NULL}, false, 0},
    {"lstm-tiny", {NULL}, false, 1},
};
static const struct subject *const few[] = {&subjects[1], &subjects[3], &subjects[6]}; /* one of each kind but the mlp */
static const char *const the_same_at_other_sizes[] = {"gpt-micro", "gpt2-124m"};

/* What is asked of a training beside the subject. */
struct cell {
    const char *gpus, *accumulate, *loss;
    int batch; /* samples of all devices */
    bool sync; /* --sync-bn; no flag of dp's or single's */
    int steps;
};

/* Uneven pieces stay uneven: then one device has none. */
static int batch_of(const struct subject *subject, const struct cell *cell)
{
    int devices = cell->gpus[0] - '0';

    if (subject->times)
        return subject->times * cell->batch;
    return cell->batch % devices ? devices - 1 : devices;
}

static void open_training(struct training *training, const struct strategy *strategy, const struct subject *subject,
                          const struct cell *cell)
{
    bool single = strategy == &strategy_single, ddp = strategy == &strategy_ddp;
    int count = 12;
    char batch[16];

    snprintf(batch, sizeof(batch), "%d", batch_of(subject, cell));
    const char *arguments[32] = {"--model", subject->model, "--lr", cell->loss ? "0.001" : "0.02", "--global-batch", batch,
                                 "--accumulate", cell->accumulate ? cell->accumulate : "1", "--loss",
                                 cell->loss ? cell->loss : "mean", single ? "--strategy" : "--gpus", single ? "single" : cell->gpus};

    for (int i = 0; subject->sizes[i]; i++)
        arguments[count++] = subject->sizes[i];
    arguments[count] = ddp && cell->sync ? "--sync-bn" : NULL;
    good_training_open(training, strategy, arguments, cell->steps);
}

static void train(struct training *training, const struct strategy *strategy, const struct subject *subject,
                  const struct cell *cell)
{
    open_training(training, strategy, subject, cell);
    good_training_run(training);
}

/* ---- the rule ---------------------------------------------------------------------------------------------------- */

static void compare(const struct subject *subject, const struct cell *cell, const struct training *a, const struct training *b)
{
    double gradients = worst_difference(a->model.parameters, a->first_gradients, b->model.parameters,
                                        b->first_gradients, a->model.parameter_count);
    double loss = fabs(a->loss_last / b->loss_last - 1);

    print_message("%s, N = %s, batch %d, %s and %s: gradients of step 1 differ by %.1e, losses by %.1e\n", subject->model,
                  cell->gpus, batch_of(subject, cell), a->strategy->name, b->strategy->name, gradients, loss);
    assert_true(gradients <= 1e-5);
    assert_true(loss <= 0.01);
}

static void check_subject(const struct subject *subject, const struct cell *cell, bool bits)
{
    struct cell synchronised = *cell;
    struct training single, dp, ddp, sync;

    synchronised.sync = true;
    train(&single, &strategy_single, subject, cell);
    train(&dp, &strategy_dp, subject, cell);
    train(&ddp, &strategy_ddp, subject, cell);
    compare(subject, cell, &dp, &ddp);
    if (bits)
        assert_memory_equal(dp.parameters, ddp.parameters, dp.model.float_bytes);
    if (subject->batch_norm) {
        train(&sync, &strategy_ddp, subject, &synchronised);
        compare(subject, cell, &sync, &single);
        training_close(&sync);
    } else {
        compare(subject, cell, &ddp, &single);
        compare(subject, cell, &dp, &single);
    }
    training_close(&single);
    training_close(&dp);
    training_close(&ddp);
}

static void single_dp_and_ddp_agree(void **state)
{
    (void)state;
    static const struct {
        const char *gpus;
        int batch;
        bool bits;
    } cells[] = {{"1", 4, true}, {"2", 4, true}, {"4", 4, true}, {"3", 6, false}, {"4", 7, false}};
    for (size_t s = 0; s < COUNT(subjects); s++)
        for (size_t i = 0; i < COUNT(cells); i++) {
            const struct cell cell = {.gpus = cells[i].gpus, .batch = cells[i].batch, .steps = STEPS};
            check_subject(&subjects[s], &cell, cells[i].bits);
        }
}

/* The names that a wrong one is answered with: a new model must come here too. */
static void every_model_is_here(void **state)
{
    (void)state;
    struct model model;
    char names[512], *rest, *name;

    assert_int_equal(model_open(&model, "?", &(struct model_settings){0}), EXIT_USAGE);
    const char *list = strstr(log_last_error(), "one of ");
    assert_non_null(list);
    snprintf(names, sizeof(names), "%s", list + strlen("one of "));
    for (name = strtok_r(names, ", (", &rest); name && strcmp(name, "did") != 0; name = strtok_r(NULL, ", (", &rest)) {
        bool known = false;
        for (size_t i = 0; i < COUNT(subjects); i++)
            known = known || strcmp(name, subjects[i].model) == 0;
        for (size_t i = 0; i < COUNT(the_same_at_other_sizes); i++)
            known = known || strcmp(name, the_same_at_other_sizes[i]) == 0;
        if (!known)
            fail_msg("model '%s' is compared nowhere: it needs a row in subjects[]", name);
    }
}

/* ---- accumulation ------------------------------------------------------------------------------------------------ */

/* <a, b> / <b, b>: 1 if a is b, 2 if it is twice as long. */
static double scale_ratio(const struct training *a, const struct training *b)
{
    double product = 0, square = 0;

    for (size_t i = 0; i < b->model.flat_elements; i++) {
        product += (double)a->gradients[i] * (double)b->gradients[i];
        square += (double)b->gradients[i] * (double)b->gradients[i];
    }
    return product / square;
}

static void check_scale(const struct subject *subject, const struct strategy *strategy, const struct cell *cell,
                        const struct training *single)
{
    struct training many;

    train(&many, strategy, subject, cell);
    double ratio = scale_ratio(&many, single), gradients = gradients_apart(&many, single);
    if (!(fabs(ratio - 1) < 1e-5) || !(gradients <= 1e-5))
        fail_msg("%s, %s on %s, %s micro-batches, loss %s: the gradient is %.7f times one device's, differs by %.1e",
                 subject->model, strategy->name, cell->gpus, cell->accumulate, cell->loss, ratio, gradients);
    training_close(&many);
}

/* trials.md 8 of the other models: N x accumulation x mean or sum. BatchNorm takes a micro-batch at a time, so one device cuts the
 * batch as well; dp's replicas would each take their own. */
static void scale_of_gradients(void **state)
{
    (void)state;
    static const char *const ranks[] = {"1", "2", "3", "4", "8"}, *const accumulations[] = {"1", "2", "3"};
    static const char *const losses[] = {"mean", "sum"};
    for (unsigned i = 0; i < COUNT(few) * COUNT(losses) * COUNT(accumulations); i++) {
        const struct subject *subject = few[i / 6];
        struct cell cell = {.gpus = "1", .batch = 13, .loss = losses[i / 3 % 2], .accumulate = accumulations[i % 3],
                            .sync = subject->batch_norm, .steps = 1};
        struct cell whole = cell;
        struct training single;
        whole.accumulate = subject->batch_norm ? cell.accumulate : "1";
        train(&single, &strategy_single, subject, &whole);
        for (size_t n = 0; n < COUNT(ranks); n++) {
            cell.gpus = ranks[n];
            check_scale(subject, &strategy_ddp, &cell, &single);
            if (!subject->batch_norm)
                check_scale(subject, &strategy_dp, &cell, &single);
        }
        training_close(&single);
    }
}

/* trials.md 10: 4 micro-batches on 4 ranks: each bucket once an update, 2 (N - 1) P bytes, and `train` has compared the ranks. */
static void each_bucket_is_reduced_once(void **state)
{
    (void)state;
    static const char *const accumulations[] = {"1", "4"};
    for (size_t s = 0; s < COUNT(few); s++) {
        int collectives = 0;
        for (size_t k = 0; k < COUNT(accumulations); k++) {
            const struct cell cell = {.gpus = "4", .batch = 16, .accumulate = accumulations[k], .steps = STEPS};
            struct training ddp;
            gpu_traffic_reset();
            train(&ddp, &strategy_ddp, few[s], &cell);
            assert_int_equal(allreduced_bytes(), 2 * 3 * ddp.model.parameter_elements * sizeof(float) * STEPS);
            assert_true(ddp.collectives_last > 0);
            assert_true(k == 0 || ddp.collectives_last == collectives);
            collectives = ddp.collectives_last;
            training_close(&ddp);
        }
    }
}

/* ---- a parameter without elements -------------------------------------------------------------------------------- */

static const struct model_type *plain;

/* The model's own backward pass; the parameter without elements, the last one, is ready before all others. */
static int backward_with_empty(struct replica *replica, const void *d_logits, size_t batch, bool accumulate,
                               gradient_ready *ready, void *context)
{
    if (ready)
        TRY(ready(context, replica->model->parameter_count - 1));
    return plain->backward(replica, d_logits, batch, accumulate, ready, context);
}

static void add_empty_parameter(struct model *model, struct model_type *type)
{
    const struct parameter empty = {.name = "empty", .dims = 1, .first = model->flat_elements, .offset = model->flat_bytes,
                                    .initial = INITIAL_CONSTANT};
    struct parameter *parameters =
        realloc(model->parameters, ((size_t)model->parameter_count + 1) * sizeof(*parameters));

    assert_non_null(parameters);
    model->parameters = parameters;
    parameters[model->parameter_count++] = empty;
    plain = model->type;
    *type = *plain;
    type->backward = backward_with_empty;
    model->type = type;
}

/* trials.md 14: harmless: the other parameters get the bits that they get without it. */
static void a_parameter_without_elements_is_harmless(void **state)
{
    (void)state;
    static const struct strategy *const strategies[] = {&strategy_single, &strategy_dp, &strategy_ddp};
    for (size_t i = 0; i < COUNT(few) * COUNT(strategies); i++) {
        const struct subject *subject = few[i / COUNT(strategies)];
        const struct strategy *strategy = strategies[i % COUNT(strategies)];
        const struct cell cell = {.gpus = "2", .batch = 4, .steps = STEPS};
        struct training without, with;
        struct model_type type;
        train(&without, strategy, subject, &cell);
        open_training(&with, strategy, subject, &cell);
        add_empty_parameter(&with.model, &type);
        good_training_run(&with);
        assert_memory_equal(with.parameters, without.parameters, without.model.float_bytes);
        training_close(&with);
        training_close(&without);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_model_is_here),
        cmocka_unit_test(single_dp_and_ddp_agree),
        cmocka_unit_test(scale_of_gradients),
        cmocka_unit_test(each_bucket_is_reduced_once),
        cmocka_unit_test(a_parameter_without_elements_is_harmless),
    };
    return cmocka_run_group_tests(tests, configure_devices, NULL);
}
