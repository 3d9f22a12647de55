/* SPDX-License-Identifier: MIT
 *
 * --find-batch: the largest batch per device that fits. A strategy takes all memory of a run when it opens and a step
 * allocates nothing, so opening it is the whole trial: it takes exactly what a run would take, in the same order, from
 * devices that execute nothing and touch no memory (--shape-only). The batch is doubled until it no longer fits, then
 * the gap is halved; each trial begins with empty devices.
 */
#include "gpu/backend.h"
#include "run/engine.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

#define MOST_GLOBAL_BATCH ((size_t)1 << 24) /* as --global-batch */

static void close_trial(struct engine *engine, bool failed)
{
    if (engine->state)
        engine->strategy->close(engine->state, failed);
    engine->state = NULL;
}

/* Opens the strategy for this batch per device; it stays open if it fits. Ranks agree: it fits if it fits on all. */
static int try_batch(struct engine *engine, size_t batch, bool *fits)
{
    const struct run run = {&engine->tried, engine->world, &engine->model, &engine->dataset};

    *fits = false;
    engine->tried.batch_is_per_gpu = true;
    engine->tried.batch_per_gpu = batch;
    options_set_gpus(&engine->tried, engine->tried.gpus);
    memory_forget_refusal();
    int status = engine->strategy->open(&engine->state, &run);
    int full = world_agree(engine->world, memory_was_refused() ? EXIT_RESOURCE : EXIT_OK);
    if (full) {
        close_trial(engine, true);
        return full == EXIT_RESOURCE ? EXIT_OK : full;
    }
    TRY(world_agree(engine->world, status));
    *fits = true;
    return EXIT_OK;
}

/* *largest := the largest batch that fits, at most `most`; 0: none. */
static int search(struct engine *engine, size_t most, size_t *largest)
{
    size_t low = 0, high = most + 1; /* low fits, high does not */

    while (high - low > 1) {
        size_t doubled = low ? 2 * low : 1, middle = low + (high - low) / 2;
        size_t batch = high > most && doubled < high ? doubled : middle;
        bool fits;
        TRY(try_batch(engine, batch, &fits));
        close_trial(engine, false);
        *(fits ? &low : &high) = batch;
    }
    *largest = low;
    return EXIT_OK;
}

static int find(struct engine *engine)
{
    size_t most = MOST_GLOBAL_BATCH / (size_t)engine->options->gpus;
    bool fits;

    TRY(search(engine, most, &engine->found_batch));
    if (engine->found_batch == 0)
        return EXIT_RESOURCE;
    TRY(try_batch(engine, engine->found_batch, &fits));
    return fits ? EXIT_OK : EXIT_CHECK_FAILED;
}

static int measure(struct engine *engine, struct results *results)
{
    int device = engine->strategy->replica(engine->state, 0)->device;
    char cpuset[DEVICE_TEXT];
    struct cudaDeviceProp properties;

    GPU_TRY(cudaGetDeviceProperties(&properties, device));
    engine->device_bytes = properties.totalGlobalMem;
    engine->cores_per_device = properties.multiProcessorCount;
    TRY(gpu_device_describe(device, engine->device_name, sizeof engine->device_name, cpuset, sizeof cpuset));
    memory_reset_peaks(); /* what stays after opening is what a run reports */
    gpu_traffic_reset();
    return results_collect(results, engine);
}

int engine_find_batch(struct engine *engine, struct results *results)
{
    engine->tried = *engine->options;
    engine->options = &engine->tried;
    engine_reach(engine, PROGRESS_OPEN, 0);
    log_set_muted(true);
    int status = find(engine);
    log_set_muted(false);
    if (status) { /* the reason was told while nobody was to hear of what does not fit */
        log_error("%s%s",
                  engine->found_batch ? "" : "--find-batch: not even one sample per device: ", log_last_error());
        return status;
    }
    TRY(measure(engine, results));
    screen_found_batch(engine, results);
    return EXIT_OK;
}

const struct device_row *fullest_device(const struct results *results)
{
    const struct device_row *fullest = &results->devices[0];

    for (size_t i = 1; i < results->device_count; i++)
        if (results->devices[i].peak_total > fullest->peak_total)
            fullest = &results->devices[i];
    return fullest;
}
