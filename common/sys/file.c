/* SPDX-License-Identifier: MIT
 *
 * Whole files, safely: whoever is killed at any system call leaves the old content or the new one under the name.
 */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exit_codes.h"
#include "log.h"

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
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
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

/* "PATH.XXXXXXXXXXXXXXXX.tmp", opened; the name is the caller's (free). -1 with errno. */
static int open_temporary(const char *path, char **name)
{
    uint64_t random = 0;
    if (getentropy(&random, sizeof(random)) || asprintf(name, "%s.%016jx.tmp", path, (uintmax_t)random) < 0) {
        *name = NULL;
        return -1;
    }
    int descriptor = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0) {
        int kept = errno;
        free(*name);
        *name = NULL;
        errno = kept;
    }
    return descriptor;
}

/* Makes a rename durable. File systems that can't sync a folder say EINVAL: then there is nothing more to do. */
static int sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash == path ? strdup("/") : slash ? strndup(path, (size_t)(slash - path)) : strdup(".");
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

int file_write_atomic(const char *path, const void *data, size_t bytes)
{
    char *temporary;
    int descriptor = open_temporary(path, &temporary);
    const char *step = "create a file beside it";
    if (descriptor < 0)
        goto failed;
    step = "write";
    if (write_whole(descriptor, data, bytes) || fsync(descriptor))
        goto failed;
    step = "close";
    int closed = close(descriptor);
    descriptor = -1;
    if (closed)
        goto failed;
    step = "rename";
    if (rename(temporary, path))
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

int file_check_writable(const char *path)
{
    struct stat status;
    if (!stat(path, &status) && S_ISDIR(status.st_mode)) {
        log_error("%s: is a folder, a file was expected", path);
        return EXIT_RESOURCE;
    }
    char *temporary;
    int descriptor = open_temporary(path, &temporary);
    if (descriptor < 0) {
        log_error("%s: can't create a file there: %s", path, strerror(errno));
        return EXIT_RESOURCE;
    }
    close(descriptor);
    unlink(temporary);
    free(temporary);
    return EXIT_OK;
}
