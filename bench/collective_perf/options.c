/* SPDX-License-Identifier: MIT
 *
 * The command line: nccl-tests' letters, and long options for what is ours.
 */
#include "perf.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "gpu/backend.h"
#include "sys/exit_codes.h"
#include "sys/log.h"
#include "sys/nearest.h"

static const char usage[] =
    "Usage: collective-perf OPERATION [OPTION]...\n"
    "Measures a collective between ranks of one device each, as nccl-tests does: the mean time of -n calls enqueued "
    "one\n"
    "after the other. OPERATION: all_reduce, broadcast, reduce, all_gather, reduce_scatter.\n"
    "\n"
    "  -R, --ranks N            ranks (default 2)\n"
    "  -m, --mode MODE          threads or processes (default processes on soft GPUs, threads on CUDA)\n"
    "      --device NAME        soft, cuda or auto (default auto)\n"
    "  -b, --minbytes SIZE      smallest size (default 1K); K, M, G are powers of 1024\n"
    "  -e, --maxbytes SIZE      largest size (default 32M)\n"
    "  -f, --stepfactor N       each size is N times the one before (default 4)\n"
    "  -i, --stepbytes SIZE     or so much larger\n"
    "  -n, --iters N            calls a measurement (default 20)\n"
    "  -w, --warmup_iters N     calls before it (default 5)\n"
    "      --pool SIZE          each call's buffers lie behind those of the call before, round in SIZE bytes: no cache\n"
    "                           holds them (default 0: the same ones again, as nccl-tests)\n"
    "      --rounds N           report the best of N measurements (default 1)\n"
    "  -c, --check 0|1          compare the results' bits (default 1)\n"
    "  -d, --datatype NAME      int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 (default float)\n"
    "  -o, --op NAME            sum prod max min (default sum)\n"
    "  -r, --root N             root of broadcast and reduce (default 0)\n"
    "      --json FILE          one line a measurement\n"
    "  -h, --help               this text\n"
    "  -V, --version\n"
    "\n"
    "Exit code 1: a result was wrong.\n";

enum { OPTION_DEVICE = 256, OPTION_POOL, OPTION_ROUNDS, OPTION_JSON, OPTION_DEVICE_COUNT };

static const struct option long_options[] = {
    {"ranks", required_argument, NULL, 'R'},
    {"mode", required_argument, NULL, 'm'},
    {"device", required_argument, NULL, OPTION_DEVICE},
    {"minbytes", required_argument, NULL, 'b'},
    {"maxbytes", required_argument, NULL, 'e'},
    {"stepfactor", required_argument, NULL, 'f'},
    {"stepbytes", required_argument, NULL, 'i'},
    {"iters", required_argument, NULL, 'n'},
    {"warmup_iters", required_argument, NULL, 'w'},
    {"pool", required_argument, NULL, OPTION_POOL},
    {"rounds", required_argument, NULL, OPTION_ROUNDS},
    {"check", required_argument, NULL, 'c'},
    {"datatype", required_argument, NULL, 'd'},
    {"op", required_argument, NULL, 'o'},
    {"root", required_argument, NULL, 'r'},
    {"json", required_argument, NULL, OPTION_JSON},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {"device-count", no_argument, NULL, OPTION_DEVICE_COUNT},
    {NULL, 0, NULL, 0},
};
#define LONG_OPTIONS (sizeof long_options / sizeof *long_options - 1)

/* A whole number with an optional K, M or G; nothing else on the text. */
static int parse_size(const char *name, const char *text, size_t least, size_t most, bool suffix, size_t *value)
{
    static const char units[] = "KMG";
    char *end = "";
    errno = 0;
    unsigned long long number = isdigit((unsigned char)text[0]) ? strtoull(text, &end, 10) : 0;
    bool whole = isdigit((unsigned char)text[0]) && !errno;
    const char *unit = whole && suffix && *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    const int shift = unit ? (int)(unit - units + 1) * 10 : 0;
    whole = whole && end[unit ? 1 : 0] == '\0' && number <= SIZE_MAX >> shift;
    *value = whole ? (size_t)number << shift : 0;
    if (whole && *value >= least && *value <= most)
        return EXIT_OK;
    log_error("%s %s: expected a whole number from %zu to %zu%s", name, text, least, most,
              suffix ? ", K, M or G allowed" : "");
    return EXIT_USAGE;
}

static int parse_int(const char *name, const char *text, int least, int most, int *value)
{
    size_t number;
    TRY(parse_size(name, text, (size_t)least, (size_t)most, false, &number));
    *value = (int)number;
    return EXIT_OK;
}

static int parse_mode(const char *text, enum perf_mode *mode)
{
    if (!strcmp(text, "threads") || !strcmp(text, "processes")) {
        *mode = text[0] == 't' ? PERF_THREADS : PERF_PROCESSES;
        return EXIT_OK;
    }
    log_error("--mode %s: expected threads or processes", text);
    return EXIT_USAGE;
}

/* Which program runs was decided by the front; here the name must only fit. */
static int parse_device(const char *text)
{
    if (!strcmp(text, GPU_VENDOR_NAME) || !strcmp(text, "auto"))
        return EXIT_OK;
    if (strcmp(text, "soft") != 0 && strcmp(text, "cuda") != 0) {
        log_error("--device %s: expected auto, cuda or soft", text);
        return EXIT_USAGE;
    }
    log_error("--device %s: this program is built for %s: use --device %s", text, GPU_VENDOR_NAME, GPU_VENDOR_NAME);
    return EXIT_RESOURCE;
}

