/* SPDX-License-Identifier: MIT
 *
 * The life of a run, the same for single, dp and ddp: open, verify, resume, warm up, time, evaluate, save, report,
 * close. Where one rank alone could fail (a file, memory), all ranks agree before the next collective: no rank is left
 * waiting.
 */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/backend.h"
#include "run/checkpoint.h"
#include "run/engine.h"
#include "run/schedule.h"
#include "sys/exit_codes.h"
#include "sys/file.h"
#include "sys/log.h"

void engine_reach(const struct engine *engine, enum progress_phase phase, uint64_t step)
{
    const struct world *world = engine->world;

    place_reach(phase, step);
    if (world->reach)
        world->reach(world->rank, phase, step);
}

/* ---- open -------------------------------------------------------------------------------------------------------- */

/* Options that would change nothing with this model, and the row would say that they were there. */
static int check_model_options(const struct options *options, const struct model *model)
{
    const struct model_settings *given = &options->model_settings;

    if (model->tokens && (given->inputs || given->classes)) {
        log_error("--%s %zu: has no effect with --model %s, whose inputs and outputs are tokens; expected mlp, resnet20 or "
                  "resnet50",
                  given->inputs ? "inputs" : "classes", given->inputs ? given->inputs : given->classes, options->model);
        return EXIT_USAGE;
    }
    if (!options->sync_bn || model->buffer_count > 0)
        return EXIT_OK;
    log_error("--sync-bn: has no effect with --model %s, which has no BatchNorm; expected a model that has "
              "(resnet20, resnet50)",
              options->model);
    return EXIT_USAGE;
}

/* Real data says how many inputs a sample of the mlp has and how many classes there are, at least; synthetic data is
 * made to fit the model. */
int engine_open_data(const struct options *options, struct dataset *dataset, struct model *model)
{
    struct model_settings settings = options->model_settings;

    TRY(dataset_open(dataset, options->data, options->seed));
    settings.type = element_named(options->precision);
    settings.inputs = settings.inputs ? settings.inputs : dataset->shape.inputs;
    settings.classes = settings.classes ? settings.classes : dataset->shape.classes;
    TRY(model_open(model, options->model, &settings));
    TRY(check_model_options(options, model));
    const struct sample_shape wanted = {model->input_count, model->targets, model->classes, model->tokens};
    return dataset_fit(dataset, &wanted);
}

/* Where the learning rate's schedule ends, unless --schedule-updates says it: with this run. The verification goes by the
 * run's length too, whatever a checkpoint will say. */
static void set_schedule(struct engine *engine)
{
    const struct options *options = engine->options;
    struct optimizer *optimizer = engine->strategy->optimizer(engine->state);
    uint64_t end = engine->step + (uint64_t)engine->warmup + (uint64_t)engine->steps;

    place_set_last_step(end);
    if (options->optimizer.total_updates == 0)
        optimizer->settings.total_updates = end < INT32_MAX ? (int)end : INT32_MAX;
}

/* --epochs counts from the initial weights and includes the warm-up, so that E epochs are E epochs. */
static int count_steps(struct engine *engine)
{
    const struct options *options = engine->options;
    uint64_t whole = (uint64_t)options->epochs * sampler_steps_per_epoch(&engine->sampler);

    engine->warmup = options->warmup;
    engine->steps = options->steps;
    if (options->epochs == 0 || options->global_batch == 0)
        return EXIT_OK;
    if (whole <= engine->step || whole - engine->step > INT32_MAX) {
        log_error("--epochs %d: the epochs end at step %" PRIu64 ", and the training stands at step %" PRIu64,
                  options->epochs, whole, engine->step);
        return EXIT_USAGE;
    }
    int left = (int)(whole - engine->step);
    engine->warmup = engine->warmup < left ? engine->warmup : left - 1;
    engine->steps = left - engine->warmup;
    return EXIT_OK;
}

/* Rank 0 writes what may flow into a pipe and what may not; each rank writes a record of its own. */
static int check_paths(struct engine *engine)
{
    const struct options *options = engine->options;
    const char *const whole[] = {options->save, options->save_gradients};
    bool writes = engine->world->rank == 0;

    if (writes && options->json) {
        int status = file_check_output(options->json);
        engine->json_refused = status != EXIT_OK;
        TRY(status);
    }
    if (writes && options->trace)
        TRY(file_check_output(options->trace));
    for (size_t i = 0; writes && i < 2; i++)
        if (whole[i])
            TRY(file_check_writable(whole[i]));
    return options->record ? file_check_writable(options->record) : EXIT_OK;
}

