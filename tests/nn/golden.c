/* SPDX-License-Identifier: MIT */
#include "golden.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* "name dims...": the count is the product of the dims. */
static void read_title(struct golden_tensor *tensor, const char *line)
{
    int used = 0;
    char *end;

    assert_int_equal(sscanf(line, "%63s%n", tensor->name, &used), 1);
    tensor->count = 1;
    for (const char *next = line + used;; next = end) {
        unsigned long size = strtoul(next, &end, 10);
        if (end == next)
            break;
        tensor->count *= size;
    }
}

static void read_values(struct golden_tensor *tensor, const char *line)
{
    char *end;

    tensor->values = calloc(tensor->count, sizeof *tensor->values);
    assert_non_null(tensor->values);
    for (size_t i = 0; i < tensor->count; i++) {
        tensor->values[i] = strtof(line, &end);
        assert_ptr_not_equal(line, end);
        line = end;
    }
    assert_int_equal(strspn(line, " \n"), strlen(line));
}

void golden_open(struct golden *golden, const char *path)
{
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t size = 0;

    *golden = (struct golden){0};
    assert_non_null(file);
    while (getline(&line, &size, file) > 0) {
        if (*line == '#')
            continue;
        assert_true(golden->count < GOLDEN_TENSORS);
        struct golden_tensor *tensor = &golden->tensors[golden->count++];
        read_title(tensor, line);
        assert_true(getline(&line, &size, file) > 0);
        read_values(tensor, line);
    }
    free(line);
    fclose(file);
}

void golden_close(struct golden *golden)
{
    for (int i = 0; i < golden->count; i++)
        free(golden->tensors[i].values);
}

const float *golden_values(const struct golden *golden, const char *prefix, const char *name, size_t count)
{
    char whole[128];

    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    for (int i = 0; i < golden->count; i++) {
        if (strcmp(golden->tensors[i].name, whole) == 0) {
            assert_int_equal(golden->tensors[i].count, count);
            return golden->tensors[i].values;
        }
    }
    fail_msg("golden values have no '%s'", whole);
    return NULL;
}
