/* SPDX-License-Identifier: MIT
 *
 *     model-floor-soft [--models NAMES] [--precisions NAMES] [--rounds K] [--json FILE]
 *
 * The step of each model against its floor (model_floor.h), as tables of docs/figures.md's form.
 */
#include "model_floor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arguments.h"
#include "gpu/backend.h"
#include "product_peak.h"
#include "record_file.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

#define PROGRAM "model-floor-soft"
#define WARM_UP 2
#define TRIALS_MOST 8

/* The models that people train, with the global batches of bench/peers.py. */
static const struct {
    const char *name;
    int batch;
} models[] = {{"mlp", 128}, {"resnet20", 128}, {"gpt-nano", 16}, {"gpt-micro", 8}};
static const char *const precisions[] = {"fp32", "bf16"};

#define MODELS (sizeof models / sizeof models[0])
#define PRECISIONS (sizeof precisions / sizeof precisions[0])
_Static_assert(MODELS * PRECISIONS <= TRIALS_MOST, "room for all trials");

static const char usage[] =
    "Usage: " PROGRAM " [OPTION]...\n"
    "Times the step of each model against its floor on one soft GPU of one core: its products alone, and the other launches'\n"
    "bytes by the memory rate. NAMES: some of those in brackets, by commas.\n"
    "\n"
    "      --models NAMES      [mlp,resnet20,gpt-nano,gpt-micro] (default all)\n"
    "      --precisions NAMES  [fp32,bf16] (default all)\n"
    "      --rounds K          timed rounds of each (default 10)\n"
    "      --json FILE         writes the figures, too\n"
    "  -h, --help              this text\n"
    "  -V, --version\n";

struct settings {
    const char *models, *precisions, *json; /* NULL: all; no file */
    int rounds;
};

/* Is `name` one of a comma-separated list? NULL lists all. */
static bool listed(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    return !list;
}

static int names_in(const char *list)
{
    int count = list ? 1 : 0;
    for (; list && *list; list++)
        count += *list == ',';
    return count;
}

/* Every name in the lists must be a known one. */
static int check_names(const struct settings *settings)
{
    int model_count = 0, precision_count = 0;
    for (size_t i = 0; settings->models && i < MODELS; i++)
        model_count += listed(settings->models, models[i].name);
    for (size_t i = 0; settings->precisions && i < PRECISIONS; i++)
        precision_count += listed(settings->precisions, precisions[i]);
    if (model_count != names_in(settings->models)) {
        log_error("--models %s: expected some of mlp, resnet20, gpt-nano, gpt-micro, each once", settings->models);
        return EXIT_USAGE;
    }
    if (precision_count != names_in(settings->precisions)) {
        log_error("--precisions %s: expected some of fp32, bf16, each once", settings->precisions);
        return EXIT_USAGE;
    }
    return 0;
}

static int parse(struct settings *settings, int argc, char **argv)
{
    int i = 1;
    for (; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--models") == 0)
            settings->models = argv[i + 1];
        else if (strcmp(argv[i], "--precisions") == 0)
            settings->precisions = argv[i + 1];
        else if (strcmp(argv[i], "--rounds") == 0)
            TRY(arguments_whole(argv[i], argv[i + 1], FLOOR_ROUNDS_MOST, &settings->rounds));
        else if (strcmp(argv[i], "--json") == 0)
            settings->json = argv[i + 1];
        else
            break;
    }
    return i == argc ? check_names(settings) : arguments_refuse(argv[i], PROGRAM);
}

/* The rate of the one launch of a part that measures one. */
static int read_rate(double *rate, const struct record_file *record, const struct floor_trial *trial, enum floor_part part)
{
    struct floor_reading reading;
    TRY(floor_read(&reading, record, trial, part));
    const struct floor_family *family = &reading.families[0];
    *rate = (part == PART_MEMORY ? family->bytes : family->flops) / (family->ms * 1e-3);
    return 0;
}

