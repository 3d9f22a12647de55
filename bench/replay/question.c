/* SPDX-License-Identifier: MIT
 *
 * See question.h.
 */
#include "question.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "sys/decimal.h"
#include "sys/exit_codes.h"
#include "sys/log.h"
#include "sys/nearest.h"

static const char usage[] =
    "Usage: replay RECORD... --machine NAME|FILE [OPTION]...\n"
    "Plays the records of a run (--record of dp-train and ddp-train) on a described machine. The times are modelled.\n"
    "\n"
    "      --machine NAME        a file of bench/machines, or the path of one\n"
    "      --gpus N              DDP: N ranks, each as the one whose record is given (1 to 4096)\n"
    "\n"
    "What if:\n"
    "      --bandwidth X         links and collectives move bytes X times as fast\n"
    "      --latency X           their latencies are X times as long\n"
    "      --compute X           devices compute X times as fast\n"
    "      --no-p2p              copies and collectives go through the host\n"
    "      --bucket-cap-mb X     DDP closes its buckets at X MiB\n"
    "      --slow-rank R FACTOR  rank R's kernels take FACTOR times as long\n"
    "      --jitter SIGMA SEED   every rank's kernels take 1 + SIGMA z times as long, z normal, drawn for each step\n"
    "      --launch-lock US      emulation: launches of a process one at a time, each US longer\n"
    "      --collectives HOW     table, fit (latency + c sqrt(n) + n/B) or alpha-beta (latency + n/B); default table\n"
    "\n"
    "      --trace FILE          the timeline, for Perfetto or Chrome\n"
    "      --csv FILE            a row of results.csv, with clock = modelled\n"
    "      --json FILE           the same and more, one object a line\n"
    "      --machines FOLDER     where NAMEs are\n"
    "  -h, --help                this text\n"
    "  -V, --version\n";

enum option_name {
    MACHINE = 256,
    GPUS,
    BANDWIDTH,
    LATENCY,
    COMPUTE,
    NO_P2P,
    BUCKET_CAP,
    SLOW_RANK,
    JITTER,
    LAUNCH_LOCK,
    COLLECTIVES,
    TRACE,
    CSV,
    JSON,
    MACHINES,
};

static const struct option long_options[] = {
    {"machine", required_argument, NULL, MACHINE},
    {"gpus", required_argument, NULL, GPUS},
    {"bandwidth", required_argument, NULL, BANDWIDTH},
    {"latency", required_argument, NULL, LATENCY},
    {"compute", required_argument, NULL, COMPUTE},
    {"no-p2p", no_argument, NULL, NO_P2P},
    {"bucket-cap-mb", required_argument, NULL, BUCKET_CAP},
    {"slow-rank", required_argument, NULL, SLOW_RANK},
    {"jitter", required_argument, NULL, JITTER},
    {"launch-lock", required_argument, NULL, LAUNCH_LOCK},
    {"collectives", required_argument, NULL, COLLECTIVES},
    {"trace", required_argument, NULL, TRACE},
    {"csv", required_argument, NULL, CSV},
    {"json", required_argument, NULL, JSON},
    {"machines", required_argument, NULL, MACHINES},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};
#define LONG_OPTIONS (sizeof(long_options) / sizeof(long_options[0]) - 1)

static int refuse(const char *option, const char *found, const char *expected)
{
    log_error("--%s: found \"%s\", expected %s (see replay --help)", option, found ? found : "nothing", expected);
    return EXIT_USAGE;
}

/* The whole text is a decimal number from low to high. */
static int read_number(const char *option, const char *text, double low, double high, double *value)
{
    char expected[64];
    if (decimal_read(text, value) && *value >= low && *value <= high)
        return EXIT_OK;
    snprintf(expected, sizeof(expected), "a number from %.10g to %.10g", low, high);
    return refuse(option, text, expected);
}

static int read_integer(const char *option, const char *text, double low, double high, double *value)
{
    int status = read_number(option, text, low, high, value);
    return status || *value == (double)(long long)*value ? status : refuse(option, text, "a whole number");
}

/* The second value of an option of two: the next word of the command line. */
static const char *second(int argc, char **argv)
{
    return optind < argc ? argv[optind++] : NULL;
}

static int read_method(struct question *question, const char *text)
{
    for (int method = 0; method < METHODS; method++)
        if (!strcmp(text, method_names[method])) {
            question->play.what_if.method = (enum collective_method)method;
            return EXIT_OK;
        }
    return refuse("collectives", text, "table, fit or alpha-beta");
}

static int read_pair(struct question *question, int option, int argc, char **argv)
{
    struct play_options *play = &question->play;
    double first = 0, value = 0;
    int status;
    if (option == SLOW_RANK) {
        status = read_integer("slow-rank", optarg, 0, 4095, &first);
        status =
            status ? status : read_number("slow-rank R FACTOR", second(argc, argv), 0.01, 1000, &play->slow_factor);
        play->slow_rank = (int)first;
        return status;
    }
    status = read_number("jitter", optarg, 0, 1, &play->jitter_sigma);
    status = status ? status : read_integer("jitter SIGMA SEED", second(argc, argv), 0, 9007199254740992.0, &value);
    play->jitter_seed = (uint64_t)value;
    return status;
}

