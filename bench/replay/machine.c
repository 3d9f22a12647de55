/* SPDX-License-Identifier: MIT
 *
 * The reader of machine files: sections in brackets, `key = value`, # for comments. What a key means is in
 * machine_keys.c; this file finds keys and says what is wrong with a line.
 */
#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exact.h"
#include "machine_keys.h"
#include "sys/exit_codes.h"
#include "sys/file.h"
#include "sys/log.h"

#define MAX_FILE_BYTES ((size_t)1 << 20)

double curve_at(const struct curve *curve, double x, bool proportional)
{
    int last = curve->count - 1, i = 0;
    if (x <= curve->x[0])
        return curve->y[0];
    if (x >= curve->x[last])
        return proportional ? curve->y[last] * (x / curve->x[last]) : curve->y[last];
    while (curve->x[i + 1] < x)
        i++;
    if (curve->x[i + 1] <= x)
        return curve->y[i + 1];
    double low = exact_log2(curve->x[i]), high = exact_log2(curve->x[i + 1]);
    double from = exact_log2(curve->y[i]), to = exact_log2(curve->y[i + 1]);
    return exact_exp2(from + (to - from) * (exact_log2(x) - low) / (high - low));
}

static char *trim(char *text)
{
    text += strspn(text, " \t\r");
    size_t length = strlen(text);
    while (length && strchr(" \t\r", text[length - 1]))
        text[--length] = '\0';
    return text;
}

int machine_wrong(const struct machine_line *line, const char *found, const char *allowed)
{
    log_error("%s: line %d: %s = %s: expected %s", line->path, line->number, line->key, found, allowed);
    return EXIT_USAGE;
}

static int parse_pair(struct machine *machine, struct machine_line *line, char *text)
{
    char *equals = strchr(text, '=');
    if (!equals) {
        log_error("%s: line %d: found \"%s\", expected [section] or key = value", line->path, line->number, text);
        return EXIT_USAGE;
    }
    *equals = '\0';
    line->key = trim(text);
    line->value = trim(equals + 1);
    return machine_key(machine, line);
}

int machine_parse(struct machine *machine, const char *path, char *text)
{
    struct machine_line line = {.path = path};
    char section[32] = "", *next = text;
    *machine = (struct machine){.devices = 1, .nodes = 1, .copy_engines = 1};
    line.section = section;
    while (next) {
        char *end = strchr(next, '\n');
        char *at = next;
        if (end)
            *end = '\0';
        next = end ? end + 1 : NULL;
        line.number++;
        at[strcspn(at, "#")] = '\0';
        at = trim(at);
        size_t length = strlen(at);
        if (length == 0)
            continue;
        if (at[0] == '[') {
            at[length - 1] = at[length - 1] == ']' ? '\0' : at[length - 1];
            snprintf(section, sizeof(section), "%s", at + 1);
            continue;
        }
        int status = parse_pair(machine, &line, at);
        if (status)
            return status;
    }
    return machine_complete(machine, path);
}

int machine_load(struct machine *machine, const char *name, const char *folder)
{
    char path[4096];
    void *text = NULL;
    size_t bytes = 0;
    bool file = strpbrk(name, "/.") != NULL;
    snprintf(path, sizeof(path), file ? "%s%s" : "%s/%s.ini", file ? "" : folder, name);
    if (file_read(path, MAX_FILE_BYTES, &text, &bytes))
        return EXIT_USAGE;
    int status = machine_parse(machine, path, text);
    free(text);
    return status;
}
