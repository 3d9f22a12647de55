/* SPDX-License-Identifier: MIT
 *
 * The engine's inner loop, once more and as short as it can be, so that the ranks can be threads.
 */
#include "training.h"

#include <stdlib.h>
#include <string.h>

#include "run/checkpoint.h"
#include "run/schedule.h"
#include "sys/exit_codes.h"
#include "thread_world.h"

static int update(struct training *training, void *state, uint64_t step, const uint32_t *indices,
                  struct step_result *result)
{
    const struct options *options = &training->options;
    int micro_batches = schedule_micro_batches(options);
    float labels = (float)options->global_batch * (float)training->model.targets;
    for (int k = 0; k < micro_batches; k++) {
        struct piece micro = schedule_micro_batch(options, k);
        struct batch batch = {.indices = indices + micro.first,
                              .count = micro.count,
                              .first = k == 0,
                              .last = k == micro_batches - 1,
                              .step = step,
                              .loss_scale = options->loss == LOSS_MEAN ? 1.0F / labels : 1.0F};
        TRY(training->strategy->step(state, &batch));
    }
    return training->strategy->finish(state, result);
}

/* Gradients in their parameters' places, whatever their type and wherever they lie. */
static int read_gradients(struct replica *replica, float *gradients)
{
    const struct model *model = replica->model;
    char *flat = malloc(model->flat_bytes);
    int status = flat ? replica_read(replica, replica->gradients, flat) : EXIT_RESOURCE;
    for (int p = 0; p < model->parameter_count && !status; p++) {
        const char *gradient = flat + ((char *)replica_gradient(replica, p) - (char *)replica->gradients);
        for (size_t i = 0; i < model->parameters[p].count; i++)
            gradients[model->parameters[p].first + i] = element_value(model->settings.type, gradient, i);
    }
    free(flat);
    return status;
}

/* Are the padding's masters still 0? */
static int check_padding(const struct model *model, const float *flat)
{
    size_t end = 0;
    for (int p = 0; p <= model->parameter_count; p++) {
        size_t first = p < model->parameter_count ? model->parameters[p].first : model->flat_elements;
        for (size_t i = end; i < first; i++)
            if (flat[i] != 0)
                return EXIT_CHECK_FAILED;
        end = p < model->parameter_count ? first + model->parameters[p].count : 0;
    }
    return EXIT_OK;
}

/* Rank 0 keeps its masters, gradients and control; the others' masters are compared, and what their optimizers decided. */
static int keep_or_compare(struct training *training, struct world *world, void *state)
{
    struct replica *replica = training->strategy->replica(state, 0);
    size_t bytes = replica->model->float_bytes, whole = bytes + sizeof(struct update_control);
    char *mine = calloc(1, whole), *all = malloc(whole * (size_t)world->size);
    struct update_control control;
    int status = EXIT_RESOURCE;
    if (mine && all)
        status = replica_read_floats(replica, replica->masters, (float *)(void *)mine, bytes);
    if (!status)
        status = check_padding(replica->model, (const float *)(const void *)mine);
    if (!status)
        status = optimizer_read_control(training->strategy->optimizer(state), &control);
    if (!status) {
        memcpy(mine + bytes, &control, sizeof(control));
        status = world->gather(world, mine, whole, all);
    }
    for (int rank = 1; world->rank == 0 && !status && rank < world->size; rank++)
        training->different_ranks += memcmp(all, all + (size_t)rank * whole, whole) != 0;
    if (!status && world->rank == 0) {
        memcpy(training->parameters, mine, bytes);
        training->control = control;
        status = read_gradients(replica, training->gradients);
    }
    free(mine);
    free(all);
    return status;
}

/* Ranks whose buffers are not rank 0's, counted by rank 0, which keeps its own. */
static int compare_buffers(struct training *training, struct world *world, void *state, int *different)
{
    struct replica *replica = training->strategy->replica(state, 0);
    size_t bytes = replica->model->buffer_bytes;
    char *mine = malloc(bytes), *all = malloc(bytes * (size_t)world->size);
    int status = mine && all ? replica_read_floats(replica, replica->buffers, (float *)(void *)mine, bytes)
                             : EXIT_RESOURCE;
    if (!status)
        status = world->gather(world, mine, bytes, all);
    for (int rank = 1; world->rank == 0 && !status && rank < world->size; rank++)
        *different += memcmp(all, all + (size_t)rank * bytes, bytes) != 0;
    if (!status && world->rank == 0)
        memcpy(training->buffers, mine, bytes);
    free(mine);
    free(all);
    return status;
}

/* A model with buffers is evaluated behind the training, on some samples; not with synthetic data, which has no test set, so that
 * strategies need not be able to. */
