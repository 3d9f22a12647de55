/* SPDX-License-Identifier: MIT
 *
 * Writing and reading safetensors: see tensors.h. A reader of files from anywhere: the header's length is bounded
 * before it is parsed, its values are counted before cJSON allocates for them, and each number is checked before it is
 * used.
 */
#include "data/tensors.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "sys/checksum.h"
#include "sys/exit_codes.h"
#include "sys/file.h"
#include "sys/log.h"

#if HAVE_CJSON
#include <cjson/cJSON.h>
#endif

#define LENGTH_BYTES 8
#define PREFIX "{\"__metadata__\":{\"checksum\":\""
#define PREFIX_BYTES (sizeof PREFIX - 1)
#define CHECKSUM_DIGITS 16
#define CHECKSUM_OFFSET (LENGTH_BYTES + PREFIX_BYTES)
#define HEADER_ALIGNMENT 64 /* the data starts at a multiple: aligned for any reader that maps the file */

#define FILE_LIMIT ((size_t)1 << 38)

/* Of the header, so that parsing it stays within the 1 MiB of tensors_read: gpt2-124m with AdamW's state takes half. A
 * tensor has 8 values or more (the object, dtype, shape, offsets) and cJSON takes 64 bytes for each. */
#define HEADER_LIMIT ((size_t)128 << 10)
#define VALUES_LIMIT 8192

/* The checksum of a whole file with zeros in place of its digits. */
static uint64_t file_checksum(const char *file, size_t bytes)
{
    static const char zeros[CHECKSUM_DIGITS + 1] = "0000000000000000";
    size_t after = CHECKSUM_OFFSET + CHECKSUM_DIGITS;

    uint64_t sum = checksum(CHECKSUM_SEED, file, CHECKSUM_OFFSET);
    sum = checksum(sum, zeros, CHECKSUM_DIGITS);
    return checksum(sum, file + after, bytes - after);
}

/* ---- writing ---- */

static void print_string(FILE *out, const char *text)
{
    putc('"', out);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(out, "\\%c", *c);
        else if (*c < 0x20)
            fprintf(out, "\\u%04x", *c);
        else
            putc(*c, out);
    }
    putc('"', out);
}

static void print_header(FILE *out, const struct tensor_view *views, size_t count, const struct tensor_text *metadata,
                         size_t metadata_count)
{
    fprintf(out, "%s%0*d\"", PREFIX, CHECKSUM_DIGITS, 0);
    for (size_t i = 0; i < metadata_count; i++) {
        putc(',', out);
        print_string(out, metadata[i].key);
        putc(':', out);
        print_string(out, metadata[i].value);
    }
    putc('}', out);
    size_t offset = 0;
    for (size_t i = 0; i < count; i++) {
        putc(',', out);
        print_string(out, views[i].name);
        fputs(":{\"dtype\":\"F32\",\"shape\":[", out);
        for (int d = 0; d < views[i].dims; d++)
            fprintf(out, "%s%zu", d ? "," : "", views[i].shape[d]);
        fprintf(out, "],\"data_offsets\":[%zu,%zu]}", offset, offset + views[i].count * sizeof(float));
        offset += views[i].count * sizeof(float);
    }
    putc('}', out);
    for (long at = ftell(out); (at + LENGTH_BYTES) % HEADER_ALIGNMENT; at++)
        putc(' ', out);
}

/* The header as text, with zeros for the checksum; the caller frees. NULL: no memory. */
static char *make_header(size_t *bytes, const struct tensor_view *views, size_t count,
                         const struct tensor_text *metadata, size_t metadata_count)
{
    char *header = NULL;
    FILE *out = open_memstream(&header, bytes);

    if (!out)
        return NULL;
    print_header(out, views, count, metadata, metadata_count);
    if (fclose(out) == 0)
        return header;
    free(header);
    return NULL;
}

/* Length, header, data, and the checksum put in; file has room for all of it. */
static void fill_file(char *file, size_t bytes, const char *header, size_t header_bytes,
                      const struct tensor_view *views, size_t count)
{
    char digits[CHECKSUM_DIGITS + 1];

    for (int i = 0; i < LENGTH_BYTES; i++)
        file[i] = (char)(header_bytes >> (8 * i));
    memcpy(file + LENGTH_BYTES, header, header_bytes);
    char *data = file + LENGTH_BYTES + header_bytes;
    for (size_t i = 0; i < count; i++) {
        if (views[i].count)
            memcpy(data, views[i].data, views[i].count * sizeof(float));
        data += views[i].count * sizeof(float);
    }
    snprintf(digits, sizeof digits, "%016" PRIx64, file_checksum(file, bytes));
    memcpy(file + CHECKSUM_OFFSET, digits, CHECKSUM_DIGITS);
}

