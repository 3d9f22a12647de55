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
#include <time.h>

#include "plan.h"
#include "sys/exit_codes.h"
#include "sys/log.h"
#include "sys/nearest.h"
#include "text.h"

static const char help[] =
    "Usage: dpbench sweep [OPTION]...\n"
    "Measures single, dp and ddp in turn, proves that they train the same model, and writes CSV files, plots and a "
    "report.\n"
    "\n"
    "  --quick              few rounds on 1, 2, 4 devices: under 4 minutes on 2 cores\n"
    "  --gpus LIST          numbers of devices, such as 1,2,4,8\n"
    "  --strategies LIST    of single, dp, ddp (default all)\n"
    "  --models LIST        of the workloads named below (default all)\n"
    "  --scaling LIST       strong (one global batch), weak (one batch per device); default strong\n"
    "  --rounds N           rounds of each cell, 1 to 99\n"
    "  --steps N            timed steps of each run, 1 to 100000\n"
    "  --device NAME        auto (default), soft, cuda\n"
    "  --cores N            count on N cores (default: as many as can be used)\n"
    "  --out DIR            where everything goes (default RESULTS/<time>, in UTC)\n"
    "  --results DIR        where that folder is made (default results)\n"
    "  --resume             keep what DIR has finished and run the rest\n"
    "  --run-timeout SEC    limit for one run of a trainer, 1 to 86400 (default 120)\n"
    "  --programs DIR       where dp-train and ddp-train are (default: beside dpbench)\n"
    "  --plots DIR          where the plots' scripts and the report's template are\n"
    "  --check-options      say whether these options are right, and end\n"
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
    RESULTS,
    RESUME,
    RUN_TIMEOUT,
    PROGRAMS,
    PLOTS,
    CHECK_OPTIONS,
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
    {"results", required_argument, NULL, RESULTS},
    {"resume", no_argument, NULL, RESUME},
    {"run-timeout", required_argument, NULL, RUN_TIMEOUT},
    {"programs", required_argument, NULL, PROGRAMS},
    {"plots", required_argument, NULL, PLOTS},
    {"check-options", no_argument, NULL, CHECK_OPTIONS},
    {"help", no_argument, NULL, HELP},
    {0},
};
#define OPTIONS (sizeof options / sizeof *options - 1)

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

/* Position of the word among the names; -1: none of them, reported with the nearest one. */
static int find_word(const char *option, const char *word, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (text_is(word, names[i]))
            return i;
    struct text list;
    text_open(&list);
    for (int i = 0; i < count; i++)
        fprintf(list.out, "%s%s", i == 0 ? "" : i + 1 < count ? ", " : " or ", names[i]);
    text_close(&list);
    const char *nearest = nearest_name(word, names, (size_t)count);
    log_error("--%s: '%s', expected %s%s%s%s", option, word, list.data, nearest ? "; did you mean " : "",
              nearest ? nearest : "", nearest ? "?" : "");
    free(list.data);
    return -1;
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
    static const char *const names[] = {"single", "dp", "ddp"};
    bool *const wanted[] = {&settings->single, &settings->dp, &settings->ddp};
    int i = find_word("strategies", word, names, 3);
    if (i < 0)
        return EXIT_USAGE;
    *wanted[i] = true;
    return EXIT_OK;
}

static int add_model(struct settings *settings, const char *word)
{
    const char *names[32]; /* a bit each in settings->workloads */
    for (int i = 0; i < workload_count; i++)
        names[i] = workloads[i].name;
    int i = find_word("models", word, names, workload_count);
    if (i < 0)
        return EXIT_USAGE;
    settings->workloads |= 1U << i;
    return EXIT_OK;
}

static int add_scaling(struct settings *settings, const char *word)
{
    static const char *const names[] = {"strong", "weak"};
    bool *const wanted[] = {&settings->strong, &settings->weak};
    int i = find_word("scaling", word, names, 2);
    if (i < 0)
        return EXIT_USAGE;
    *wanted[i] = true;
    return EXIT_OK;
}

static int set_device(struct settings *settings, const char *word)
{
    static const char *const names[] = {"auto", "soft", "cuda"};
    int i = find_word("device", word, names, 3);
    if (i < 0)
        return EXIT_USAGE;
    settings->device = names[i];
    return EXIT_OK;
}

/* getopt has met a word that it does not know (`?`), or an option at the end that lacks its value (`:`). */
static int refuse_option(int found, const char *word)
{
    const char *names[OPTIONS];
    char typed[64];
    if (found == ':') {
        log_error("%s needs a value", word);
        return EXIT_USAGE;
    }
    snprintf(typed, sizeof typed, "%.*s", (int)strcspn(word, "="), word);
    for (size_t i = 0; i < OPTIONS; i++) {
        names[i] = options[i].name;
        if (word[strlen(typed)] && text_is(typed + strspn(typed, "-"), names[i])) {
            log_error("%s: this option takes no value", word);
            return EXIT_USAGE;
        }
    }
    const char *nearest = nearest_name(typed + strspn(typed, "-"), names, OPTIONS);
    if (nearest)
        log_error("%s is no option: did you mean --%s?", typed, nearest);
    else
        log_error("%s is no option: --help lists them", typed);
    return EXIT_USAGE;
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
        settings->gpus_given = true;
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
    case CHECK_OPTIONS:
        settings->check_options = true;
        break;
    case OUT:
        settings->out = text;
        break;
    case RESULTS:
        settings->results = text;
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

/* One time for the run and its folder. */
static void set_run_id(struct settings *settings)
{
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(settings->run_id, sizeof settings->run_id, "%Y%m%dT%H%M%SZ", &utc);
}

static int print_help(void)
{
    fputs(help, stdout);
    for (int i = 0; i < workload_count; i++)
        printf("  %-9s %s\n", workloads[i].name, workloads[i].title);
    return -1;
}

int settings_parse(struct settings *settings, int argc, char **argv)
{
    *settings = (struct settings){.device = "auto", .results = "results", .run_timeout = 120};
    optind = 1;
    opterr = 0;
    int option, at = optind;
    while ((option = getopt_long(argc, argv, ":", options, NULL)) != -1) {
        if (option == HELP)
            return print_help();
        int rc =
            option == '?' || option == ':' ? refuse_option(option, argv[at]) : set_option(settings, option, optarg);
        if (rc)
            return rc;
        at = optind;
    }
    if (optind < argc)
        return refuse_option('?', argv[optind]);
    if (settings->resume && !settings->out) {
        log_error("--resume needs --out with the folder to go on with");
        return EXIT_USAGE;
    }
    set_defaults(settings);
    set_run_id(settings);
    return settings->check_options ? -1 : EXIT_OK;
}