static int open_local(struct engine *engine)
{
    const struct options *options = engine->options;

    TRY(check_paths(engine));
    TRY(engine_open_data(options, &engine->dataset, &engine->model));
    if (options->find_batch)
        return EXIT_OK;
    engine->drawn = calloc(options->global_batch + 1, (1 + LOADER_PREFETCH) * sizeof *engine->drawn);
    if (!engine->drawn) {
        log_error("global batch: no memory for %d x %zu indices", 1 + LOADER_PREFETCH, options->global_batch);
        return EXIT_RESOURCE;
    }
    if (options->global_batch)
        TRY(schedule_open_sampler(&engine->sampler, engine->dataset.train_count, options));
    return EXIT_OK;
}

/* Of many ranks on a host that has no device one says so. */
static int count_devices(const struct engine *engine)
{
    int devices = 0;

    return engine->world->local_rank == 0 ? gpu_device_count(&devices) : EXIT_OK;
}

static int open_strategy(struct engine *engine)
{
    struct run run = {engine->options, engine->world, &engine->model, &engine->dataset};
    char cpuset[DEVICE_TEXT];
    struct cudaDeviceProp properties;

    engine_reach(engine, PROGRESS_OPEN, 0);
    TRY(engine->strategy->open(&engine->state, &run));
    engine->scaled = engine->strategy->optimizer(engine->state)->scaled;
    int device = engine->strategy->replica(engine->state, 0)->device;
    TRY(gpu_device_describe(device, engine->device_name, sizeof engine->device_name, cpuset, sizeof cpuset));
    if (!strcmp(gpu_backend_name(), "soft")) {
        GPU_TRY(cudaGetDeviceProperties(&properties, device));
        engine->cores_per_device = properties.multiProcessorCount;
    }
    return EXIT_OK;
}

/* Every rank loads: the same file on a shared disk, or a copy. One that can't see it stops all. */
static int resume(struct engine *engine)
{
    const struct options *options = engine->options;
    struct checkpoint found = {0};

    if (!options->resume)
        return EXIT_OK;
    TRY(checkpoint_load(options->resume, engine->strategy->replica(engine->state, 0),
                        engine->strategy->optimizer(engine->state), &found));
    if (found.seed != options->seed || found.global_batch != options->global_batch) {
        log_error("%s: was trained with --seed %" PRIu64 " --global-batch %" PRIu64 ", found --seed %" PRIu64
                  " --global-batch %zu",
                  options->resume, found.seed, found.global_batch, options->seed, options->global_batch);
        return EXIT_USAGE;
    }
    char sampler[sizeof found.sampler];
    schedule_sampler_text(sampler, sizeof sampler, options);
    if (strcmp(found.sampler, sampler) != 0) {
        log_error("%s: was trained with %s, found %s: the samples would come in another order", options->resume,
                  found.sampler, sampler);
        return EXIT_USAGE;
    }
    engine->step = found.step;
    return EXIT_OK;
}

/* What all ranks do alike, and mostly fail alike (a bad file): the first that fails says why, the others don't repeat
 * it. No rank of the world may be left out. */
static int agree_and_say_once(struct engine *engine, int (*part)(struct engine *engine))
{
    struct world *world = engine->world;
    int first;

    log_set_muted(world->rank > 0);
    int status = part(engine);
    log_set_muted(false);
    int agreed = world_agree_who(world, status, &first);
    if (status && world->rank > 0 && first == world->rank)
        log_error("%s", log_last_error());
    return agreed;
}

