/* SPDX-License-Identifier: MIT
 *
 * calibrate: describes the machine it runs on for bench/replay.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calibrate.h"
#include "config.h"
#include "gpu/backend.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

static const char usage[] =
    "Usage: calibrate --out FILE [OPTION]...\n"
    "Measures products, memory, launches, copies and collectives and writes a machine file for replay. Let the machine "
    "be\n"
    "calm: what else runs is in the figures.\n"
    "\n"
    "      --out FILE            the machine file\n"
    "      --name NAME           its name (default calibrated)\n"
    "      --devices N           how many (default 2; 1: no copies between devices, no collectives)\n"
    "      --cores-per-device C  soft GPUs: cores of each (default: usable cores / N)\n"
    "      --collective-perf P   the program that measures collectives (default: the one built beside this one)\n"
    "      --device NAME         soft, cuda or auto (default auto)\n"
    "  -h, --help                this text\n"
    "  -V, --version\n";

struct settings {
    const char *out, *name, *perf;
    int devices, cores;
};

static int refuse(const char *option, const char *found, const char *expected)
{
    log_error("--%s: found \"%s\", expected %s (see calibrate --help)", option, found, expected);
    return EXIT_USAGE;
}

static int read_count(const char *option, const char *text, int most, int *value)
{
    char *end = NULL, expected[32];
    long number = strtol(text, &end, 10);
    snprintf(expected, sizeof(expected), "1 to %d", most);
    if (end == text || *end || number < 1 || number > most)
        return refuse(option, text, expected);
    *value = (int)number;
    return EXIT_OK;
}

/* 0, -1 if all is said, or EXIT_USAGE. */
static int parse(struct settings *settings, int argc, char **argv)
{
    static const struct option options[] = {{"out", required_argument, NULL, 'o'},
                                            {"name", required_argument, NULL, 'n'},
                                            {"devices", required_argument, NULL, 'd'},
                                            {"cores-per-device", required_argument, NULL, 'c'},
                                            {"collective-perf", required_argument, NULL, 'p'},
                                            {"device", required_argument, NULL, 'D'},
                                            {"device-count", no_argument, NULL, 'C'},
                                            {"help", no_argument, NULL, 'h'},
                                            {"version", no_argument, NULL, 'V'},
                                            {NULL, 0, NULL, 0}};
    int option, count = 0;
    *settings = (struct settings){.name = "calibrated", .devices = 2};
    while ((option = getopt_long(argc, argv, "hV", options, NULL)) != -1) {
        if (option == 'h' || option == 'V')
            printf("%s", option == 'h' ? usage : "calibrate " PROJECT_VERSION "\n");
        if (option == 'C' && gpu_device_count(&count) == EXIT_OK)
            printf("%d\n", count);
        if (option == 'h' || option == 'V' || option == 'C')
            return -1;
        if (option == '?')
            return EXIT_USAGE; /* getopt has said why */
        settings->out = option == 'o' ? optarg : settings->out;
        settings->name = option == 'n' ? optarg : settings->name;
        settings->perf = option == 'p' ? optarg : settings->perf;
        if (option == 'd')
            TRY(read_count("devices", optarg, CALIBRATE_DEVICES, &settings->devices));
        if (option == 'c')
            TRY(read_count("cores-per-device", optarg, 1024, &settings->cores));
    }
    return settings->out && optind == argc ? EXIT_OK : refuse("out", "nothing", "a file");
}

/* collective-perf of this backend, in the folder beside this program's. */
static void find_perf(char *path, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", path, size - 1);
    path[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(path, '/');
    size_t used = slash ? (size_t)(slash - path) : 0;
    snprintf(path + used, size - used, "/../collective_perf/collective-perf-%s", gpu_backend_name());
}

int main(int argc, char **argv)
{
    static struct figures figures;
    struct settings settings;
    char perf[4200];
    int there = 0;
    log_set_program("calibrate");
    int status = parse(&settings, argc, argv);
    if (status)
        return status < 0 ? EXIT_OK : status;
    find_perf(perf, 4096);
    TRY(gpu_configure(&(struct gpu_settings){.devices_used = settings.devices, .cores_per_device = settings.cores}));
    TRY(gpu_device_count(&there));
    if (settings.devices > there) {
        log_error("--devices %d: there are %d %s devices", settings.devices, there, gpu_backend_name());
        return EXIT_RESOURCE;
    }
    figures.devices = settings.devices;
    TRY(measure_devices(&figures));
    TRY(measure_together(&figures));
    TRY(measure_collectives(&figures, settings.perf ? settings.perf : perf));
    return write_machine(&figures, settings.name, settings.out);
}
