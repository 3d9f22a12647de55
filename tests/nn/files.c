/* SPDX-License-Identifier: MIT */
#include "files.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config.h"
#if HAVE_CJSON
#include <cjson/cJSON.h>
#endif

static char folder[64];

const char *test_path(const char *name)
{
    static char paths[4][sizeof folder + 256];
    static int next;
    char *path = paths[next++ % 4];

    if (!*folder) {
        snprintf(folder, sizeof folder, "/tmp/dpbench-nn-XXXXXX");
        assert_non_null(mkdtemp(folder));
    }
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

int remove_test_folder(void **state)
{
    (void)state;
    DIR *entries = *folder ? opendir(folder) : NULL;
    if (!entries)
        return 0;
    for (struct dirent *entry = readdir(entries); entry; entry = readdir(entries))
        if (entry->d_name[0] != '.')
            unlink(test_path(entry->d_name));
    closedir(entries);
    return rmdir(folder);
}

void put_file(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

void *get_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *bytes = (size_t)ftell(file);
    rewind(file);
    void *data = malloc(*bytes + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *bytes, file), *bytes);
    fclose(file);
    return data;
}

/* ---- allocations, counted at the link ---- */

static _Atomic size_t allocated; /* streams allocate too */

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    allocated += bytes;
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    allocated += count * bytes;
    return __real_calloc(count, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
    allocated += bytes;
    return __real_realloc(old, bytes);
}

size_t allocated_bytes(void)
{
    return allocated;
}

void reset_allocated_bytes(void)
{
#if HAVE_CJSON
    static cJSON_Hooks hooks = {.malloc_fn = __wrap_malloc, .free_fn = free};
    cJSON_InitHooks(&hooks);
#endif
    allocated = 0;
}
