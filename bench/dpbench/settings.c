/* SPDX-License-Identifier: MIT
 *
 * Parsing the sweep's options (settings.h). Numbers are read whole; every refusal names the option, the value and what
 * is allowed.
 */
#include "settings.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"
#include "sys/exit_codes.h"
#include "sys/log.h"
#include "text.h"

static const char help[] =
    "Usage: dpbench sweep [OPTION]...\n"
    "Measures single, dp and ddp in turn, proves that they train the same model, and writes CSV files, plots and a "
    "report.\n"
    "\n"
    "  --quick              few rounds on 1, 2, 4 devices: under 3 minutes on 2 cores\n"
    "  --gpus LIST          numbers of devices, such as 1,2,4,8\n"
    "  --strategies LIST    of single, dp, ddp (default all)\n"
    "  --models LIST        of the workloads named below (default all)\n"
    "  --scaling LIST       strong (one global batch), weak (one batch per device); default strong\n"
    "  --rounds N           rounds of each cell, 1 to 99\n"
    "  --steps N            timed steps of each run, 1 to 100000\n"
    "  --device NAME        auto (default), soft, cuda\n"
    "  --cores N            count on N cores (default: as many as can be used)\n"
    "  --out DIR            where everything goes (default results/run)\n"
    "  --resume             keep what DIR has finished and run the rest\n"
    "  --run-timeout SEC    limit for one run of a trainer, 1 to 86400 (default 120)\n"
    "  --programs DIR       where dp-train and ddp-train are (default: beside dpbench)\n"
    "  --plots DIR          where the plots' scripts and the report's template are\n"
    "  --help\n"
    "\n"
    "Workloads:\n";

enum {
    QUICK = 1,
    GPUS,
    STRATEGIES,
    MODELS,
    SCALING,
    ROUNDS,
    STEPS,
    DEVICE,
    CORES,
    OUT,
    RESUME,
    RUN_TIMEOUT,
    PROGRAMS,
    PLOTS,
    HELP
};

static const struct option options[] = {
    {"quick", no_argument, NULL, QUICK},
    {"gpus", required_argument, NULL, GPUS},
    {"strategies", required_argument, NULL, STRATEGIES},
    {"models", required_argument, NULL, MODELS},
    {"scaling", required_argument, NULL, SCALING},
    {"rounds", required_argument, NULL, ROUNDS},
    {"steps", required_argument, NULL, STEPS},
    {"device", required_argument, NULL, DEVICE},
    {"cores", required_argument, NULL, CORES},
    {"out", required_argument, NULL, OUT},
    {"resume", no_argument, NULL, RESUME},
    {"run-timeout", required_argument, NULL, RUN_TIMEOUT},
    {"programs", required_argument, NULL, PROGRAMS},
    {"plots", required_argument, NULL, PLOTS},
    {"help", no_argument, NULL, HELP},
    {0},
};

static int parse_integer(const char *option, const char *text, int low, int high, int *value)
{
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (end == text || *end || errno || number < low || number > high || *text == ' ' || *text == '+') {
        log_error("--%s: '%s', expected a whole number from %d to %d", option, text, low, high);
        return EXIT_USAGE;
    }
    *value = (int)number;
    return EXIT_OK;
}

/* Calls `one` for each word between commas. */
static int parse_list(const char *text, int (*one)(struct settings *, const char *word), struct settings *settings)
{
    char *copy = text_format("%s", text), *rest = copy;
    int rc = EXIT_OK;
    for (char *word; !rc && (word = strsep(&rest, ",")) != NULL;)
        rc = one(settings, word);
    free(copy);
    return rc;
}

static int add_gpus(struct settings *settings, const char *word)
{
    int n;
    int rc = parse_integer("gpus", word, 1, SETTINGS_LARGEST_N, &n);
    if (rc)
        return rc;
    int place = 0;
    while (place < settings->gpu_count && settings->gpus[place] < n)
        place++;
    if (place < settings->gpu_count && settings->gpus[place] == n)
        return EXIT_OK;
    if (settings->gpu_count == SETTINGS_MAX_GPUS) {
        log_error("--gpus: more than %d numbers", SETTINGS_MAX_GPUS);
        return EXIT_USAGE;
    }
    memmove(settings->gpus + place + 1, settings->gpus + place,
            (size_t)(settings->gpu_count - place) * sizeof *settings->gpus);
    settings->gpus[place] = n;
    settings->gpu_count++;
    return EXIT_OK;
}

