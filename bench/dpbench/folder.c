/* SPDX-License-Identifier: MIT
 *
 * Everything that can be wrong with a results folder, found before an hour is spent (folder.h).
 */
#include "folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/exit_codes.h"
#include "sys/file.h"
#include "sys/log.h"
#include "text.h"

#define PLAN_LIMIT ((size_t)1 << 20)

bool folder_has(const char *folder, const char *name)
{
    char *path = text_format("%s/%s", folder, name);
    bool found = access(path, F_OK) == 0;
    free(path);
    return found;
}

int folder_check_programs(const struct settings *settings)
{
    const char *const names[] = {"dp-train", "ddp-train"};
    const bool wanted[] = {settings->single || settings->dp, settings->ddp};
    int rc = EXIT_OK;
    for (int i = 0; i < 2; i++) {
        char *path = text_format("%s/%s", settings->programs, names[i]);
        if (wanted[i] && access(path, X_OK)) {
            log_error("%s: %s; build it first, or name its folder with --programs", path, strerror(errno));
            rc = EXIT_RESOURCE;
        }
        free(path);
    }
    return rc;
}

static int make_folders(const char *folder)
{
    char *path = text_format("%s", folder);
    int rc = EXIT_OK;
    for (char *at = path + 1; !rc; at++) {
        if (*at && *at != '/')
            continue;
        char kept = *at;
        *at = '\0';
        if (mkdir(path, 0755) && errno != EEXIST) {
            log_error("%s: cannot be made: %s", path, strerror(errno));
            rc = EXIT_RESOURCE;
        }
        *at = kept;
        if (!kept)
            break;
    }
    free(path);
    return rc;
}

static int lock(const char *runs)
{
    char *path = text_format("%s/lock", runs);
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644); /* kept open: the lock lives as long as the process */
    int rc = EXIT_OK;
    if (fd < 0) {
        log_error("%s: %s", path, strerror(errno));
        rc = EXIT_RESOURCE;
    } else if (fcntl(fd, F_OFD_SETLK, &whole)) {
        log_error("%s: another sweep is writing to this folder", path);
        close(fd);
        rc = EXIT_RESOURCE;
    }
    free(path);
    return rc;
}

/* Writes real blocks: a file that is only extended would be given room that is not there. */
static int check_room(const char *folder, size_t bytes)
{
    char *path = text_format("%s/.room-%d", folder, (int)getpid());
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int error = fd < 0 ? errno : posix_fallocate(fd, 0, (off_t)bytes);
    if (!error && pwrite(fd, "x", 1, (off_t)bytes - 1) != 1)
        error = errno;
    if (!error && fsync(fd))
        error = errno;
    if (fd >= 0) {
        close(fd);
        unlink(path);
    }
    if (error)
        log_error("%s: cannot hold the %zu MiB that the sweep may need: %s", folder, bytes >> 20, strerror(error));
    free(path);
    return error ? EXIT_RESOURCE : EXIT_OK;
}

/* plan.txt's first line is "run ID"; the plan follows. */
static int take_over(const char *path, const char *plan, char *run_id, size_t run_id_size)
{
    void *data;
    size_t bytes;
    int rc = file_read(path, PLAN_LIMIT, &data, &bytes);
    if (rc)
        return rc;
    char *found = text_format("%.*s", (int)bytes, (const char *)data);
    char *rest = strchr(found, '\n');
    if (strncmp(found, "run ", 4) != 0 || !rest || !text_is(rest + 1, plan)) {
        log_error("%s: was begun with other options or another version; --resume needs the same ones", path);
        rc = EXIT_USAGE;
    } else {
        *rest = '\0';
        snprintf(run_id, run_id_size, "%s", found + 4);
    }
    free(found);
    free(data);
    return rc;
}

static int make_plan(const char *path, const char *plan, const char *run_id)
{
    char *text = text_format("run %s\n%s", run_id, plan);
    int rc = file_write_atomic(path, text, strlen(text));
    free(text);
    return rc;
}

/* Runs of a sweep whose plan is gone would be taken for this one's. */
static bool holds_runs(const char *runs)
{
    static const char end[] = ".jsonl";
    DIR *folder = opendir(runs);
    bool found = false;
    for (const struct dirent *entry; folder && !found && (entry = readdir(folder));) {
        size_t length = strlen(entry->d_name);
        found = length >= strlen(end) && text_is(entry->d_name + length - strlen(end), end);
    }
    if (folder)
        closedir(folder);
    return found;
}

int folder_open(const char *folder, bool resume, const char *plan, size_t bytes_needed, char *run_id,
                size_t run_id_size)
{
    char *path = text_format("%s/plan.txt", folder);
    char *runs = text_format("%s/runs", folder);
    int rc = make_folders(runs);
    rc = rc ? rc : lock(runs);
    bool begun = !rc && access(path, F_OK) == 0;
    if (begun && !resume) {
        log_error("%s: holds a sweep already; go on with --resume, or name another folder with --out", folder);
        rc = EXIT_USAGE;
    } else if (!rc && !begun && (holds_runs(runs) || folder_has(folder, "results.csv"))) {
        log_error("%s: holds results of a sweep without its plan.txt; name another folder with --out", folder);
        rc = EXIT_USAGE;
    }
    rc = rc ? rc : check_room(runs, bytes_needed);
    rc = rc ? rc : check_room(folder, 1);
    if (!rc)
        rc = begun ? take_over(path, plan, run_id, run_id_size) : make_plan(path, plan, run_id);
    free(runs);
    free(path);
    return rc;
}
