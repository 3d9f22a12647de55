/* SPDX-License-Identifier: MIT
 *
 * Asking a trainer for its devices (device.h). A machine without GPUs must be found out before an hour of failed cells.
 */
#include "device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "process.h"
#include "sys/exit_codes.h"
#include "sys/log.h"
#include "text.h"

/* The count in *answer, or count 0 and in its last_line why there is none. */
static int ask(const struct settings *settings, const char *device, struct process_result *answer, int *count)
{
    int fd = memfd_create("dpbench-devices", MFD_CLOEXEC);
    if (fd < 0) {
        log_error("memfd_create: %s", strerror(errno));
        return EXIT_RESOURCE;
    }
    char *said = text_format("/proc/self/fd/%d", fd);
    char *program = text_format("%s/%s", settings->programs, settings->ddp ? "ddp-train" : "dp-train");
    const char *const argv[] = {program, "--device", device, "--device-count", NULL};
    int rc = process_run(argv, said, settings->run_timeout, answer);
    if (!rc && answer->timed_out)
        snprintf(answer->last_line, sizeof answer->last_line, "no answer within %.0f s", settings->run_timeout);
    *count = !rc && answer->exit_code == EXIT_OK ? (int)strtol(answer->last_line, NULL, 10) : 0;
    if (!rc && answer->interrupted)
        rc = EXIT_SIGNAL + answer->interrupted;
    free(program);
    free(said);
    close(fd);
    return rc;
}

/* More devices than there are: the default numbers are cut, those asked for are refused. */
static int fit_numbers(struct settings *settings, int count)
{
    int asked = settings->gpus[settings->gpu_count - 1];
    if (asked > count && settings->gpus_given) {
        log_error("--gpus: %d devices, but only %d %s here", asked, count, count == 1 ? "answers" : "answer");
        return EXIT_RESOURCE;
    }
    if (asked > count)
        log_info("%d %s: measuring on no more", count, count == 1 ? "device answers" : "devices answer");
    while (settings->gpus[settings->gpu_count - 1] > count)
        settings->gpu_count--; /* 1 is always among the default numbers */
    return EXIT_OK;
}

int device_choose(struct settings *settings)
{
    struct process_result answer;
    int count = 0, rc = EXIT_OK;
    bool choose = text_is(settings->device, "auto");
    if (choose || text_is(settings->device, "cuda"))
        rc = ask(settings, "cuda", &answer, &count);
    if (rc)
        return rc;
    if (text_is(settings->device, "cuda") && !count) {
        log_error("no CUDA device answers; use --device soft (%s)", answer.last_line);
        return EXIT_RESOURCE;
    }
    if (choose) {
        settings->device = count ? "cuda" : "soft";
        if (!count)
            log_info("no CUDA device answers: measuring on soft GPUs");
    }
    if (!count)
        rc = ask(settings, "soft", &answer, &count);
    if (!rc && !count) {
        log_error("no soft GPU answers: %s", answer.last_line);
        return EXIT_RESOURCE;
    }
    return rc ? rc : fit_numbers(settings, count);
}