static int evaluate(struct training *training, struct world *world, void *state)
{
    static const uint32_t indices[] = {3, 1, 4, 15, 9};
    struct evaluation evaluation;
    if (training->model.buffer_count == 0 || training->dataset.resident)
        return EXIT_OK;
    TRY(compare_buffers(training, world, state, &training->moved_apart));
    TRY(training->strategy->evaluate(state, indices, sizeof(indices) / sizeof(indices[0]), &evaluation));
    double losses[64];
    TRY(world->gather(world, &evaluation.loss_sum, sizeof(double), losses));
    for (int rank = 1; world->rank == 0 && rank < world->size; rank++)
        training->different_evaluations += losses[rank] != losses[0];
    if (world->rank == 0)
        training->evaluation_loss = evaluation.loss_sum;
    return compare_buffers(training, world, state, &training->different_buffers);
}

static int train(struct training *training, struct world *world, void *state)
{
    size_t count = training->options.global_batch;
    uint32_t *indices = calloc(2 * count + 1, sizeof(*indices)); /* of this step, of the next one */
    double *losses = calloc((size_t)world->size, sizeof(*losses));
    struct sampler sampler = {0};
    int status = indices && losses ? schedule_open_sampler(&sampler, training->dataset.train_count, &training->options)
                                   : EXIT_RESOURCE;
    for (int step = 0; step < training->steps && !status; step++) {
        struct step_result result = {0};
        sampler_batch(&sampler, (uint64_t)step + 1, indices + count);
        sampler_batch(&sampler, (uint64_t)step, indices);
        training->strategy->announce(state, (uint64_t)step + (step > 0), step > 0 ? indices + count : indices);
        status = update(training, state, (uint64_t)step, indices, &result);
        if (!status)
            status = world->gather(world, &result.loss_sum, sizeof(double), losses);
        double sum = 0;
        for (int rank = 0; rank < world->size; rank++)
            sum += losses[rank];
        if (world->rank > 0)
            continue;
        training->loss_last = sum;
        training->collectives_last = training->strategy->timeline(state, 0)->communications;
        if (step == 0) {
            training->loss_first = sum;
            training->collectives_first = training->collectives_last;
            if (!status)
                status = read_gradients(training->strategy->replica(state, 0), training->first_gradients);
        }
    }
    if (!status)
        status = keep_or_compare(training, world, state);
    if (!status)
        status = evaluate(training, world, state);
    if (!status && training->save && world->rank == 0)
        status = checkpoint_save(training->save, training->strategy->replica(state, 0), training->strategy->optimizer(state),
                                 &(struct checkpoint){.seed = training->options.seed});
    sampler_close(&sampler);
    free(losses);
    free(indices);
    return status;
}

static int run_rank(struct world *world, void *context)
{
    struct training *training = context;
    const struct model *model = training->other_models ? &training->other_models[world->rank] : &training->model;
    struct run run = {&training->options, world, model, &training->dataset};
    void *state = NULL;
    int status = world_agree(world, training->strategy->open(&state, &run));
    if (!status)
        status = train(training, world, state);
    if (state)
        training->strategy->close(state, status != EXIT_OK);
    return status;
}

static bool is_ddp(const struct strategy *strategy)
{
    return strcmp(strategy->name, "ddp") == 0;
}

int training_open(struct training *training, const struct strategy *strategy, const char *const *arguments)
{
    const char *program = is_ddp(strategy) ? "ddp-train" : "dp-train";
    char *argv[32] = {(char *)program};
    int argc = 1;
    for (; arguments[argc - 1] && argc < 31; argc++)
        argv[argc] = (char *)arguments[argc - 1];
    *training = (struct training){.strategy = strategy, .steps = 4};
    TRY(options_parse(&training->options, program, argc, argv));
    if (strcmp(training->options.model, "mlp") == 0)
        training->options.data = "digits";
    TRY(engine_open_data(&training->options, &training->dataset, &training->model));
    training->parameters = calloc(1, training->model.float_bytes);
    training->gradients = calloc(1, training->model.float_bytes);
    training->first_gradients = calloc(1, training->model.float_bytes);
    training->buffers = calloc(1, training->model.buffer_bytes + 1);
    bool complete = training->parameters && training->gradients && training->first_gradients && training->buffers;
    return complete ? EXIT_OK : EXIT_RESOURCE;
}

void training_close(struct training *training)
{
    free(training->parameters);
    free(training->gradients);
    free(training->first_gradients);
    free(training->buffers);
    model_close(&training->model);
    dataset_close(&training->dataset);
}

int training_run(struct training *training, int *codes)
{
    int ranks = is_ddp(training->strategy) ? training->options.gpus : 1;
    thread_world_run(ranks, run_rank, training, codes);
    for (int rank = 0; rank < ranks; rank++)
        if (codes[rank])
            return codes[rank];
    return EXIT_OK;
}