static const char letters[] = "-R:m:b:e:f:i:n:w:c:d:o:r:hV";

static int refuse_unknown(const char *text)
{
    const char *names[LONG_OPTIONS], *typed = text + strspn(text, "-");
    bool known = typed[0] && !typed[1] && strchr(letters, typed[0]);
    for (size_t i = 0; i < LONG_OPTIONS; i++) {
        names[i] = long_options[i].name;
        known = known || !strcmp(names[i], typed);
    }
    const char *nearest = known ? NULL : nearest_name(typed, names, LONG_OPTIONS);
    if (known)
        log_error("%s: expected a value after it", text);
    else if (nearest)
        log_error("unknown option %s: did you mean --%s?", text, nearest);
    else
        log_error("unknown option %s: --help lists the known ones", text);
    return EXIT_USAGE;
}

static int parse_option(int letter, const char *value, struct perf_options *options)
{
    int check;
    switch (letter) {
    case 'R':
        return parse_int("--ranks", value, 1, PERF_MAX_RANKS, &options->ranks);
    case 'm':
        return parse_mode(value, &options->mode);
    case OPTION_DEVICE:
        return parse_device(value);
    case 'b':
        return parse_size("-b", value, 1, SIZE_MAX >> 8, true, &options->smallest);
    case 'e':
        return parse_size("-e", value, 1, SIZE_MAX >> 8, true, &options->largest);
    case 'f':
        return parse_size("-f", value, 2, 1024, false, &options->factor);
    case 'i':
        return parse_size("-i", value, 1, SIZE_MAX >> 8, true, &options->step);
    case 'n':
        return parse_int("-n", value, 1, 1000000, &options->iterations);
    case 'w':
        return parse_int("-w", value, 0, 1000000, &options->warmup);
    case OPTION_POOL:
        return parse_size("--pool", value, 0, SIZE_MAX >> 8, true, &options->pool);
    case OPTION_ROUNDS:
        return parse_int("--rounds", value, 1, 1000, &options->rounds);
    case 'c':
        TRY(parse_int("-c", value, 0, 1, &check));
        options->check = check;
        return EXIT_OK;
    case 'd':
        if (perf_type_find(value, &options->type))
            return EXIT_OK;
        log_error("-d %s: no such type (see --help)", value);
        return EXIT_USAGE;
    case 'o':
        if (perf_op_find(value, &options->op))
            return EXIT_OK;
        log_error("-o %s: expected sum, prod, max or min", value);
        return EXIT_USAGE;
    case 'r':
        return parse_int("-r", value, 0, PERF_MAX_RANKS - 1, &options->root);
    default:
        options->json = value;
        return EXIT_OK;
    }
}

/* What the front asks before it takes this backend for --device auto. */
static int print_device_count(void)
{
    int devices;
    TRY(gpu_device_count(&devices));
    printf("%d\n", devices);
    return -1;
}

static int parse_operation(const char *name, struct perf_options *options)
{
    size_t count;
    const char *const *names = operation_names(&count);
    const char *nearest = nearest_name(name, names, count);
    options->operation = operation_find(name);
    if (options->operation)
        return EXIT_OK;
    log_error("%s: no such operation%s%s%s", name, nearest ? "; did you mean " : " (see --help)",
              nearest ? nearest : "", nearest ? "?" : "");
    return EXIT_USAGE;
}

static int check_together(const struct perf_options *options)
{
    if (options->smallest > options->largest) {
        log_error("-b %zu is larger than -e %zu", options->smallest, options->largest);
        return EXIT_USAGE;
    }
    if (options->root >= options->ranks) {
        log_error("-r %d: with %d ranks the root is 0 to %d", options->root, options->ranks, options->ranks - 1);
        return EXIT_USAGE;
    }
    if (!strcmp(GPU_VENDOR_NAME, "cuda") && options->mode == PERF_PROCESSES) {
        log_error("--mode processes: on CUDA ranks are threads");
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

int perf_options_parse(int argc, char **argv, struct perf_options *options)
{
    *options = (struct perf_options){.ranks = 2,
                                     .smallest = 1024,
                                     .largest = 32u << 20,
                                     .factor = 4,
                                     .iterations = 20,
                                     .warmup = 5,
                                     .rounds = 1,
                                     .check = true,
                                     .type = ncclFloat32,
                                     .op = ncclSum};
    options->mode = strcmp(GPU_VENDOR_NAME, "cuda") ? PERF_PROCESSES : PERF_THREADS;
    const char *operation = NULL;
    int letter;
    opterr = 0;
    while ((letter = getopt_long(argc, argv, letters, long_options, NULL)) != -1) {
        if (letter == 'h' || letter == 'V') {
            printf("%s", letter == 'h' ? usage : "collective-perf " PROJECT_VERSION "\n");
            return -1;
        }
        if (letter == OPTION_DEVICE_COUNT)
            return print_device_count();
        if (letter == '?')
            return refuse_unknown(argv[optind - 1]);
        if (letter != 1) {
            TRY(parse_option(letter, optarg ? optarg : "", options));
        } else if (operation) {
            log_error("%s: one operation a run; it is %s already", optarg, operation);
            return EXIT_USAGE;
        } else {
            operation = optarg;
        }
    }
    if (!operation) {
        log_error("which operation? all_reduce, broadcast, reduce, all_gather or reduce_scatter");
        return EXIT_USAGE;
    }
    TRY(parse_operation(operation, options));
    return check_together(options);
}
