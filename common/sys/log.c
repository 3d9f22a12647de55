/* SPDX-License-Identifier: MIT
 *
 * Messages for people: built in one buffer and written by one call, so that lines of threads and ranks never mix.
 */
#include "log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 4096

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *program = "";
static int own_rank = -1;
static bool quiet, muted;
static char last_error[LINE_BYTES];

void log_set_program(const char *name)
{
    pthread_mutex_lock(&lock);
    program = name;
    pthread_mutex_unlock(&lock);
}

void log_set_rank(int rank)
{
    pthread_mutex_lock(&lock);
    own_rank = rank;
    pthread_mutex_unlock(&lock);
}

void log_set_quiet(bool on)
{
    pthread_mutex_lock(&lock);
    quiet = on;
    pthread_mutex_unlock(&lock);
}

void log_set_muted(bool on)
{
    pthread_mutex_lock(&lock);
    muted = on;
    pthread_mutex_unlock(&lock);
}

const char *log_last_error(void)
{
    static _Thread_local char copy[LINE_BYTES];
    pthread_mutex_lock(&lock);
    memcpy(copy, last_error, sizeof(copy));
    pthread_mutex_unlock(&lock);
    return copy;
}

/* "program: rank 2: ", as much of it as is set; returns its length. The caller holds the lock. */
static size_t write_prefix(char *line, size_t size)
{
    int length = 0;
    line[0] = '\0';
    if (program[0] && own_rank >= 0)
        length = snprintf(line, size, "%s: rank %d: ", program, own_rank);
    else if (program[0])
        length = snprintf(line, size, "%s: ", program);
    else if (own_rank >= 0)
        length = snprintf(line, size, "rank %d: ", own_rank);
    return length < 0 ? 0 : (size_t)length < size ? (size_t)length : size - 1;
}

static void write_whole(const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t written = write(STDERR_FILENO, text, bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return; /* stderr is closed or full: there is nobody left to tell */
        text += written;
        bytes -= (size_t)written;
    }
}

/* Writes prefix, kind and the text; a longer text is cut, the line's end is kept. The caller holds the lock. */
static void write_line(const char *kind, const char *text)
{
    char line[LINE_BYTES + 256];
    if (muted)
        return;
    size_t length = write_prefix(line, sizeof(line) - 1);
    int rest = snprintf(line + length, sizeof(line) - 1 - length, "%s%s", kind, text);
    if (rest > 0)
        length += (size_t)rest < sizeof(line) - 1 - length ? (size_t)rest : sizeof(line) - 2 - length;
    line[length++] = '\n';
    write_whole(line, length);
}

#define FORMAT_INTO(text, format)                                                                                      \
    do {                                                                                                               \
        va_list arguments_;                                                                                            \
        va_start(arguments_, format);                                                                                  \
        vsnprintf(text, sizeof(text), format, arguments_);                                                             \
        va_end(arguments_);                                                                                            \
    } while (0)

void log_error(const char *format, ...)
{
    char text[LINE_BYTES];
    FORMAT_INTO(text, format);
    pthread_mutex_lock(&lock);
    memcpy(last_error, text, sizeof(last_error));
    write_line("", text);
    pthread_mutex_unlock(&lock);
}

void log_remember(const char *format, ...)
{
    char text[LINE_BYTES];
    FORMAT_INTO(text, format);
    pthread_mutex_lock(&lock);
    memcpy(last_error, text, sizeof(last_error));
    pthread_mutex_unlock(&lock);
}

void log_warning(const char *format, ...)
{
    char text[LINE_BYTES];
    FORMAT_INTO(text, format);
    pthread_mutex_lock(&lock);
    write_line("warning: ", text);
    pthread_mutex_unlock(&lock);
}

void log_info(const char *format, ...)
{
    char text[LINE_BYTES];
    FORMAT_INTO(text, format);
    pthread_mutex_lock(&lock);
    if (!quiet)
        write_line("", text);
    pthread_mutex_unlock(&lock);
}

void log_note(void)
{
    const char *note = getenv(ENV_NOTE);
    if (note)
        log_info("%s", note);
    unsetenv(ENV_NOTE);
}
