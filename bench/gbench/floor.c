/* SPDX-License-Identifier: MIT
 *
 *     floor-VENDOR [--batch B] [--steps K] [--json FILE]
 *
 * The floor under a step of the mlp (784 - 1024 x 4 - 10): its products and SGD with momentum, alone, on one device (of one core,
 * if soft); and what a launch costs the host. Needs no benchmark library; bench/peers.sh holds the trainers against it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "gpu/backend.h"
#include "product_peak.h"
#include "sys/clock.h"
#include "sys/exit_codes.h"
#include "sys/fault.h"
#include "sys/log.h"
#include "workload.h"

#define STEPS_MAX 10000
#define BATCH_MAX (1 << 20)
#define WARM_UP 3
#define LAUNCHES 10000

#define PROGRAM "floor-" GPU_VENDOR_NAME

static const char usage[] =
    "Usage: " PROGRAM " [OPTION]...\n"
    "Times what no trainer of the mlp (784 - 1024 x 4 - 10) can leave out, alone on one device: products, SGD, launches.\n"
    "\n"
    "      --batch B    samples a step (default 128)\n"
    "      --steps K    timed steps (default 50)\n"
    "      --json FILE  writes the figures, too\n"
    "  -h, --help       this text\n"
    "  -V, --version\n";

struct settings {
    int batch, steps;
    const char *json;
};

struct figures {
    double products_ms, sgd_ms, step_ms;  /* medians of the steps */
    double gflops, launch_us;
};

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, compare_doubles);
    return n % 2 ? values[n / 2] : 0.5 * (values[n / 2 - 1] + values[n / 2]);
}

/* Milliseconds of one step's products, and of its update. The fault "launch-time" forgets the products' wait, as people do. */
static int time_step(const struct mlp_floor *floor, const struct bench_device *device, double *products, double *sgd)
{
    const double start = clock_seconds();
    TRY(mlp_floor_products(floor, device));
    if (!fault_planted("launch-time", 0, 0))
        GPU_TRY(cudaStreamSynchronize(device->stream));
    const double middle = clock_seconds();
    TRY(mlp_floor_sgd(floor, device));
    GPU_TRY(cudaStreamSynchronize(device->stream));
    *products = (middle - start) * 1e3;
    *sgd = (clock_seconds() - middle) * 1e3;
    return 0;
}

static int measure_steps(const struct mlp_floor *floor, const struct bench_device *device, int steps, double *times[3])
{
    for (int i = -WARM_UP; i < steps; i++) {
        double products, sgd;
        TRY(time_step(floor, device, &products, &sgd));
        if (i < 0)
            continue;
        times[0][i] = products;
        times[1][i] = sgd;
        times[2][i] = products + sgd;
    }
    return 0;
}

static int measure(const struct settings *settings, struct figures *figures)
{
    struct bench_device device;
    struct mlp_floor floor;
    double *times[3] = {NULL};
    memset(&floor, 0, sizeof floor);
    int status = bench_open(&device);
    if (!status)
        status = mlp_floor_open(&floor, &device, (size_t)settings->batch);
    for (int i = 0; i < 3 && !status; i++) {
        times[i] = malloc((size_t)settings->steps * sizeof *times[i]);
        status = times[i] ? 0 : EXIT_RESOURCE;
    }
    if (!status)
        status = measure_steps(&floor, &device, settings->steps, times);
    if (!status)
        status = bench_launch_cost(&device, LAUNCHES, &figures->launch_us);
    if (!status) {
        figures->products_ms = median(times[0], settings->steps);
        figures->sgd_ms = median(times[1], settings->steps);
        figures->step_ms = median(times[2], settings->steps);
        figures->gflops = mlp_floor_flops(&floor) / figures->products_ms * 1e-6;
        status = product_rate_check("products of a step", mlp_floor_flops(&floor), figures->products_ms * 1e-3, ELEMENT_F32, 0);
    }
    for (int i = 0; i < 3; i++)
        free(times[i]);
    mlp_floor_close(&floor);
    bench_close(&device);
    return status;
}

static int write_json(const struct settings *settings, const struct figures *figures)
{
    FILE *file = fopen(settings->json, "w");
    if (!file) {
        log_error("%s: can't be written: %s", settings->json, strerror(errno));
        return EXIT_RESOURCE;
    }
    fprintf(file,
            "{\"type\": \"floor\", \"backend\": \"%s\", \"model\": \"mlp\", \"global_batch\": %d, \"steps\": %d, \"step_ms\": %.4f, "
            "\"products_ms\": %.4f, \"sgd_ms\": %.4f, \"gflop_s\": %.1f, \"launch_us\": %.3f}\n",
            gpu_backend_name(), settings->batch, settings->steps, figures->step_ms, figures->products_ms, figures->sgd_ms,
            figures->gflops, figures->launch_us);
    const int failed = ferror(file) != 0;
    if (fclose(file) == 0 && !failed)
        return 0;
    log_error("%s: could not be written whole", settings->json);
    return EXIT_RESOURCE;
}

static int parse(struct settings *settings, int argc, char **argv)
{
    int i = 1;
    for (; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--batch") == 0)
            TRY(arguments_whole(argv[i], argv[i + 1], BATCH_MAX, &settings->batch));
        else if (strcmp(argv[i], "--steps") == 0)
            TRY(arguments_whole(argv[i], argv[i + 1], STEPS_MAX, &settings->steps));
        else if (strcmp(argv[i], "--json") == 0)
            settings->json = argv[i + 1];
        else
            break;
    }
    return i == argc ? EXIT_OK : arguments_refuse(argv[i], PROGRAM);
}

int main(int argc, char **argv)
{
    struct settings settings = {.batch = 128, .steps = 50};
    struct figures figures;
    log_set_program(PROGRAM);
    if (arguments_told(argc, argv, PROGRAM, usage))
        return EXIT_OK;
    TRY(parse(&settings, argc, argv));
    TRY(measure(&settings, &figures));
    printf("mlp 784-1024x4-10, batch %d, one device: products %.3f ms (%.0f GFLOP/s), SGD %.3f ms, together %.3f ms; "
           "a launch costs the host %.2f us\n",
           settings.batch, figures.products_ms, figures.gflops, figures.sgd_ms, figures.step_ms, figures.launch_us);
    return settings.json ? write_json(&settings, &figures) : 0;
}
