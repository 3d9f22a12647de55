/* SPDX-License-Identifier: MIT
 *
 * dp-train and ddp-train: choose the backend, then become the trainer for it, dp-train-soft or dp-train-cuda, which
 * lies beside this program. --device auto takes CUDA if that program exists and says (--device-count) that a device
 * answers.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/copies.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

/* PROGRAM: "dp-train" or "ddp-train", from the build. */

/* The value of the last --device on the command line; NULL if there is none. The trainer itself refuses other values.
 */
static const char *device_asked(int argc, char **argv)
{
    const char *asked = NULL;

    for (int i = 1; i < argc; i++) {
        if (!strncmp(argv[i], "--device=", 9))
            asked = argv[i] + 9;
        else if (!strcmp(argv[i], "--device") && i + 1 < argc)
            asked = argv[++i];
    }
    return asked;
}

static bool wants_text_only(int argc, char **argv)
{
    static const char *const texts[] = {"--help", "-h", "--version", "-V"};

    for (int i = 1; i < argc; i++)
        for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++)
            if (!strcmp(argv[i], texts[t]))
                return true;
    return false;
}

/* Path of the trainer for this backend, beside this program: linked or installed anywhere. */
static int trainer_path(char *path, size_t size, const char *backend)
{
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);

    if (length < 0) {
        log_error("/proc/self/exe: %s: the trainer beside this program can't be found", strerror(errno));
        return EXIT_RESOURCE;
    }
    self[length] = '\0';
    char *slash = strrchr(self, '/');
    int needed = snprintf(path, size, "%.*s/" PROGRAM "-%s", (int)(slash - self), self, backend);
    if (needed < 0 || (size_t)needed >= size) {
        log_error("the path of " PROGRAM "-%s is longer than %zu bytes", backend, size);
        return EXIT_RESOURCE;
    }
    return EXIT_OK;
}

static _Noreturn void ask_as_child(const char *path, int out)
{
    char *const arguments[] = {(char *)path, "--device-count", NULL};
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

    if (nowhere < 0 || dup2(nowhere, STDERR_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0)
        _exit(EXIT_RESOURCE);
    execv(path, arguments);
    _exit(EXIT_RESOURCE);
}

/* How many devices the trainer at path can use; 0 if it can't say. */
static int count_devices(const char *path)
{
    char answer[16] = "";
    int ends[2], status = -1;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return 0;
    pid_t child = fork();
    if (child == 0)
        ask_as_child(path, ends[1]);
    (void)close(ends[1]);
    ssize_t length = child > 0 ? read(ends[0], answer, sizeof answer - 1) : -1;
    (void)close(ends[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return length > 0 && status == 0 ? (int)strtol(answer, NULL, 10) : 0;
}

/* For the trainer to say when it has found the other options good (log_note). */
static void leave_note(int devices, bool built)
{
    char note[96];

    if (devices > 0)
        snprintf(note, sizeof note, "--device auto: %d CUDA device%s", devices, devices == 1 ? " answers" : "s answer");
    else
        snprintf(note, sizeof note, "--device auto: %s, so this runs on soft GPUs",
                 built ? "no CUDA device answers" : "this build has no CUDA backend");
    if (copies_first_here())
        (void)setenv(ENV_NOTE, note, 1);
    else
        (void)unsetenv(ENV_NOTE);
}

static int choose(char *path, size_t size, const char *asked, bool text_only)
{
    int status = trainer_path(path, size, "cuda");
    bool built = !status && access(path, X_OK) == 0;

    if (status)
        return status;
    if (asked && !strcmp(asked, "cuda")) {
        if (built && (text_only || count_devices(path) > 0))
            return EXIT_OK;
        if (copies_first_here())
            log_error("--device cuda: %s; use --device soft",
                      built ? "no CUDA device answers" : "this build has no CUDA backend");
        return EXIT_RESOURCE;
    }
    if (text_only || (asked && strcmp(asked, "auto") != 0))
        return trainer_path(path, size, "soft");
    int devices = built ? count_devices(path) : 0;
    leave_note(devices, built);
    return devices > 0 ? EXIT_OK : trainer_path(path, size, "soft");
}

int main(int argc, char **argv)
{
    char path[PATH_MAX];

    log_set_program(PROGRAM);
    int status = choose(path, sizeof path, device_asked(argc, argv), wants_text_only(argc, argv));
    if (status)
        return status;
    argv[0] = path;
    execv(path, argv);
    log_error("%s: %s", path, strerror(errno));
    return EXIT_RESOURCE;
}