int tensors_write(const char *path, const struct tensor_view *views, size_t count, const struct tensor_text *metadata,
                  size_t metadata_count)
{
    size_t header_bytes = 0, data_bytes = 0;
    char *header = make_header(&header_bytes, views, count, metadata, metadata_count);
    int status = EXIT_RESOURCE;

    for (size_t i = 0; i < count; i++)
        data_bytes += views[i].count * sizeof(float);
    size_t bytes = LENGTH_BYTES + header_bytes + data_bytes;
    char *file = header && header_bytes <= HEADER_LIMIT ? malloc(bytes) : NULL;
    if (file) {
        fill_file(file, bytes, header, header_bytes, views, count);
        status = file_write_atomic(path, file, bytes);
    } else if (header_bytes > HEADER_LIMIT) {
        log_error("%s: a header of %zu bytes found, expected at most %zu", path, header_bytes, HEADER_LIMIT);
    } else {
        log_error("%s: no memory for a file of %zu bytes", path, bytes);
    }
    free(file);
    free(header);
    return status;
}

/* ---- reading ---- */

#if HAVE_CJSON

/* At most this many values stand in a JSON text: each but the first follows a comma or an opening bracket. */
static size_t count_values(const char *json, size_t bytes)
{
    size_t values = 1;

    for (size_t i = 0; i < bytes; i++)
        values += json[i] == ',' || json[i] == '[' || json[i] == '{';
    return values;
}

/* Checks length and beginning of the header, all that can be told before parsing it. */
static int check_frame(const char *path, const char *file, size_t bytes, size_t *header_bytes)
{
    uint64_t length = 0;

    if (bytes < CHECKSUM_OFFSET + CHECKSUM_DIGITS) {
        log_error("%s: %zu bytes found, expected at least %zu: cut, or no file of tensors", path, bytes,
                  CHECKSUM_OFFSET + CHECKSUM_DIGITS);
        return EXIT_BAD_FILE;
    }
    for (int i = 0; i < LENGTH_BYTES; i++)
        length |= (uint64_t)(unsigned char)file[i] << (8 * i);
    size_t most = bytes - LENGTH_BYTES < HEADER_LIMIT ? bytes - LENGTH_BYTES : HEADER_LIMIT;
    if (length > most || length < PREFIX_BYTES + CHECKSUM_DIGITS || (length + LENGTH_BYTES) % HEADER_ALIGNMENT) {
        log_error("%s: byte 0: a header of %" PRIu64 " bytes found, expected %zu to %zu and, with these 8, a multiple "
                  "of %d: cut or damaged",
                  path, length, PREFIX_BYTES + CHECKSUM_DIGITS, most, HEADER_ALIGNMENT);
        return EXIT_BAD_FILE;
    }
    if (memcmp(file + LENGTH_BYTES, PREFIX, PREFIX_BYTES) != 0) {
        log_error("%s: byte %d: another header found, expected '%s...': written by another program, or damaged", path,
                  LENGTH_BYTES, PREFIX);
        return EXIT_BAD_FILE;
    }
    size_t values = count_values(file + LENGTH_BYTES, (size_t)length);
    if (values > VALUES_LIMIT) {
        log_error("%s: byte %d: up to %zu values in the header found, expected at most %d", path, LENGTH_BYTES, values,
                  VALUES_LIMIT);
        return EXIT_BAD_FILE;
    }
    *header_bytes = (size_t)length;
    return EXIT_OK;
}

/* A whole number that a double holds exactly. */
static bool read_size(const cJSON *number, size_t *size)
{
    if (!cJSON_IsNumber(number) || !(number->valuedouble >= 0 && number->valuedouble <= 0x1p53))
        return false;
    *size = (size_t)number->valuedouble;
    return (double)*size == number->valuedouble;
}

/* shape, and count = its product; both at most `most`. */
static bool read_shape(const cJSON *shape, size_t most, struct tensor_view *view)
{
    if (!cJSON_IsArray(shape))
        return false;
    view->count = 1;
    view->dims = 0;
    for (const cJSON *size = shape->child; size; size = size->next) {
        size_t *extent = &view->shape[view->dims];
        if (view->dims == TENSOR_MAX_DIMS || !read_size(size, extent) || (*extent && view->count > most / *extent))
            return false;
        view->count *= *extent;
        view->dims++;
    }
    return view->count <= most;
}

/* One entry of the header; its data must start at byte `offset` of the data_bytes. */
static int read_entry(const char *path, const cJSON *entry, char *data, size_t data_bytes, size_t *offset,
                      struct tensor_view *view)
{
    const char *dtype = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(entry, "dtype"));
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(entry, "data_offsets");
    size_t room = (data_bytes - *offset) / sizeof(float), begin, end;

    view->name = entry->string;
    if (!dtype || strcmp(dtype, "F32") != 0) {
        log_error("%s: tensor '%s': dtype %s found, expected F32", path, entry->string, dtype ? dtype : "(none)");
        return EXIT_BAD_FILE;
    }
    if (!read_shape(cJSON_GetObjectItemCaseSensitive(entry, "shape"), room, view)) {
        log_error(
            "%s: tensor '%s': another shape found, expected at most %d sizes and the %zu elements that are left of "
            "%zu bytes of data: cut or damaged",
            path, entry->string, TENSOR_MAX_DIMS, room, data_bytes);
        return EXIT_BAD_FILE;
    }
    size_t expected = *offset + view->count * sizeof(float);
    if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 || !read_size(offsets->child, &begin) ||
        !read_size(offsets->child->next, &end) || begin != *offset || end != expected) {
        log_error("%s: tensor '%s': other data_offsets found, expected [%zu,%zu]", path, entry->string, *offset,
                  expected);
        return EXIT_BAD_FILE;
    }
    view->data = (float *)(void *)(data + *offset);
    *offset = expected;
    return EXIT_OK;
}

