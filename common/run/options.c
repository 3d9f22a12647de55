/* SPDX-License-Identifier: MIT
 *
 * Reads the command line by the rows of options_table.c, then resolves what follows from several options together.
 */
#include "run/options.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "run/options_table.h"
#include "sys/exit_codes.h"
#include "sys/log.h"
#include "sys/nearest.h"

#define DONE (-1)

struct command_line {
    struct options *options;
    enum option_programs program;
    int argc, at; /* at: the argument being read */
    char **argv;
    bool given[OPTION_ROWS_MAX]; /* by row */
};

/* `name` up to its '=' or end, '_' and '-' being one: torch's launchers say --local_rank and --local-rank. */
static bool same_name(const char *typed, size_t length, const char *name)
{
    if (strlen(name) != length)
        return false;
    for (size_t i = 0; i < length; i++) {
        char c = typed[i] == '_' ? '-' : typed[i];
        if (c != name[i])
            return false;
    }
    return true;
}

static const struct option_row *find_row(const char *name, size_t length)
{
    for (size_t i = 0; i < option_row_count; i++)
        if (same_name(name, length, option_rows[i].name))
            return &option_rows[i];
    return NULL;
}

static bool is_given(const struct command_line *line, const char *name)
{
    return line->given[option_named(name) - option_rows];
}

static int refuse_unknown(const struct command_line *line, const char *name, size_t length)
{
    const char *names[OPTION_ROWS_MAX + 2] = {"help", "version"};
    size_t count = 2;
    char typed[64];

    snprintf(typed, sizeof typed, "%.*s", (int)(length < 63 ? length : 63), name);
    for (size_t i = 0; i < option_row_count; i++)
        if (option_rows[i].programs & line->program)
            names[count++] = option_rows[i].name;
    const char *nearest = nearest_name(typed, names, count);
    if (nearest)
        log_error("unknown option --%s: did you mean --%s?", typed, nearest);
    else
        log_error("unknown option --%s: --help lists the known ones", typed);
    return EXIT_USAGE;
}

static int read_option(struct command_line *line, const char *name)
{
    const char *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    const struct option_row *row = find_row(name, length);

    if (!row)
        return refuse_unknown(line, name, length);
    if (!(row->programs & line->program)) {
        log_error("--%s: an option of %s, not of %s", row->name, row->programs == FOR_DP ? "dp-train" : "ddp-train",
                  line->options->program);
        return EXIT_USAGE;
    }
    const char *text = equals ? equals + 1 : NULL;
    if (row->kind != OPTION_LATER) {
        if (!row->value && text) {
            log_error("--%s: takes no value, found %s", row->name, text);
            return EXIT_USAGE;
        }
        if (row->value && !text) {
            if (line->at + 1 >= line->argc) {
                log_error("--%s: expected %s after it, found the end of the line", row->name, row->value);
                return EXIT_USAGE;
            }
            text = line->argv[++line->at];
        }
    }
    line->given[row - option_rows] = true;
    return option_assign(row, line->options, text);
}

/* What the option is if it is not given, unless its meaning tells; its choices. */
static void print_values(const struct option_row *row, const struct options *options)
{
    char usual[64];

    option_format(row, options, usual, sizeof usual);
    if (row->choices[0] && row->choices[1]) {
        printf(" (");
        for (int c = 0; row->choices[c]; c++)
            printf("%s%s", c ? "|" : "", row->choices[c]);
        printf(")");
    } else if (row->value && usual[0] && !strstr(row->meaning, "default")) {
        printf(" (default %s)", usual);
    }
    printf("\n");
}

static void print_help(const struct command_line *line)
{
    const char *program = line->options->program;
    struct options defaults;

    options_set_defaults(&defaults, program);
    printf("Usage: %s [OPTION]...\n%s\n\n", program,
           line->program == FOR_DP ? "Trains as PyTorch's DataParallel does: one process, a thread per device."
                                   : "Trains as PyTorch's DistributedDataParallel does: a process per device.");
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        char name[48];
        if (!(row->programs & line->program) || row->kind == OPTION_LATER || !strcmp(row->name, "device-count"))
            continue;
        snprintf(name, sizeof name, "--%s%s%s", row->name, row->value ? " " : "", row->value ? row->value : "");
        printf("  %-28s %s", name, row->meaning);
        print_values(row, &defaults);
    }
    printf("  %-28s %s\n  %-28s %s\n\n"
           "Of several choices the first is the default.\n"
           "Exit codes: 0 ok; 1 the run failed its own check; 2 usage; 3 resource or environment; 4 bad input file;\n"
           "5 rendezvous incomplete; 6 time limit; 128+N first rank died of signal N.\n",
           "--help", "this text", "--version", "the version");
}