static int prepare(struct engine *engine)
{
    struct world *world = engine->world;

    TRY(agree_and_say_once(engine, open_local));
    TRY(world_agree(world, count_devices(engine)));
    if (engine->options->find_batch)
        return EXIT_OK;
    TRY(world_agree(world, open_strategy(engine)));
    TRY(agree_and_say_once(engine, count_steps));
    set_schedule(engine);
    TRY(engine_verify(engine));
    TRY(agree_and_say_once(engine, resume));
    TRY(agree_and_say_once(engine, count_steps));
    set_schedule(engine);
    engine->rows = calloc((size_t)engine->steps, sizeof *engine->rows);
    if (!engine->rows)
        log_error("no memory for %d steps", engine->steps);
    return world_agree(world, engine->rows ? EXIT_OK : EXIT_RESOURCE);
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

static int save(struct engine *engine)
{
    const struct options *options = engine->options;
    struct checkpoint checkpoint = {.step = engine->step, .seed = options->seed, .global_batch = options->global_batch};
    int status = EXIT_OK;

    schedule_sampler_text(checkpoint.sampler, sizeof checkpoint.sampler, options);
    if (!options->save)
        return EXIT_OK;
    if (engine->world->rank == 0)
        status = checkpoint_save(options->save, engine->strategy->replica(engine->state, 0),
                                 engine->strategy->optimizer(engine->state), &checkpoint);
    return world_agree(engine->world, status);
}

static int check_loss(const struct engine *engine, const struct results *results)
{
    double last = engine->row_count ? results_step_loss(results, engine, engine->row_count - 1) : 0;

    if (isfinite(last))
        return EXIT_OK;
    log_error("the loss is %g after %d steps: training has diverged", last, engine->row_count);
    return EXIT_CHECK_FAILED;
}

static int run_all(struct engine *engine, struct results *results)
{
    const struct options *options = engine->options;
    struct evaluation evaluation = {0};

    TRY(prepare(engine));
    if (options->find_batch) {
        TRY(engine_find_batch(engine, results));
        engine->complete = true;
        return EXIT_OK;
    }
    screen_start(engine);
    TRY(engine_warm_up(engine));
    TRY(engine_run_timed(engine));
    TRY(results_collect(results, engine));
    if (!options->shape_only)
        TRY(optimizer_read_control(engine->strategy->optimizer(engine->state), &results->control));
    if (options->trace)
        TRY(world_agree(engine->world, trace_write(&engine->trace, engine->world, options->trace)));
    if (engine->dataset.test_count && !options->shape_only)
        TRY(engine_evaluate(engine, &evaluation));
    results->evaluation = evaluation;
    results->evaluated = evaluation.samples > 0;
    TRY(save(engine));
    engine->complete = true;
    screen_end(engine, results);
    return engine->world->rank == 0 && !options->shape_only ? check_loss(engine, results) : EXIT_OK;
}

static void close_all(struct engine *engine)
{
    if (engine->complete) /* else it is told where it failed */
        engine_reach(engine, PROGRESS_CLOSE, engine->step);
    if (engine->state)
        engine->strategy->close(engine->state, !engine->complete);
    trace_close(&engine->trace);
    free(engine->rows);
    free(engine->drawn);
    sampler_close(&engine->sampler);
    model_close(&engine->model);
    dataset_close(&engine->dataset);
}

/* How the run ended stands in its record: one of a run that failed is not taken for a whole one. */
static int finish_record(int status)
{
    char text[16];

    snprintf(text, sizeof text, "%d", status);
    gpu_record_setting("exit_code", text);
    return gpu_finish();
}

int engine_run(const struct strategy *strategy, const struct options *options, struct world *world)
{
    struct engine engine = {.strategy = strategy, .options = options, .world = world};
    struct results results = {0};

    (void)signal(SIGPIPE, SIG_IGN);
    int status = run_all(&engine, &results);
    if (world->rank == 0 && options->json) {
        int written = engine.json_refused ? status : report_json(&engine, results.devices ? &results : NULL, status);
        status = status ? status : written;
        if (world->reported)
            world->reported(status);
    }
    results_close(&results);
    if (status == EXIT_TIME_LIMIT) { /* a device may be at work for ever: nothing is closed (engine_leave) */
        if (world->blame && gpu_device_is_lost())
            world->blame(world->rank, world->rank);
        return status;
    }
    close_all(&engine);
    int finished = finish_record(status);
    if (finished && !status && options->json && !world->reported) /* where a launcher looks on, it tells */
        (void)engine_report_failure(strategy, options, finished);
    return status ? status : finished;
}

void engine_leave(int status)
{
    (void)fflush(stdout);
    if (status == EXIT_TIME_LIMIT)
        _exit(status);
    exit(status);
}

int engine_report_failure(const struct strategy *strategy, const struct options *options, int status)
{
    const struct engine engine = {.strategy = strategy, .options = options};

    return options->json ? report_json(&engine, NULL, status) : EXIT_OK;
}

/* ---- the backend ------------------------------------------------------------------------------------------------- */

int engine_check_backend(const struct options *options)
{
    const char *asked = options->device == DEVICE_CUDA ? "cuda" : options->device == DEVICE_SOFT ? "soft" : NULL;

    if (!asked || !strcmp(asked, gpu_backend_name()))
        return EXIT_OK;
    log_error("--device %s: this program is built for %s: use --device %s", asked, gpu_backend_name(),
              gpu_backend_name());
    return EXIT_RESOURCE;
}

int engine_configure(const struct options *options, int devices)
{
    const struct gpu_settings settings = {
        .device_memory = options->device_memory,
        .cores_per_device = options->cores_per_device,
        .devices_used = devices,
        .collective_limit_s = options->timeout,
        .record_path = options->record,
        .shape_only = options->shape_only,
    };

    TRY(engine_check_backend(options));
    if (options->find_batch && strcmp(gpu_backend_name(), "soft") != 0) {
        log_error("--find-batch: only soft GPUs can try batches without memory; this run uses CUDA: add --device soft "
                  "--device-memory MIB");
        return EXIT_RESOURCE;
    }
    return gpu_configure(&settings);
}

int engine_print_device_count(void)
{
    int count = 0;

    TRY(gpu_device_count(&count));
    printf("%d\n", count);
    return EXIT_OK;
}