/* All entries of the parsed header, which must fill the data to the last byte. */
static int read_entries(const char *path, struct tensor_file *file, char *data, size_t data_bytes)
{
    const cJSON *metadata = ((const cJSON *)file->header)->child;
    size_t offset = 0;

    for (const cJSON *text = metadata->child; text; text = text->next) {
        if (!cJSON_IsString(text)) {
            log_error("%s: __metadata__ '%s': a value that is no text found, expected text", path, text->string);
            return EXIT_BAD_FILE;
        }
    }
    file->views = calloc((size_t)cJSON_GetArraySize(file->header), sizeof *file->views);
    if (!file->views) {
        log_error("%s: no memory for the list of its tensors", path);
        return EXIT_RESOURCE;
    }
    for (const cJSON *entry = metadata->next; entry; entry = entry->next) {
        int status = read_entry(path, entry, data, data_bytes, &offset, &file->views[file->count]);
        if (status)
            return status;
        file->count++;
    }
    if (offset != data_bytes) {
        log_error("%s: %zu bytes of data found, expected %zu by the header", path, data_bytes, offset);
        return EXIT_BAD_FILE;
    }
    return EXIT_OK;
}

static int parse_file(const char *path, struct tensor_file *file, size_t bytes)
{
    size_t header_bytes = 0;
    const char *end = NULL;
    char *header = (char *)file->data + LENGTH_BYTES;

    int status = check_frame(path, file->data, bytes, &header_bytes);
    if (status)
        return status;
    file->header = cJSON_ParseWithLengthOpts(header, header_bytes, &end, false);
    while (file->header && end < header + header_bytes && *end == ' ')
        end++;
    if (!file->header || end != header + header_bytes) {
        log_error("%s: byte %td: damaged JSON found, expected a header of %zu bytes", path,
                  end ? end - (char *)file->data : 0, header_bytes);
        return EXIT_BAD_FILE;
    }
    status = read_entries(path, file, header + header_bytes, bytes - LENGTH_BYTES - header_bytes);
    if (status)
        return status;
    char computed[CHECKSUM_DIGITS + 1];
    snprintf(computed, sizeof computed, "%016" PRIx64, file_checksum(file->data, bytes));
    if (memcmp(computed, header + PREFIX_BYTES, CHECKSUM_DIGITS) != 0) {
        log_error("%s: byte %zu: checksum %.*s found, expected %s: damaged", path, CHECKSUM_OFFSET, CHECKSUM_DIGITS,
                  header + PREFIX_BYTES, computed);
        return EXIT_BAD_FILE;
    }
    return EXIT_OK;
}

int tensors_read(const char *path, struct tensor_file *file)
{
    size_t bytes = 0;

    *file = (struct tensor_file){0};
    int status = file_read(path, FILE_LIMIT, &file->data, &bytes);
    if (!status)
        status = parse_file(path, file, bytes);
    if (status)
        tensors_close(file);
    return status;
}

void tensors_close(struct tensor_file *file)
{
    cJSON_Delete(file->header);
    free(file->views);
    free(file->data);
    *file = (struct tensor_file){0};
}

const char *tensors_metadata(const struct tensor_file *file, const char *key)
{
    const cJSON *metadata = file->header ? ((const cJSON *)file->header)->child : NULL;

    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(metadata, key));
}

#else

int tensors_read(const char *path, struct tensor_file *file)
{
    *file = (struct tensor_file){0};
    log_error("%s: reading tensors needs the library cJSON, and this program was built without it", path);
    return EXIT_RESOURCE;
}

void tensors_close(struct tensor_file *file)
{
    *file = (struct tensor_file){0};
}

const char *tensors_metadata(const struct tensor_file *file, const char *key)
{
    (void)file;
    (void)key;
    return NULL;
}

#endif

const struct tensor_view *tensors_find(const struct tensor_file *file, const char *name)
{
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->views[i].name, name) == 0)
            return &file->views[i];
    return NULL;
}

double tensor_difference(const float *a, const float *b, size_t count)
{
    double difference = 0, largest = 0;

    for (size_t i = 0; i < count; i++) {
        if (!isfinite(a[i]) || !isfinite(b[i]))
            return NAN;
        difference = fmax(difference, fabs((double)a[i] - (double)b[i]));
        largest = fmax(largest, fabs((double)b[i]));
    }
    return difference == 0 ? 0 : difference / largest;
}
