/* SPDX-License-Identifier: MIT
 *
 * Collectives, measured by collective-perf in processes of its own, read from its --json (in place, as the trainers
 * call them; on buffers that no cache holds, as those of a step whose other work went through the caches meanwhile).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calibrate.h"
#include "sys/exit_codes.h"
#include "sys/file.h"
#include "sys/log.h"

#define MAX_BYTES ((size_t)1 << 24)
#define POOL "128M" /* more than the last cache of a CPU's core complex or of a GPU (H200: 50 MiB) */

static int run(char *const *command)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        if (freopen("/dev/null", "w", stdout))
            execv(command[0], command);
        _exit(EXIT_RESOURCE);
    }
    if (child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return EXIT_OK;
    log_error("%s %s: ended with status %d, expected 0", command[0], command[1], status);
    return EXIT_RESOURCE;
}

static double member(const char *line, const char *name)
{
    char quoted[32];
    snprintf(quoted, sizeof(quoted), "\"%s\":", name);
    const char *at = strstr(line, quoted);
    return at ? atof(at + strlen(quoted)) : -1;
}

static void read_lines(struct collective_figure *figure, char *text)
{
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        if (!strstr(line, "\"measurement\"") || member(line, "in_place") != 1 || figure->count == CALIBRATE_POINTS)
            continue;
        double bytes = member(line, "bytes"), us = member(line, "us");
        if (bytes <= 0 || us <= 0)
            continue;
        figure->bytes[figure->count] = bytes;
        figure->us[figure->count++] = us;
    }
}

static int measure_one(struct figures *figures, const char *path, const char *operation, int ranks)
{
    char count[16], json[] = "/tmp/calibrate.XXXXXX";
    void *text = NULL;
    size_t bytes = 0;
    int file = mkstemp(json);
    if (file < 0) {
        log_error("%s: no temporary file", json);
        return EXIT_RESOURCE;
    }
    close(file);
    snprintf(count, sizeof(count), "%d", ranks);
    char *command[] = {(char *)path, (char *)operation, "--ranks", count, "-b", "256", "-e", "32M", "-f", "4", "-n", "10",
                       "--rounds",   "3",               "-c",      "0",   "--pool", POOL, "--json", json, NULL};
    int status = run(command);
    if (!status)
        status = file_read(json, MAX_BYTES, &text, &bytes);
    if (!status) {
        struct collective_figure *figure = &figures->collective[figures->collective_count++];
        *figure = (struct collective_figure){.operation = operation, .ranks = ranks};
        read_lines(figure, text);
    }
    free(text);
    unlink(json);
    return status;
}

int measure_collectives(struct figures *figures, const char *path)
{
    static const char *const operations[CALIBRATE_OPERATIONS] = {"all_reduce", "broadcast", "reduce", "reduce_scatter",
                                                                 "all_gather"};
    for (int ranks = 2; ranks <= figures->devices; ranks++)
        for (int i = 0; i < CALIBRATE_OPERATIONS; i++)
            TRY(measure_one(figures, path, operations[i], ranks));
    return EXIT_OK;
}
