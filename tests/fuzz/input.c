/* SPDX-License-Identifier: MIT
 *
 * Input as files and command lines, and what is done before the first one (fuzz.h).
 */
#include "fuzz.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/log.h"

unsigned long fuzz_accepted;

static int descriptor = -1;

static void put_bytes(const void *data, size_t bytes)
{
    if (descriptor < 0)
        descriptor = memfd_create("fuzz", MFD_CLOEXEC);
    if (descriptor < 0 || ftruncate(descriptor, 0) != 0 || pwrite(descriptor, data, bytes, 0) != (ssize_t)bytes)
        abort();
}

const char *fuzz_file(const void *data, size_t bytes)
{
    static char path[64];

    put_bytes(data, bytes);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", descriptor);
    return path;
}

const char *fuzz_folder(const char **name, const void *data, size_t bytes)
{
    static char number[16];

    put_bytes(data, bytes);
    snprintf(number, sizeof(number), "%d", descriptor);
    *name = number;
    return "/proc/self/fd";
}

int fuzz_words(char *text, char **arguments, int most, const char *program, const uint8_t *data, size_t bytes)
{
    char *rest = NULL;
    int count = 1;

    memcpy(text, data, bytes);
    text[bytes] = '\0';
    arguments[0] = (char *)(uintptr_t)program;
    for (char *word = strtok_r(text, " \n", &rest); word && count < most - 1; word = strtok_r(NULL, " \n", &rest))
        arguments[count++] = word;
    arguments[count] = NULL;
    return count;
}

size_t fuzz_text(uint8_t *data, const char *text)
{
    size_t bytes = strlen(text);

    if (bytes > FUZZ_MAX_BYTES)
        abort();
    memcpy(data, text, bytes);
    return bytes;
}

/* The seeds as files of the first folder that is named: libFuzzer's corpus. */
static void write_seeds(const char *folder)
{
    static uint8_t data[FUZZ_MAX_BYTES];
    char path[4096];
    size_t bytes;

    for (unsigned number = 0; (bytes = fuzz_seed(number, data)) > 0; number++) {
        snprintf(path, sizeof(path), "%s/seed-%u", folder, number);
        FILE *file = fopen(path, "wb");
        if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0)
            abort();
    }
}

int LLVMFuzzerInitialize(int *count, char ***arguments)
{
    struct stat status;

    log_set_muted(true);
    for (int i = 1; i < *count; i++)
        if ((*arguments)[i][0] != '-' && stat((*arguments)[i], &status) == 0 && S_ISDIR(status.st_mode)) {
            write_seeds((*arguments)[i]);
            break;
        }
    return 0;
}
