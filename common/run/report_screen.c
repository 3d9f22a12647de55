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
#define TEXT_COLUMNS 76  /* of the settings table */
#define LISTED_DEVICES 8 /* each with its own number in the table */
#define PLAIN_LINES 10   /* progress lines of a run when piped */

static void print_row(const char *name, const char *value)
{
    printf("| %-16s | %-*s |\n", name, TEXT_COLUMNS, value);
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
    printf("+-%.16s-+-%.*s-+\n", dashes, TEXT_COLUMNS, dashes);
}

static const char *strategy_text(const struct options *options)
{
    if (!strcmp(options->strategy, "dp"))
        return "DataParallel: one process, a thread per device";
    if (!strcmp(options->strategy, "ddp"))
        return "DistributedDataParallel: a process per device";
    return "single: one device, no wrapper";
}

/* Rows of each device in an update: "3, 3, 3, 0", of many devices "31 x 4, 2"; one number if all are equal. The chunk
 * rule gives equal pieces, perhaps a smaller one, perhaps none to the rest. */
static void describe_pieces(const struct options *options, char *text, size_t size)
{
    int n = options->gpus;
    size_t used = 0;

    text[0] = '\0';
    for (int device = 0; device < n && used < size;) {
        size_t rows = schedule_rows(options, n, device);
        int run = 1;
        while (device + run < n && schedule_rows(options, n, device + run) == rows)
            run++;
        const char *comma = device ? ", " : "";
        if (run == n)
            used += (size_t)snprintf(text + used, size - used, "%zu", rows);
        else if (n > LISTED_DEVICES && run > 1)
            used += (size_t)snprintf(text + used, size - used, "%s%d x %zu", comma, run, rows);
        else
            for (int i = 0; i < run && used < size; i++)
                used += (size_t)snprintf(text + used, size - used, "%s%zu", device + i ? ", " : "", rows);
        device += run;
    }
}

/* Devices without a row are the last ones. */
static void print_idle(const struct options *options)
{
    int last = options->gpus - 1, first = last + 1;

    while (first > 0 && schedule_rows(options, options->gpus, first - 1) == 0)
        first--;
    if (first == last)
        ROW("no work", "device %d gets no sample", last);
    else if (first < last)
        ROW("no work", "devices %d to %d get no sample", first, last);
}

static void print_batch(const struct options *options)
{
    char pieces[128], text[256];

    describe_pieces(options, pieces, sizeof pieces);
    ROW("global batch", "%zu", options->global_batch);
    int length =
        snprintf(text, sizeof text, "DataParallel: batch %zu; DistributedDataParallel on %d: batch %s per process",
                 options->global_batch, options->gpus, pieces);
    if (length <= TEXT_COLUMNS) {
        print_row("as PyTorch says", text);
    } else {
        ROW("as PyTorch says", "DataParallel: batch %zu;", options->global_batch);
        ROW("", "DistributedDataParallel on %d: batch %s per process", options->gpus, pieces);
    }
    if (options->global_batch)
        print_idle(options);
    if (options->accumulate > 1)
        ROW("micro-batches", "%d", schedule_micro_batches(options));
}

static void print_optimizer(const struct options *options)
{
    const struct optimizer_settings settings = options_optimizer(options), *s = &settings;

    if (s->kind == OPTIMIZER_SGD)
        ROW("optimizer", "sgd: lr %g, momentum %g%s, weight decay %g", (double)s->lr, (double)s->momentum,
            s->nesterov ? " (Nesterov)" : "", (double)s->weight_decay);
    else
        ROW("optimizer", "%s: lr %g, betas %g %g, weight decay %g", options_optimizer_name(options), (double)s->lr,
            (double)s->beta1, (double)s->beta2, (double)s->weight_decay);
}

void screen_start(const struct engine *engine)
{
    const struct options *options = engine->options;

    if (engine->world->rank != 0)
        return;
    rule();
    ROW("strategy", "%s", strategy_text(options));
    ROW("devices", "%d; the first is %s", options->gpus, engine->device_name);
    ROW("model", "%s, %zu parameters", options->model, engine->model.parameter_elements);
    ROW("sizes", "%s", engine->model.text);
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

static void print_bar(const char *what, int done, int steps, const char *figures)
{
    int filled = (int)((double)BAR_CELLS * done / steps);

    printf("\r%-8s [", what);
    for (int i = 0; i < BAR_CELLS; i++)
        putchar(i < filled ? '#' : '.');
    printf("] %d/%d  %s   %s", done, steps, figures, done == steps ? "\n" : "");
}

/* Rank 0 knows its own piece's loss: asking the others would make it wait for them between the steps. A batch of real
 * data is always whole (sampler.h), so every step has global_batch samples. */
void screen_step(const struct engine *engine, const char *what, int step, int steps, const struct step_result *result,
                 double seconds)
{
    const struct options *options = engine->options;
    char figures[96];
    int done = step + 1, stride = steps > PLAIN_LINES ? steps / PLAIN_LINES : 1;
    bool terminal;

    if (engine->world->rank != 0 || result->samples == 0 || options->shape_only)
        return;
    snprintf(figures, sizeof figures, "%s %.4f  %.0f samples/s", engine->world->size > 1 ? "rank 0's loss" : "loss",
             engine_loss(engine, result->loss_sum, result->samples), (double)options->global_batch / seconds);
    terminal = isatty(STDOUT_FILENO) == 1;
    if (terminal)
        print_bar(what, done, steps, figures);
    else if (done % stride == 0 || done == steps)
        printf("%s %d/%d  %s\n", what, done, steps, figures);
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

/* A sample of tokens has many targets, each right or wrong. */
static void print_test(const struct evaluation *evaluation, size_t targets)
{
    size_t all = evaluation->samples * targets;

    printf("test: %zu samples, %zu right", evaluation->samples, evaluation->correct);
    if (targets > 1)
        printf(" of %zu targets", all);
    printf(": %.2f %%\n", 100 * (double)evaluation->correct / (double)all);
}

void screen_end(const struct engine *engine, const struct results *results)
{
    struct summary summary;

    if (engine->world->rank != 0)
        return;
    results_summarize(&summary, results, engine);
    if (engine->skipped)
        printf("%d steps skipped: the global batch holds no sample\n", engine->skipped);
    if (results->control.skipped)
        printf("%d step%s skipped: inf or NaN in the gradients; the loss scale is %g now\n", results->control.skipped,
               results->control.skipped == 1 ? "" : "s", (double)results->control.loss_scale);
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
        print_test(&results->evaluation, engine->model.targets);
    (void)fflush(stdout);
}

void screen_found_batch(const struct engine *engine, const struct results *results)
{
    const struct options *options = engine->options;

    if (engine->world->rank != 0)
        return;
    const struct device_row *fullest = fullest_device(results);
    printf("largest batch per device: %zu (global batch %zu; %s, %d devices of %.2f MiB)\n", engine->found_batch,
           options->global_batch, options->strategy, options->gpus, (double)engine->device_bytes / MIB);
    printf("device %d is the fullest: %.2f MiB:", fullest->position, (double)fullest->peak_total / MIB);
    for (int category = 0; category < MEMORY_CATEGORIES; category++)
        if (fullest->peak[category])
            printf(" %s %.2f", memory_category_name((enum memory_category)category),
                   (double)fullest->peak[category] / MIB);
    printf("\n");
    if (engine->dataset.train_count && options->global_batch > engine->dataset.train_count)
        printf("the data has only %zu training samples\n", engine->dataset.train_count);
    (void)fflush(stdout);
}