/* Both rates of products must be possible ones. */
static int check_rates(const struct floor_result *result)
{
    const struct floor_sums sums = floor_sum(result);
    const enum element_type type = element_named(result->trial.precision);
    const double square_flops = 2.0 * FLOOR_SQUARE * FLOOR_SQUARE * FLOOR_SQUARE;
    char what[64];
    snprintf(what, sizeof what, "%s: products of a step, alone", result->trial.model);
    TRY(product_rate_check(what, sums.product_flops, sums.products_ms * 1e-3, type, 0));
    return product_rate_check("square product", square_flops, square_flops / result->square_flops_s, type, 0);
}

static int read_result(struct floor_result *result, const struct record_file *record, const struct floor_trial *trial)
{
    result->trial = *trial;
    TRY(floor_read(&result->step, record, trial, PART_STEP));
    TRY(floor_read(&result->products, record, trial, PART_PRODUCTS));
    TRY(read_rate(&result->memory_bytes_s, record, trial, PART_MEMORY));
    TRY(read_rate(&result->square_flops_s, record, trial, PART_SQUARE));
    return check_rates(result);
}

static int run_trials(struct floor_trial *trials, int *count, const struct settings *settings)
{
    for (size_t m = 0; m < MODELS; m++) {
        for (size_t p = 0; p < PRECISIONS; p++) {
            if (!listed(settings->models, models[m].name) || !listed(settings->precisions, precisions[p]))
                continue;
            trials[*count] = (struct floor_trial){models[m].name, precisions[p], models[m].batch, *count, settings->rounds};
            TRY(floor_run(&trials[*count], WARM_UP));
            ++*count;
        }
    }
    return gpu_finish();
}

static int write_json(const char *path, const struct floor_result *results, int count)
{
    FILE *file = fopen(path, "w");
    if (!file) {
        log_error("%s: can't be written: %s", path, strerror(errno));
        return EXIT_RESOURCE;
    }
    for (int i = 0; i < count; i++)
        floor_print_json(file, &results[i]);
    const int failed = ferror(file) != 0;
    if (fclose(file) == 0 && !failed)
        return 0;
    log_error("%s: could not be written whole", path);
    return EXIT_RESOURCE;
}

static int report(const struct record_file *record, const struct floor_trial *trials, int count, const struct settings *settings)
{
    static struct floor_result results[TRIALS_MOST];
    for (int i = 0; i < count; i++)
        TRY(read_result(&results[i], record, &trials[i]));
    floor_print_heading(stdout);
    for (int i = 0; i < count; i++)
        floor_print_row(stdout, &results[i]);
    for (int i = 0; i < count; i++)
        floor_print_rest(stdout, &results[i]);
    return settings->json ? write_json(settings->json, results, count) : 0;
}

static int measure(const char *path, const struct settings *settings)
{
    const struct gpu_settings gpu = {.cores_per_device = 1, .devices_used = 1, .collective_limit_s = 30, .record_path = path};
    struct floor_trial trials[TRIALS_MOST];
    struct record_file record;
    int devices = 0, count = 0;

    TRY(gpu_configure(&gpu));
    TRY(gpu_device_count(&devices));
    TRY(run_trials(trials, &count, settings));
    TRY(record_load(&record, path));
    const int status = report(&record, trials, count, settings);
    record_close(&record);
    return status;
}

int main(int argc, char **argv)
{
    struct settings settings = {.rounds = 10};
    char path[] = "/tmp/model-floor-XXXXXX";

    log_set_program(PROGRAM);
    if (arguments_told(argc, argv, PROGRAM, usage))
        return EXIT_OK;
    TRY(parse(&settings, argc, argv));
    const int file = mkstemp(path);
    if (file < 0) {
        log_error("%s: %s", path, strerror(errno));
        return EXIT_RESOURCE;
    }
    close(file);
    const int status = measure(path, &settings);
    unlink(path);
    return status;
}
