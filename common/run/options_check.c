/* SPDX-License-Identifier: MIT
 *
 * What several options say together: contradictions, and options without an effect. A row of results.csv shows what was
 * asked for (`variant`), so an option that changes nothing with this strategy, precision, optimizer or data is refused.
 * What has no effect only because N is 1, or because the run is a question (--find-batch, --shape-only), is taken: the
 * same command line is used for all N and for the run itself. docs/engine.md has the list.
 */
#include "run/options_table.h"

#include <stdio.h>
#include <string.h>

#include "sys/exit_codes.h"
#include "sys/log.h"

/* "--name value", or "--name" for a flag. */
static const char *say(const char *name, const struct options *options, char *text, size_t size)
{
    const struct option_row *row = option_named(name);
    char value[256] = "";

    if (row->kind != OPTION_FLAG)
        option_format(row, options, value, sizeof value);
    snprintf(text, size, "--%s%s%s", name, value[0] ? " " : "", value);
    return text;
}

static bool is_given(const bool *given, const char *name)
{
    return given[option_named(name) - option_rows];
}

/* ---- no effect --------------------------------------------------------------------------------------------------- */

/* `option` changes nothing while the option `by` has one of the values `idle`. */
static const struct no_effect {
    const char *option, *by, *idle[2], *expected;
} no_effects[] = {
    {"loss-scale", "precision", {"fp32", "bf16"}, "fp16"},
    {"momentum", "optimizer", {"adamw", "adam"}, "sgd"},
    {"schedule-updates", "schedule", {"constant"}, "cosine or linear"},
    {"drop-last", "sampler", {"chunk"}, "distributed"}, /* chunk always leaves out a batch that would not be whole */
    {"loaders", "data", {"synthetic"}, "digits, a folder or a file: synthetic data lies on the devices"},
    {"dp-transport", "strategy", {"single"}, "dp"},
    {"dp-loss", "strategy", {"single"}, "dp"},
    {"output-device", "strategy", {"single"}, "dp"},
};

static int check_effects(const struct options *options, const bool *given)
{
    for (size_t i = 0; i < sizeof no_effects / sizeof no_effects[0]; i++) {
        const struct no_effect *row = &no_effects[i];
        char value[256], texts[2][300];
        option_format(option_named(row->by), options, value, sizeof value);
        bool idle = !strcmp(value, row->idle[0]) || (row->idle[1] && !strcmp(value, row->idle[1]));
        if (!idle || !is_given(given, row->option))
            continue;
        log_error("%s: has no effect with %s; expected --%s %s", say(row->option, options, texts[0], sizeof texts[0]),
                  say(row->by, options, texts[1], sizeof texts[1]), row->by, row->expected);
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

/* ---- contradictions ---------------------------------------------------------------------------------------------- */

/* Of each pair one says the other. */
static int check_pairs(const struct options *options, const bool *given)
{
    static const char *const pairs[][2] = {{"global-batch", "batch-per-gpu"}, {"steps", "epochs"}};

    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        char texts[2][300];
        if (!is_given(given, pairs[i][0]) || !is_given(given, pairs[i][1]))
            continue;
        log_error("%s and %s: one says the other; give one", say(pairs[i][0], options, texts[0], sizeof texts[0]),
                  say(pairs[i][1], options, texts[1], sizeof texts[1]));
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

static int check_devices(const struct options *options)
{
    if (!strcmp(options->strategy, "single") && options->gpus != 1) {
        log_error("--gpus %d: the strategy single has one device", options->gpus);
        return EXIT_USAGE;
    }
    if (options->output_device >= options->gpus) {
        log_error("--output-device %d: expected a whole number from 0 to %d (--gpus %d)", options->output_device,
                  options->gpus - 1, options->gpus);
        return EXIT_USAGE;
    }
    if (strcmp(options->strategy, "ddp") != 0 && options->loss_average == LOSS_AVERAGE_RANKS) {
        log_error("--loss-average ranks: dp-train takes one mean over the whole batch; expected samples");
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

static int check_optimizer(const struct options *options)
{
    const struct optimizer_settings *s = &options->optimizer;

    if (s->nesterov && (s->kind != OPTIMIZER_SGD || s->momentum <= 0)) {
        log_error("--nesterov: expected --optimizer sgd with a momentum, found %s, momentum %g",
                  options_optimizer_name(options), (double)s->momentum);
        return EXIT_USAGE;
    }
    if (s->total_updates && s->total_updates <= s->warmup_updates) {
        log_error("--schedule-updates %d: expected more than --lr-warmup %d", s->total_updates, s->warmup_updates);
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

/* Without values there is nothing to prove, to keep or to go on from, and no time to draw; without a step nothing to
 * record. */
static int check_shape_only(const struct options *options)
{
    bool wants_values = options->checksum || options->save || options->save_gradients || options->resume;

    if (options->find_batch && options->record) {
        log_error("--find-batch runs no step: it does not go with --record");
        return EXIT_USAGE;
    }
    if (!options->shape_only || !(wants_values || options->trace))
        return EXIT_OK;
    log_error("--%s executes nothing: it does not go with --checksum, --save, --save-gradients, --resume or --trace",
              options->find_batch ? "find-batch" : "shape-only");
    return EXIT_USAGE;
}

int options_check_combinations(const struct options *options, const bool *given)
{
    int status = check_pairs(options, given);

    if (!status)
        status = check_devices(options);
    if (!status)
        status = check_shape_only(options);
    if (!status)
        status = check_optimizer(options);
    return status ? status : check_effects(options, given);
}

int options_check_batch(const struct options *options)
{
    if (options->sampler == SAMPLER_DISTRIBUTED)
        return distributed_check_batch(options->global_batch, options->gpus, options->accumulate);
    return EXIT_OK;
}
