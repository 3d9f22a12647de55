/* SPDX-License-Identifier: MIT
 *
 * The file: for each result a header and the bytes. A header names the case, so that files of other programs or versions are
 * seen at once.
 */
#include "dump.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/exit_codes.h"
#include "sys/log.h"

struct header {
    char name[120]; /* "case: label" */
    size_t bytes;
};

static FILE *file;
static enum dump_mode mode;

int dump_open(enum dump_mode wanted, const char *path)
{
    mode = wanted;
    if (mode == DUMP_NONE)
        return 0;
    file = fopen(path, mode == DUMP_WRITE ? "wb" : "rb");
    if (file)
        return 0;
    log_error("%s: can't be opened: %s", path, strerror(errno));
    return mode == DUMP_WRITE ? EXIT_RESOURCE : EXIT_BAD_FILE;
}

int dump_close(void)
{
    if (!file)
        return 0;
    const bool surplus = mode != DUMP_WRITE && fgetc(file) != EOF;
    const bool broken = ferror(file) != 0;
    const bool failed = fclose(file) != 0 || broken;
    file = NULL;
    if (surplus)
        log_error("the file of results holds more results than this program has cases");
    if (failed)
        log_error("the file of results could not be written or read whole");
    return surplus || failed ? EXIT_BAD_FILE : 0;
}

bool dump_close_enough(double got, double expected, double relative, double absolute)
{
    if (isnan(got) || isnan(expected))
        return isnan(got) && isnan(expected);
    if (isinf(got) || isinf(expected))
        return got == expected;
    return fabs(got - expected) <= relative * fabs(expected) + absolute;
}

static struct header header_of(const char *test, const char *label, size_t bytes)
{
    struct header header;
    memset(&header, 0, sizeof header);
    snprintf(header.name, sizeof header.name, "%s: %s", test, label);
    header.bytes = bytes;
    return header;
}

/* The file's next result, if it is the one that is looked for; NULL (printed) if not. To be freed. */
static void *next_result(const struct header *wanted)
{
    struct header found;
    if (fread(&found, sizeof found, 1, file) != 1) {
        printf("    the file of results ends before %s\n", wanted->name);
        return NULL;
    }
    found.name[sizeof found.name - 1] = 0;
    if (strcmp(found.name, wanted->name) != 0 || found.bytes != wanted->bytes) {
        printf("    the file of results has %s (%zu bytes), looked for %s (%zu bytes)\n", found.name, found.bytes, wanted->name,
               wanted->bytes);
        return NULL;
    }
    void *data = malloc(wanted->bytes ? wanted->bytes : 1);
    if (data && fread(data, 1, wanted->bytes, file) == wanted->bytes)
        return data;
    printf("    the file of results ends within %s\n", wanted->name);
    free(data);
    return NULL;
}

static bool write_result(const struct header *header, const void *data)
{
    return fwrite(header, sizeof *header, 1, file) == 1 && fwrite(data, 1, header->bytes, file) == header->bytes;
}

bool dump_bytes(const char *test, const char *label, const void *got, size_t bytes)
{
    if (mode == DUMP_NONE)
        return true;
    const struct header header = header_of(test, label, bytes);
    if (mode == DUMP_WRITE)
        return write_result(&header, got);
    void *other = next_result(&header);
    if (!other)
        return false;
    const bool same = memcmp(other, got, bytes) == 0;
    if (!same)
        printf("    %s: bytes differ from the file's\n", header.name);
    free(other);
    return same;
}

bool dump_floats(const char *test, const char *label, const float *got, size_t n, double relative, double absolute)
{
    if (mode != DUMP_COMPARE)
        return dump_bytes(test, label, got, n * sizeof *got);
    const struct header header = header_of(test, label, n * sizeof *got);
    float *other = next_result(&header);
    if (!other)
        return false;
    bool same = true;
    for (size_t i = 0; i < n && same; i++) {
        same = dump_close_enough(got[i], other[i], 2 * relative, 2 * absolute);
        if (!same)
            printf("    %s[%zu]: here %.9g, the file's %.9g\n", header.name, i, (double)got[i], (double)other[i]);
    }
    free(other);
    return same;
}