static int read_option(struct question *question, int option, int argc, char **argv)
{
    struct play_options *play = &question->play;
    double value = 0;
    int status = EXIT_OK;
    switch (option) {
    case GPUS:
        status = read_integer("gpus", optarg, 1, 4096, &value);
        play->replicate = (int)value;
        return status;
    case BANDWIDTH:
        return read_number("bandwidth", optarg, 1e-6, 1e6, &play->what_if.bandwidth);
    case LATENCY:
        return read_number("latency", optarg, 0, 1e6, &play->what_if.latency);
    case COMPUTE:
        return read_number("compute", optarg, 1e-6, 1e6, &play->what_if.compute);
    case BUCKET_CAP:
        return read_number("bucket-cap-mb", optarg, 1e-6, 1048576, &question->bucket_cap_mib);
    case LAUNCH_LOCK:
        status = read_number("launch-lock", optarg, 0.001, 1e6, &value);
        play->launch_lock_s = value * 1e-6;
        return status;
    case COLLECTIVES:
        return read_method(question, optarg);
    default:
        return read_pair(question, option, argc, argv);
    }
}

static int read_text(struct question *question, int option)
{
    const char **texts[] = {&question->machine, &question->trace, &question->csv, &question->json, &question->folder};
    const int names[] = {MACHINE, TRACE, CSV, JSON, MACHINES};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (option == names[i]) {
            *texts[i] = optarg;
            return true;
        }
    return false;
}

static int refuse_unknown(const char *word)
{
    const char *names[LONG_OPTIONS];
    for (size_t i = 0; i < LONG_OPTIONS; i++)
        names[i] = long_options[i].name;
    const char *nearest = word[0] == '-' && word[1] == '-' ? nearest_name(word + 2, names, LONG_OPTIONS) : NULL;
    log_error("unknown option or missing value: %s%s%s (see replay --help)", word, nearest ? "; did you mean --" : "",
              nearest ? nearest : "");
    return EXIT_USAGE;
}

static int check(struct question *question, int argc, char **argv)
{
    question->records = argv + optind;
    question->record_count = argc - optind;
    if (question->record_count < 1) {
        log_error("no record found, expected at least one file of --record (see replay --help)");
        return EXIT_USAGE;
    }
    const char *const files[] = {question->trace, question->csv, question->json};
    const char *const names[] = {"trace", "csv", "json"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (files[i] && !files[i][0])
            return refuse(names[i], "", "a file's name");
    if (!question->machine)
        return refuse("machine", NULL, "a machine's name or file");
    if (question->play.replicate && question->record_count != 1) {
        log_error("--gpus %d: %d records are given, expected one: the rank that all others are like",
                  question->play.replicate, question->record_count);
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

int question_parse(struct question *question, int argc, char **argv, const char *folder)
{
    int option;
    *question = (struct question){.folder = folder};
    play_options_init(&question->play);
    opterr = 0;
    optind = 1;
    for (;;) {
        int word = optind;
        option = getopt_long(argc, argv, "hV", long_options, NULL);
        if (option == -1)
            break;
        if (option == 'h' || option == 'V') {
            printf("%s", option == 'h' ? usage : "replay " PROJECT_VERSION "\n");
            return QUESTION_DONE;
        }
        if (option == '?')
            return refuse_unknown(argv[optind > word ? optind - 1 : word]);
        if (option == NO_P2P) {
            question->play.what_if.no_p2p = true;
            continue;
        }
        int status = read_text(question, option) ? EXIT_OK : read_option(question, option, argc, argv);
        if (status)
            return status;
    }
    return check(question, argc, argv);
}

/* ---- the variant ---------------------------------------------------------------------------------------------------
 */

static void say(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void say(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;
    if (used && used + 1 < size) {
        text[used++] = ';';
        text[used] = '\0';
    }
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

void question_variant(const struct question *question, char *text, size_t size)
{
    const struct play_options *play = &question->play;
    text[0] = '\0';
    if (play->what_if.bandwidth != 1)
        say(text, size, "bandwidth=%.10g", play->what_if.bandwidth);
    if (play->what_if.latency != 1)
        say(text, size, "latency=%.10g", play->what_if.latency);
    if (play->what_if.compute != 1)
        say(text, size, "compute=%.10g", play->what_if.compute);
    if (play->what_if.no_p2p)
        say(text, size, "no_p2p=1");
    if (question->bucket_cap_mib > 0)
        say(text, size, "bucket_cap_mb=%.10g", question->bucket_cap_mib);
    if (play->slow_rank >= 0)
        say(text, size, "slow_rank=%d:%.10g", play->slow_rank, play->slow_factor);
    if (play->jitter_sigma > 0)
        say(text, size, "jitter=%.10g:%llu", play->jitter_sigma, (unsigned long long)play->jitter_seed);
    if (play->launch_lock_s > 0)
        say(text, size, "launch_lock_us=%.10g", play->launch_lock_s * 1e6);
    if (play->what_if.method != METHOD_TABLE)
        say(text, size, "collectives=%s", method_names[play->what_if.method]);
}