static int read_argument(struct command_line *line)
{
    const char *argument = line->argv[line->at];

    if (!strcmp(argument, "--help") || !strcmp(argument, "-h")) {
        print_help(line);
        return DONE;
    }
    if (!strcmp(argument, "--version") || !strcmp(argument, "-V")) {
        printf("%s %s\n", line->options->program, PROJECT_VERSION);
        return DONE;
    }
    if (strncmp(argument, "--", 2) != 0 || argument[2] == '\0') {
        log_error("unexpected argument %s: options begin with --, and --help lists them", argument);
        return EXIT_USAGE;
    }
    return read_option(line, argument + 2);
}

void options_set_gpus(struct options *options, int gpus)
{
    size_t n = (size_t)gpus;

    options->gpus = gpus;
    if (options->batch_is_per_gpu)
        options->global_batch = options->batch_per_gpu * n;
    else
        options->batch_per_gpu = options->global_batch / n + (options->global_batch % n != 0);
}

struct optimizer_settings options_optimizer(const struct options *options)
{
    struct optimizer_settings settings = options->optimizer;
    float n = (float)options->gpus;

    settings.lr *= options->lr_scale == LR_SCALE_LINEAR ? n : options->lr_scale == LR_SCALE_SQRT ? sqrtf(n) : 1;
    return settings;
}

const char *options_optimizer_name(const struct options *options)
{
    static const char *const names[] = {
        [OPTIMIZER_SGD] = "sgd", [OPTIMIZER_ADAMW] = "adamw", [OPTIMIZER_ADAM] = "adam"};

    return names[options->optimizer.kind];
}

/* torch.optim's defaults: each kind has its own learning rate and decay. */
static void set_optimizer_defaults(struct optimizer_settings *settings, bool lr_given, bool decay_given)
{
    if (settings->kind != OPTIMIZER_SGD && !lr_given)
        settings->lr = 0.001F;
    if (settings->kind == OPTIMIZER_ADAMW && !decay_given)
        settings->weight_decay = 0.01F;
}

static int resolve(const struct command_line *line)
{
    struct options *options = line->options;

    options->shape_only = options->shape_only || options->find_batch;
    set_optimizer_defaults(&options->optimizer, is_given(line, "lr"), is_given(line, "weight-decay"));
    options->batch_is_per_gpu = is_given(line, "batch-per-gpu");
    int status = options_check_combinations(options, line->given);
    options_set_gpus(options, options->gpus);
    return status ? status : options_check_batch(options);
}

int options_parse(struct options *options, const char *program, int argc, char **argv)
{
    struct command_line line = {.options = options, .argc = argc, .argv = argv};

    options_set_defaults(options, program);
    line.program = !strcmp(options->strategy, "ddp") ? FOR_DDP : FOR_DP;
    for (line.at = 1; line.at < argc; line.at++) {
        int status = read_argument(&line);
        if (status)
            return status;
    }
    return resolve(&line);
}

/* "key=value;..." of the rows for which `wanted` says yes. NULL: no memory. */
static char *join(const struct options *options,
                  bool (*wanted)(const struct option_row *row, const char *value, const struct options *options))
{
    char *text = NULL, value[4096];
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (!out)
        return NULL;
    for (size_t i = 0; i < option_row_count; i++) {
        const struct option_row *row = &option_rows[i];
        if (row->kind == OPTION_LATER || !row->key)
            continue;
        option_format(row, options, value, sizeof value);
        if (wanted(row, value, options))
            fprintf(out, "%s%s=%s", ftell(out) ? ";" : "", row->key, value);
    }
    fclose(out);
    return text;
}

static bool is_shared(const struct option_row *row, const char *value, const struct options *options)
{
    (void)value;
    (void)options;
    return row->scope != SCOPE_LOCAL;
}

/* The optimizer's learning rate and decay have defaults of their own kind, as torch.optim's have. */
static bool is_variant(const struct option_row *row, const char *value, const struct options *options)
{
    struct options defaults;
    char usual[4096];

    if (row->scope != SCOPE_VARIANT)
        return false;
    options_set_defaults(&defaults, options->program);
    defaults.optimizer.kind = options->optimizer.kind;
    set_optimizer_defaults(&defaults.optimizer, false, false);
    option_format(row, &defaults, usual, sizeof usual);
    return strcmp(value, usual) != 0;
}

char *options_canonical(const struct options *options)
{
    return join(options, is_shared);
}

char *options_variant(const struct options *options)
{
    return join(options, is_variant);
}
