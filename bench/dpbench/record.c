/* SPDX-License-Identifier: MIT
 *
 * Reading a trainer's JSON lines (record.h).
 */
#include "record.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sys/exit_codes.h"
#include "sys/file.h"
#include "sys/log.h"
#include "text.h"

#define RECORD_LIMIT ((size_t)64 << 20) /* bytes */

static int add_line(struct record *record, const char *path, const char *text, size_t length)
{
    const char *end = NULL;
    cJSON *object = cJSON_ParseWithLengthOpts(text, length, &end, 0);
    if (!cJSON_IsObject(object) || end != text + length || !*record_text(object, "type")) {
        log_error("%s: line %d is '%.*s', expected one JSON object with a \"type\"", path, record->count + 1,
                  (int)(length < 60 ? length : 60), text);
        cJSON_Delete(object);
        return EXIT_BAD_FILE;
    }
    record->lines = text_must(realloc(record->lines, ((size_t)record->count + 1) * sizeof(cJSON *)));
    record->lines[record->count++] = object;
    if (record_is(object, "header") && !record->header)
        record->header = object;
    if (record_is(object, "summary"))
        record->summary = object;
    if (record_is(object, "run"))
        record->run = object;
    return EXIT_OK;
}

int record_read(struct record *record, const char *path)
{
    *record = (struct record){0};
    void *data;
    size_t bytes;
    int rc = file_read(path, RECORD_LIMIT, &data, &bytes);
    if (rc)
        return rc;
    const char *at = data, *end = at + bytes;
    while (!rc && at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) {
            log_error("%s: line %d is cut: '%.*s' has no line end", path, record->count + 1,
                      (int)(end - at < 60 ? end - at : 60), at);
            rc = EXIT_BAD_FILE;
            break;
        }
        rc = add_line(record, path, at, (size_t)(stop - at));
        at = stop + 1;
    }
    free(data);
    if (rc)
        record_free(record);
    return rc;
}

void record_free(struct record *record)
{
    for (int i = 0; i < record->count; i++)
        cJSON_Delete(record->lines[i]);
    free(record->lines);
    *record = (struct record){0};
}

double record_number(const cJSON *object, const char *member)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, member);
    return cJSON_IsNumber(value) ? value->valuedouble : NAN;
}

const char *record_text(const cJSON *object, const char *member)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, member);
    return cJSON_IsString(value) ? value->valuestring : "";
}

bool record_is(const cJSON *object, const char *type)
{
    return text_is(record_text(object, "type"), type);
}

int record_steps(const struct record *record, double **ms)
{
    int n = 0;
    *ms = text_must(malloc(((size_t)record->count + 1) * sizeof **ms));
    for (int i = 0; i < record->count; i++) {
        double value = record_number(record->lines[i], "ms");
        if (record_is(record->lines[i], "step") && isfinite(value))
            (*ms)[n++] = value;
    }
    return n;
}