static int add_strategy(struct settings *settings, const char *word)
{
    if (text_is(word, "single"))
        settings->single = true;
    else if (text_is(word, "dp"))
        settings->dp = true;
    else if (text_is(word, "ddp"))
        settings->ddp = true;
    else {
        log_error("--strategies: '%s', expected single, dp or ddp", word);
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

static int add_model(struct settings *settings, const char *word)
{
    for (int i = 0; i < workload_count; i++)
        if (text_is(word, workloads[i].name)) {
            settings->workloads |= 1U << i;
            return EXIT_OK;
        }
    log_error("--models: '%s' is not known; --help lists the workloads", word);
    return EXIT_USAGE;
}

static int add_scaling(struct settings *settings, const char *word)
{
    if (text_is(word, "strong"))
        settings->strong = true;
    else if (text_is(word, "weak"))
        settings->weak = true;
    else {
        log_error("--scaling: '%s', expected strong or weak", word);
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

static int set_device(struct settings *settings, const char *word)
{
    if (!text_is(word, "auto") && !text_is(word, "soft") && !text_is(word, "cuda")) {
        log_error("--device: '%s', expected auto, soft or cuda", word);
        return EXIT_USAGE;
    }
    settings->device = word;
    return EXIT_OK;
}

static int set_option(struct settings *settings, int option, const char *text)
{
    int seconds, rc = EXIT_OK;
    switch (option) {
    case QUICK:
        settings->quick = true;
        break;
    case RESUME:
        settings->resume = true;
        break;
    case GPUS:
        return parse_list(text, add_gpus, settings);
    case STRATEGIES:
        return parse_list(text, add_strategy, settings);
    case MODELS:
        return parse_list(text, add_model, settings);
    case SCALING:
        return parse_list(text, add_scaling, settings);
    case ROUNDS:
        return parse_integer("rounds", text, 1, 99, &settings->rounds);
    case STEPS:
        return parse_integer("steps", text, 1, 100000, &settings->steps);
    case CORES:
        return parse_integer("cores", text, 1, 1 << 16, &settings->cores);
    case RUN_TIMEOUT:
        rc = parse_integer("run-timeout", text, 1, 86400, &seconds);
        settings->run_timeout = rc ? 0 : seconds;
        return rc;
    case DEVICE:
        return set_device(settings, text);
    case OUT:
        settings->out = text;
        break;
    case PROGRAMS:
        settings->programs = text;
        break;
    case PLOTS:
        settings->plots = text;
        break;
    default:
        return EXIT_USAGE;
    }
    return rc;
}

static void set_defaults(struct settings *settings)
{
    static const int numbers[] = {1, 2, 4, 8};
    for (int i = 0; !settings->gpu_count && i < (settings->quick ? 3 : 4); i++)
        settings->gpus[i] = numbers[i];
    if (!settings->gpu_count)
        settings->gpu_count = settings->quick ? 3 : 4;
    if (!settings->single && !settings->dp && !settings->ddp)
        settings->single = settings->dp = settings->ddp = true;
    if (!settings->workloads)
        settings->workloads = (1U << workload_count) - 1;
    if (!settings->strong && !settings->weak)
        settings->strong = true;
}

int settings_parse(struct settings *settings, int argc, char **argv)
{
    *settings = (struct settings){.device = "auto", .out = "results/run", .run_timeout = 120};
    optind = 1;
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == HELP) {
            fputs(help, stdout);
            for (int i = 0; i < workload_count; i++)
                printf("  %-9s %s\n", workloads[i].name, workloads[i].title);
            return -1;
        }
        int rc = set_option(settings, option, optarg);
        if (rc)
            return rc;
    }
    if (optind < argc) {
        log_error("'%s' is no option of sweep", argv[optind]);
        return EXIT_USAGE;
    }
    set_defaults(settings);
    return EXIT_OK;
}
