/* SPDX-License-Identifier: MIT
 *
 * The table that nccl-tests' users know, and the lines of --json. Rank 0 writes both; in processes mode it inherits the
 * file.
 */
#include "perf.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "gpu/backend.h"
#include "run/json_line.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

static FILE *json;

int report_open(const struct perf_options *options)
{
    if (!options->json)
        return EXIT_OK;
    json = fopen(options->json, "we");
    if (json)
        return EXIT_OK;
    log_error("--json %s: %s", options->json, strerror(errno));
    return EXIT_RESOURCE;
}

static const char *mode_name(const struct perf_options *options)
{
    return options->mode == PERF_THREADS ? "threads" : "processes";
}

void report_header(const struct perf_options *options, const struct rank_facts *facts)
{
    printf("# %s ranks %d mode %s device %s minBytes %zu maxBytes %zu %s: %zu warmup iters: %d iters: %d rounds: %d "
           "pool: %zu validation: %d\n#\n# Using devices\n",
           options->operation->name, options->ranks, mode_name(options), gpu_backend_name(), options->smallest,
           options->largest, options->step ? "step" : "factor", options->step ? options->step : options->factor,
           options->warmup, options->iterations, options->rounds, options->pool, options->check);
    for (int rank = 0; rank < options->ranks; rank++)
        printf("#  Rank %2d Pid %6d device %2d [%s]%s%s\n", rank, facts[rank].process, facts[rank].device,
               facts[rank].name, facts[rank].cores[0] ? " cores " : "", facts[rank].cores);
    printf("#\n# %58s %39s\n", "out-of-place", "in-place");
    printf("# %11s %13s %9s %7s %6s %9s %7s %7s %6s %9s %7s %7s %6s\n", "size", "count", "type", "redop", "root",
           "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw", "#wrong");
    printf("# %11s %13s %9s %7s %6s %9s %7s %7s %6s %9s %7s %7s\n", "(B)", "(elements)", "", "", "", "(us)", "(GB/s)",
           "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)");
}

/* GB/s, GB = 1e9 bytes. */
static double algorithm_bandwidth(size_t bytes, double us)
{
    return (double)bytes / us / 1e3;
}

static void print_measurement(const struct perf_options *options, size_t bytes, const struct measurement *measured)
{
    const double algbw = algorithm_bandwidth(bytes, measured->us);
    const double busbw = algbw * operation_bus_factor(options->operation, options->ranks);
    char bus[16] = "n/a", wrong[24] = "n/a";
    if (!isnan(busbw))
        snprintf(bus, sizeof bus, "%.2f", busbw);
    if (options->check)
        snprintf(wrong, sizeof wrong, "%llu", (unsigned long long)measured->wrong);
    printf(" %9.2f %7.2f %7s %6s", measured->us, algbw, bus, wrong);
}

static void json_measurement(const struct perf_options *options, size_t count, const struct measurement *measured)
{
    const size_t bytes = operation_bytes(options, count);
    const double algbw = algorithm_bandwidth(bytes, measured->us);
    json_begin(json, "measurement");
    json_text(json, "op", options->operation->name);
    json_integer(json, "ranks", options->ranks);
    json_text(json, "mode", mode_name(options));
    json_text(json, "device", gpu_backend_name());
    json_text(json, "datatype", perf_type_name(options->type));
    json_text(json, "redop", options->operation->reduces ? perf_op_name(options->op) : "none");
    json_integer(json, "in_place", measured->in_place);
    json_unsigned(json, "pool", options->pool);
    json_unsigned(json, "count", count);
    json_unsigned(json, "bytes", bytes);
    json_number(json, "us", measured->us);
    json_number(json, "algbw_gb_s", algbw);
    json_number(json, "busbw_gb_s", algbw * operation_bus_factor(options->operation, options->ranks));
    if (options->check)
        json_unsigned(json, "wrong", measured->wrong);
    else
        json_text(json, "wrong", NULL);
    json_end(json);
}

void report_size(const struct perf_options *options, size_t count, const struct measurement both[2])
{
    const size_t bytes = operation_bytes(options, count);
    printf("  %11zu %13zu %9s %7s %6d", bytes, count, perf_type_name(options->type),
           options->operation->reduces ? perf_op_name(options->op) : "none",
           options->operation->rooted ? options->root : -1);
    for (int in_place = 0; in_place < 2; in_place++) {
        print_measurement(options, bytes, &both[in_place]);
        if (json)
            json_measurement(options, count, &both[in_place]);
    }
    printf("\n");
    fflush(stdout);
    if (json)
        fflush(json);
}

int report_close(const struct perf_options *options, uint64_t wrong)
{
    if (options->check)
        printf("# Out of bounds values : %llu %s\n", (unsigned long long)wrong, wrong ? "FAILED" : "OK");
    else
        printf("# Out of bounds values : not checked\n");
    if (json && fclose(json)) {
        log_error("--json %s: %s", options->json, strerror(errno));
        return EXIT_RESOURCE;
    }
    return EXIT_OK;
}
