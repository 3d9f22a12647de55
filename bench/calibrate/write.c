/* SPDX-License-Identifier: MIT
 *
 * The machine file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "calibrate.h"
#include "gpu/backend.h"
#include "sys/exit_codes.h"
#include "sys/file.h"
#include "sys/log.h"

#define US 1e6

static void write_host(FILE *out, const struct figures *figures, const char *day)
{
    fprintf(out, "[host]                        # calls in a row, the device held back; %s\n", day);
    fprintf(out, "launch_us = %.4g\nevent_us = %.4g\ncopy_us = %.4g\n", figures->launch_s * US, figures->event_s * US,
            figures->copy_call_s * US);
    fprintf(out, "collective_us = %.4g             # as a launch\n", figures->launch_s * US);
    fprintf(out, "sync_us = %.4g                   # of an idle stream\n", figures->sync_s * US);
    fprintf(out, "start_us = %.4g                  # from the call's return to the event on an idle stream\n",
            figures->start_s * US);
    fprintf(out, "own_work = 1                  # the record is this host's\n\n");
}

static void write_crowd(FILE *out, const struct figures *figures, const char *key, const double *factors,
                        const char *how)
{
    if (figures->devices < 2)
        return;
    fprintf(out, "%s =", key);
    for (int count = 2; count <= figures->devices; count++)
        fprintf(out, " %d:%.4g", count, factors[count]);
    fprintf(out, "  # %s\n", how);
}

static void write_device(FILE *out, const struct figures *figures, const char *day)
{
    fprintf(out, "[device]                      # events round a row of kernels; %s\n", day);
    fprintf(out, "memory_gbs = %.4g               # copy_scale of 4 Mi floats, read and written\n",
            figures->memory_bytes_per_s / 1e9);
    fprintf(out, "kernel_us = %.4g                # the empty kernel\ncopy_engines = 2\n", figures->kernel_s * US);
    write_crowd(out, figures, "crowd_products", figures->crowd_products, "devices at products of 512 at a time");
    write_crowd(out, figures, "crowd_memory", figures->crowd_memory, "devices at copy_scale at a time");
    if (figures->devices > 1)
        fprintf(out, "slowdown = %.4g                # products of 512 beside all-reduces of 4 MiB\n",
                figures->slowdown);
    fprintf(out, "\n");
    fprintf(out, "[products]                    # squares, less an empty kernel; size:TFLOP/s\nfp32 =");
    for (int i = 0; i < figures->product_count; i++)
        fprintf(out, " %.0f:%.4g", figures->product_size[i], figures->product_flops_per_s[i] / 1e12);
    fprintf(out, "\n\n");
}

static void write_link(FILE *out, const char *key, const struct link_figure *link)
{
    if (link->bytes_per_s > 0)
        fprintf(out, "%s = %.4g %.4g\n", key, link->bytes_per_s / 1e9, link->latency_s * US);
}

static void write_links(FILE *out, const struct figures *figures, const char *day)
{
    char key[32];
    fprintf(out, "[links]                       # copies of 4 KiB and 16 MiB, GB/s and us; %s\nall = none\n", day);
    for (int from = 0; from < figures->devices; from++)
        for (int to = 0; to < figures->devices; to++) {
            snprintf(key, sizeof(key), "%d>%d", from, to);
            write_link(out, key, &figures->pair[from][to]);
        }
    write_link(out, "host_up", &figures->host_up);
    write_link(out, "host_down", &figures->host_down);
}

static void write_collectives(FILE *out, const struct figures *figures, const char *day)
{
    fprintf(out,
            "\n[collectives]                 # collective-perf, in place, no cache holds the buffers, best of 3 rounds; "
            "bytes:us; %s\n",
            day);
    for (int i = 0; i < figures->collective_count; i++) {
        const struct collective_figure *figure = &figures->collective[i];
        if (figure->count == 0)
            continue;
        fprintf(out, "%s %d =", figure->operation, figure->ranks);
        for (int p = 0; p < figure->count; p++)
            fprintf(out, " %.0f:%.5g", figure->bytes[p], figure->us[p]);
        fprintf(out, "\n");
    }
}

int write_machine(const struct figures *figures, const char *name, const char *path)
{
    char *text = NULL, day[32];
    size_t bytes = 0;
    time_t now = time(NULL);
    struct tm date;
    FILE *out = open_memstream(&text, &bytes);
    if (!out) {
        log_error("%s: no memory for the machine", path);
        return EXIT_RESOURCE;
    }
    strftime(day, sizeof(day), "%Y-%m-%d", gmtime_r(&now, &date));
    fprintf(out, "# Written by calibrate: own measurements on %d %s devices, %s.\n", figures->devices,
            gpu_backend_name(), day);
    fprintf(out, "[machine]\nname = %s\ndescription = %s\ndevices = %d\nmemory_mib = %.0f\n\n", name,
            figures->device_name, figures->devices, figures->memory_bytes / 1048576);
    write_host(out, figures, day);
    write_device(out, figures, day);
    write_links(out, figures, day);
    write_collectives(out, figures, day);
    bool failed = ferror(out) || fclose(out);
    int status = failed ? EXIT_RESOURCE : file_write_atomic(path, text, bytes);
    free(text);
    return status;
}
