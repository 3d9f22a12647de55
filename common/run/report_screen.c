/* SPDX-License-Identifier: MIT
 *
 * What a person sees: the settings in a table, a bar while it runs (plain lines when piped), the figures at the end.
 * Only rank 0 speaks. A reader that has gone away (EPIPE) ends the talking and not the training.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "run/engine.h"
#include "run/schedule.h"

#define MIB 1048576.0
#define BAR_CELLS 24
#define PLAIN_LINES 10 /* progress lines of a run when piped */

static void print_row(const char *name, const char *value)
{
    printf("| %-16s | %-76s |\n", name, value);
}

/* One line of the table; what follows the name is printf's. */
#define ROW(name, ...)                                                                                                 \
    do {                                                                                                               \
        char value_[256];                                                                                              \
        snprintf(value_, sizeof value_, __VA_ARGS__);                                                                  \
        print_row(name, value_);                                                                                       \
    } while (0)

static void rule(void)
{
    static const char dashes[] = "------------------------------------------------------------------------------";
    printf("+-%.16s-+-%.76s-+\n", dashes, dashes);
}

static const char *strategy_text(const struct options *options)
{
    if (!strcmp(options->strategy, "dp"))
        return "DataParallel: one process, a thread per device";
    if (!strcmp(options->strategy, "ddp"))
        return "DistributedDataParallel: a process per device";
    return "single: one device, no wrapper";
}

static void print_batch(const struct options *options)
{
    ROW("global batch", "%zu", options->global_batch);
    ROW("as PyTorch says", "DataParallel: batch %zu; DistributedDataParallel on %d: batch %zu per process",
        options->global_batch, options->gpus, options->batch_per_gpu);
    if (options->accumulate > 1)
        ROW("micro-batches", "%d", schedule_micro_batches(options));
}

static void print_optimizer(const struct options *options)
{
    const struct optimizer_settings *s = &options->optimizer;

    if (s->kind == OPTIMIZER_SGD)
        ROW("optimizer", "sgd: lr %g, momentum %g, weight decay %g", (double)s->lr, (double)s->momentum,
            (double)s->weight_decay);
    else
        ROW("optimizer", "adamw: lr %g, betas %g %g, weight decay %g", (double)s->lr, (double)s->beta1,
            (double)s->beta2, (double)s->weight_decay);
}

void screen_start(const struct engine *engine)
{
    const struct options *options = engine->options;
    const struct model_settings *s = &engine->model.settings;

    if (engine->world->rank != 0)
        return;
    rule();
    ROW("strategy", "%s", strategy_text(options));
    ROW("devices", "%d; the first is %s", options->gpus, engine->device_name);
    ROW("model", "%s: %zu -> %zu x %zu -> %zu, %zu parameters", options->model, s->inputs, s->depth, s->width,
        s->classes, engine->model.parameter_elements);
    if (engine->dataset.resident)
        ROW("data", "%s, resident on the device", engine->dataset.name);
    else
        ROW("data", "%s: %zu samples to train, %zu to test", engine->dataset.name, engine->dataset.train_count,
            engine->dataset.test_count);
    print_batch(options);
    print_optimizer(options);
    ROW("precision", "%s", options->precision);
    ROW("steps", "%d, after %d of warm-up, from step %llu on; seed %llu", engine->steps, engine->warmup,
        (unsigned long long)engine->step, (unsigned long long)options->seed);
    rule();
    (void)fflush(stdout);
}

static void print_bar(const char *what, int done, int steps, double loss, double rate)
{
    int filled = (int)((double)BAR_CELLS * done / steps);

    printf("\r%-8s [", what);
    for (int i = 0; i < BAR_CELLS; i++)
        putchar(i < filled ? '#' : '.');
    printf("] %d/%d  loss %.4f  %.0f samples/s   %s", done, steps, loss, rate, done == steps ? "\n" : "");
}

void screen_step(const struct engine *engine, const char *what, int step, int steps, const struct step_result *result,
                 double seconds)
{
    double loss = engine_loss(engine->options, result->loss_sum, result->samples);
    double rate = (double)result->samples * engine->world->size / seconds;
    int done = step + 1, stride = steps > PLAIN_LINES ? steps / PLAIN_LINES : 1;
    bool terminal;

    if (engine->world->rank != 0 || result->samples == 0 || engine->options->shape_only)
        return;
    terminal = isatty(STDOUT_FILENO) == 1;
    if (terminal)
        print_bar(what, done, steps, loss, rate);
    else if (done % stride == 0 || done == steps)
        printf("%s %d/%d  loss %.4f  %.0f samples/s\n", what, done, steps, loss, rate);
    (void)fflush(stdout);
}

static void print_breakdown(const struct summary *summary)
{
    printf("breakdown ms");
    for (int phase = 0; phase < PHASES; phase++)
        if (summary->phase_ms[phase] > 0)
            printf("  %s %.3f", phase_name((enum phase)phase), summary->phase_ms[phase]);
    printf("\n");
}

static void print_devices(const struct results *results)
{
    for (size_t i = 0; i < results->device_count; i++) {
        const struct device_row *device = &results->devices[i];
        printf("device %d: peak %.2f MiB", device->position, (double)device->peak_total / MIB);
        if (isfinite(device_utilization(device)))
            printf(", busy %.0f %%", 100 * device_utilization(device));
        if (results->ledger.counted && results->ledger.steps)
            printf(", sent %.3f, received %.3f MiB a step", ledger_sent(&results->ledger, device->position) / MIB,
                   ledger_received(&results->ledger, device->position) / MIB);
        if (device->cpuset[0])
            printf(", cores %s", device->cpuset);
        printf("\n");
    }
}

void screen_end(const struct engine *engine, const struct results *results)
{
    struct summary summary;

    if (engine->world->rank != 0)
        return;
    results_summarize(&summary, results, engine);
    if (engine->skipped)
        printf("%d steps skipped: the global batch holds no sample\n", engine->skipped);
    if (isfinite(summary.step_ms)) {
        printf("step %.3f ms (median of %d; MAD %.3f, p95 %.3f)  %.0f samples/s  loss %.4f -> %.4f\n", summary.step_ms,
               engine->row_count, summary.step_ms_mad, summary.step_ms_p95, summary.samples_per_s, summary.loss_first,
               summary.loss_last);
        print_breakdown(&summary);
    }
    print_devices(results);
    if (summary.oversubscribed)
        printf("oversubscribed: %d devices with %d core%s each need more than there are; times teach nothing here\n",
               engine->options->gpus, engine->cores_per_device, engine->cores_per_device == 1 ? "" : "s");
    if (engine->verified)
        printf("checksum %016llx after %d steps\n", (unsigned long long)engine->checksum, VERIFICATION_STEPS);
    if (results->evaluated)
        printf("test: %zu samples, %zu right: %.2f %%\n", results->evaluation.samples, results->evaluation.correct,
               100 * (double)results->evaluation.correct / (double)results->evaluation.samples);
    (void)fflush(stdout);
}
