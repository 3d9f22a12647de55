/* SPDX-License-Identifier: MIT
 *
 * Whole files, safely: whoever is killed at any system call leaves the old content or the new one under the name.
 */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exit_codes.h"
#include "log.h"

#define READER_S 10 /* how long a pipe may take nothing */

/* Reads up to `bytes` bytes through short reads and EINTR; the number read, or -1. */
static ssize_t read_whole(int descriptor, char *data, size_t bytes)
{
    size_t have = 0;
    while (have < bytes) {
        ssize_t got = read(descriptor, data + have, bytes - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        have += (size_t)got;
    }
    return (ssize_t)have;
}

static int write_whole(int descriptor, const char *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t written = write(descriptor, data, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return -1;
        data += written;
        bytes -= (size_t)written;
    }
    return 0;
}

/* The open file's size, if it is a regular file of at most limit bytes. */
static int check_size(const char *path, int descriptor, size_t limit, size_t *bytes)
{
    struct stat status;
    if (fstat(descriptor, &status)) {
        log_error("%s: %s", path, strerror(errno));
        return EXIT_BAD_FILE;
    }
    if (!S_ISREG(status.st_mode)) {
        log_error("%s: not a regular file", path);
        return EXIT_BAD_FILE;
    }
    if ((uintmax_t)status.st_size > limit) {
        log_error("%s: has %jd bytes, at most %zu are allowed", path, (intmax_t)status.st_size, limit);
        return EXIT_BAD_FILE;
    }
    *bytes = (size_t)status.st_size;
    return EXIT_OK;
}

int file_read(const char *path, size_t limit, void **data, size_t *bytes)
{
    *data = NULL;
    *bytes = 0;
    /* O_NONBLOCK: a pipe without a writer is refused below, not waited for. */
    int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (descriptor < 0) {
        log_error("%s: %s", path, strerror(errno));
        return EXIT_BAD_FILE;
    }
    size_t size = 0;
    char *content = NULL;
    int status = check_size(path, descriptor, limit, &size);
    if (status)
        goto out;
    status = EXIT_BAD_FILE;
    content = malloc(size + 1); /* never of 0 bytes; text readers find a terminating 0 */
    if (!content) {
        log_error("%s: no memory for its %zu bytes", path, size);
        goto out;
    }
    ssize_t got = read_whole(descriptor, content, size);
    if (got != (ssize_t)size) {
        log_error("%s: read %zd of %zu bytes: %s", path, got, size, got < 0 ? strerror(errno) : "it became shorter");
        goto out;
    }
    content[size] = '\0';
    *data = content;
    *bytes = size;
    content = NULL;
    status = EXIT_OK;
out:
    free(content);
    close(descriptor);
    return status;
}

/* The folder that holds the path; the caller frees. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == path ? strdup("/") : slash ? strndup(path, (size_t)(slash - path)) : strdup(".");
}

/* A name beside the path that nobody has: "PATH.XXXXXXXXXXXXXXXX.tmp"; the caller frees. */
static char *temporary_name(const char *path)
{
    uint64_t random = 0;
    char *name = NULL;
    if (getentropy(&random, sizeof(random)) || asprintf(&name, "%s.%016jx.tmp", path, (uintmax_t)random) < 0)
        return NULL;
    return name;
}

/* A new file in the path's folder, without a name where the file system can (*name is NULL then): whoever is killed
 * now leaves nothing. Else under temporary_name. -1 with errno. */
static int open_temporary(const char *path, char **name)
{
    char *folder = folder_of(path);
    *name = NULL;
    if (!folder)
        return -1;
    int descriptor = open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
    free(folder);
    if (descriptor >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
        return descriptor;
    *name = temporary_name(path);
    descriptor = *name ? open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666) : -1;
    if (descriptor < 0) {
        int kept = errno;
        free(*name);
        *name = NULL;
        errno = kept;
    }
    return descriptor;
}

/* Gives a file without a name one. 0, or -1 with errno (EEXIST: something has it). */
static int give_name(int descriptor, const char *name)
{
    char link[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
    return linkat(AT_FDCWD, link, AT_FDCWD, name, AT_SYMLINK_FOLLOW);
}

/* Gives a file without a name its temporary one. 0, or -1 with errno. */
static int name_temporary(int descriptor, const char *path, char **name)
{
    if (*name)
        return 0;
    *name = temporary_name(path);
    if (*name && give_name(descriptor, *name) == 0)
        return 0;
    int kept = errno;
    free(*name);
    *name = NULL;
    errno = kept;
    return -1;
}

/* Makes a rename durable. File systems that can't sync a folder say EINVAL: then there is nothing more to do. */
static int sync_folder(const char *path)
{
    char *folder = folder_of(path);
    if (!folder)
        return -1;
    int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(folder);
    if (descriptor < 0)
        return -1;
    int failed = fsync(descriptor) && errno != EINVAL ? -1 : 0;
    close(descriptor);
    return failed;
}

/* ---- what stands under a path ------------------------------------------------------------------------------------ */

static const char *kind_of(mode_t mode)
{
    return S_ISDIR(mode)    ? "a folder"
           : S_ISCHR(mode)  ? "a device"
           : S_ISBLK(mode)  ? "a block device"
           : S_ISFIFO(mode) ? "a pipe"
           : S_ISSOCK(mode) ? "a socket"
                            : "no file";
}

/* A link that leads nowhere can't be followed: the file it means is not there to be replaced. */
static int refuse_dangling(const char *path)
{
    struct stat status;
    if (lstat(path, &status) || !S_ISLNK(status.st_mode))
        return EXIT_OK;
    log_error("%s: is a symbolic link that leads nowhere, a regular file was expected", path);
    return EXIT_RESOURCE;
}

/* *target: the path to replace, behind all symbolic links; the caller frees. Refuses what is no regular file. */
static int find_target(const char *path, char **target)
{
    struct stat status;
    *target = NULL;
    if (stat(path, &status)) {
        if (refuse_dangling(path))
            return EXIT_RESOURCE;
        *target = strdup(path);
    } else if (!S_ISREG(status.st_mode)) {
        log_error("%s: is %s, a regular file was expected", path, kind_of(status.st_mode));
        return EXIT_RESOURCE;
    } else {
        *target = realpath(path, NULL);
    }
    if (*target)
        return EXIT_OK;
    log_error("%s: can't be looked up: %s", path, strerror(errno));
    return EXIT_RESOURCE;
}

/* ---- a file as a whole ------------------------------------------------------------------------------------------- */

static int replace(const char *path, const void *data, size_t bytes)
{
    char *temporary;
    int descriptor = open_temporary(path, &temporary);
    const char *step = "create a file beside it";
    if (descriptor < 0)
        goto failed;
    step = "write";
    if (write_whole(descriptor, data, bytes) || fsync(descriptor))
        goto failed;
    const bool placed = !temporary && give_name(descriptor, path) == 0; /* nothing to replace: no moment with another name */
    if (!placed && name_temporary(descriptor, path, &temporary))
        goto failed;
    step = "close";
    int closed = close(descriptor);
    descriptor = -1;
    if (closed)
        goto failed;
    step = "rename";
    if (!placed && rename(temporary, path))
        goto failed;
    free(temporary);
    temporary = NULL;
    step = "sync its folder";
    if (sync_folder(path))
        goto failed;
    return EXIT_OK;

failed:
    log_error("%s: can't %s: %s (%zu bytes were to be written)", path, step, strerror(errno), bytes);
    if (descriptor >= 0)
        close(descriptor);
    if (temporary)
        unlink(temporary);
    free(temporary);
    return EXIT_RESOURCE;
}

int file_write_atomic(const char *path, const void *data, size_t bytes)
{
    char *target;
    int status = find_target(path, &target);
    if (!status)
        status = replace(target, data, bytes);
    free(target);
    return status;
}

static int try_beside(const char *path)
{
    char *temporary;
    int descriptor = open_temporary(path, &temporary);
    if (descriptor < 0) {
        log_error("%s: can't create a file there: %s", path, strerror(errno));
        return EXIT_RESOURCE;
    }
    close(descriptor);
    if (temporary)
        unlink(temporary);
    free(temporary);
    return EXIT_OK;
}

int file_check_writable(const char *path)
{
    char *target;
    int status = find_target(path, &target);
    if (!status)
        status = try_beside(target);
    free(target);
    return status;
}

/* ---- a file, or something that flows ----------------------------------------------------------------------------- */

/* The descriptor of this process's stdout or stderr, if the path leads there; else -1. */
static int standard_descriptor(const struct stat *status)
{
    for (int descriptor = STDOUT_FILENO; descriptor <= STDERR_FILENO; descriptor++) {
        struct stat open_file;
        if (!fstat(descriptor, &open_file) && open_file.st_dev == status->st_dev && open_file.st_ino == status->st_ino)
            return descriptor;
    }
    return -1;
}

/* Is there something under the path that is written through: a pipe, a terminal or another character device, or what
 * stdout or stderr lead to, be it a regular file? */
static bool flows(const char *path, struct stat *status)
{
    if (stat(path, status))
        return false;
    return S_ISFIFO(status->st_mode) || S_ISCHR(status->st_mode) || standard_descriptor(status) >= 0;
}

/* Writes to a descriptor that does not block; one that takes nothing for READER_S is given up. -1 with errno. */
static int write_patiently(int descriptor, const char *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t written = write(descriptor, data, bytes);
        if (written >= 0) {
            data += written;
            bytes -= (size_t)written;
            continue;
        }
        if (errno == EINTR)
            continue;
        struct pollfd entry = {.fd = descriptor, .events = POLLOUT};
        if (errno != EAGAIN)
            return -1;
        if (poll(&entry, 1, READER_S * 1000) == 0) {
            errno = ETIMEDOUT;
            return -1;
        }
    }
    return 0;
}

static int write_through(const char *path, const struct stat *status, const void *data, size_t bytes)
{
    int standard = standard_descriptor(status), descriptor = standard;
    if (standard < 0)
        descriptor = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    else if (standard == STDOUT_FILENO)
        (void)fflush(stdout); /* what was printed before comes first */
    int failed = descriptor < 0 ? -1 : write_patiently(descriptor, data, bytes);
    if (failed)
        log_error("%s: can't write %zu bytes to %s: %s", path, bytes,
                  S_ISREG(status->st_mode) ? "a file" : kind_of(status->st_mode),
                  errno == ENXIO ? "nobody reads from it" : strerror(errno));
    if (standard < 0 && descriptor >= 0)
        close(descriptor);
    return failed ? EXIT_RESOURCE : EXIT_OK;
}

int file_write_output(const char *path, const void *data, size_t bytes)
{
    struct stat status;
    return flows(path, &status) ? write_through(path, &status, data, bytes) : file_write_atomic(path, data, bytes);
}

int file_check_output(const char *path)
{
    struct stat status;
    if (!flows(path, &status))
        return file_check_writable(path);
    if (standard_descriptor(&status) >= 0 || access(path, W_OK) == 0)
        return EXIT_OK;
    log_error("%s: is %s that can't be written: %s", path, kind_of(status.st_mode), strerror(errno));
    return EXIT_RESOURCE;
}
