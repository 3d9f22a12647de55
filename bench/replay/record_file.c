/* SPDX-License-Identifier: MIT
 *
 * The reader of records (record_file.h).
 */
#include "record_file.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sys/checksum.h"
#include "sys/exit_codes.h"
#include "sys/file.h"
#include "sys/log.h"

#define MAX_FILE_BYTES ((size_t)1 << 36)

/* One wrong number: where, what was found, what may stand there. */
static int wrong(const struct record_file *record, const char *place, uint64_t found, const char *expected)
{
    log_error("%s: %s is %" PRIu64 ", expected %s", record->path, place, found, expected);
    return EXIT_BAD_FILE;
}

static int wrong_entry(const struct record_file *record, uint64_t index, const char *member, double found,
                       const char *expected)
{
    log_error("%s: entry %" PRIu64 " (kind %u): %s is %.17g, expected %s", record->path, index,
              record->entries[index].kind, member, found, expected);
    return EXIT_BAD_FILE;
}

static int check_header(const struct record_file *record, const void *data, size_t bytes)
{
    const struct soft_record_header *header = data;
    if (bytes < sizeof(*header)) {
        log_error("%s: has %zu bytes, a record has at least %zu", record->path, bytes, sizeof(*header));
        return EXIT_BAD_FILE;
    }
    if (memcmp(header->magic, SOFT_RECORD_MAGIC, sizeof(header->magic)) != 0) {
        log_error("%s: begins with \"%.8s\", a record begins with \"%s\"", record->path, header->magic,
                  SOFT_RECORD_MAGIC);
        return EXIT_BAD_FILE;
    }
    if (header->version < 1 || header->version > SOFT_RECORD_VERSION)
        return wrong(record, "version (offset 8)", header->version, "1 to 3");
    if (header->flags > 1)
        return wrong(record, "flags (offset 16)", header->flags, "0 or 1");
    if (header->entry_bytes != sizeof(struct soft_record_entry))
        return wrong(record, "entry_bytes (offset 12)", header->entry_bytes, "80");
    size_t room = bytes - sizeof(*header);
    if (header->string_bytes > room || header->string_bytes % 8)
        return wrong(record, "string_bytes (offset 32)", header->string_bytes, "a multiple of 8 within the file");
    room -= (size_t)header->string_bytes;
    if (header->entry_count != room / sizeof(struct soft_record_entry) || room % sizeof(struct soft_record_entry)) {
        log_error("%s: entry_count (offset 40) is %" PRIu64 ", but %zu bytes of entries are there: the file is cut",
                  record->path, header->entry_count, room);
        return EXIT_BAD_FILE;
    }
    uint64_t sum = checksum(CHECKSUM_SEED, header + 1, bytes - sizeof(*header));
    if (sum == header->checksum)
        return EXIT_OK;
    log_error("%s: checksum (offset 48) is %016" PRIx64 ", the bytes behind it have %016" PRIx64, record->path,
              header->checksum, sum);
    return EXIT_BAD_FILE;
}

static int read_strings(struct record_file *record)
{
    uint64_t count = record->header->string_count, bytes = record->header->string_bytes, at = 0;
    if (count == 0 || count > RECORD_MAX_STRINGS || count > bytes)
        return wrong(record, "string_count (offset 24)", count, "1 to 65536, and not more than string_bytes");
    record->text = (const char *)(record->header + 1);
    record->offsets = malloc((size_t)count * sizeof(*record->offsets));
    if (!record->offsets) {
        log_error("%s: no memory for %" PRIu64 " strings", record->path, count);
        return EXIT_RESOURCE;
    }
    for (uint64_t i = 0; i < count; i++) {
        const char *end = at < bytes ? memchr(record->text + at, 0, (size_t)(bytes - at)) : NULL;
        if (!end || at > UINT32_MAX)
            return wrong(record, "the number of strings that end", i, "string_count");
        if (i > 0 && end == record->text + at)
            return wrong(record, "the number of a string that is empty", i, "0 only: string_count is less");
        record->offsets[i] = (uint32_t)at;
        at = (uint64_t)(end - record->text) + 1;
    }
    if (bytes - at >= 8)
        return wrong(record, "the padding behind the last string", bytes - at, "less than 8 bytes");
    return record->text[0] ? wrong(record, "the length of string 0", strlen(record->text), "0") : EXIT_OK;
}

static int check_facts(const struct record_file *record, uint64_t i)
{
    const struct soft_record_facts *facts = record_facts(&record->entries[i]);
    if (facts->ranks == 0)
        return wrong_entry(record, i, "ranks", 0, "at least 1");
    if (facts->rank >= facts->ranks)
        return wrong_entry(record, i, "rank", facts->rank, "less than ranks");
    if (facts->root < 0 || facts->root >= facts->ranks)
        return wrong_entry(record, i, "root", facts->root, "0 to ranks - 1");
    if (facts->name >= record->header->string_count)
        return wrong_entry(record, i, "name", facts->name, "less than string_count");
    if (facts->count > (uint64_t)RECORD_MAX_COST)
        return wrong_entry(record, i, "count", (double)facts->count, "at most 1e18");
    return EXIT_OK;
}

static int check_cost(const struct record_file *record, uint64_t i, const char *member, double cost)
{
    if (isfinite(cost) && cost >= 0 && cost <= RECORD_MAX_COST)
        return EXIT_OK;
    return wrong_entry(record, i, member, cost, "0 to 1e18");
}

static int check_entry(const struct record_file *record, uint64_t i)
{
    const struct soft_record_entry *entry = &record->entries[i];
    bool task = entry->kind >= SOFT_RECORD_TASK;
    if (entry->kind == SOFT_RECORD_FACTS)
        return check_facts(record, i);
    if (entry->kind == 0 || (entry->kind > SOFT_RECORD_SETTING && !task) ||
        entry->kind > SOFT_RECORD_TASK + SOFT_TASK_COLLECTIVE)
        return wrong_entry(record, i, "kind", entry->kind, "1 to 6 or 16 to 22");
    if (entry->name >= record->header->string_count)
        return wrong_entry(record, i, "name", entry->name, "less than string_count");
    if (entry->range >= record->header->string_count)
        return wrong_entry(record, i, "range", entry->range, "less than string_count");
    if (entry->device < (task ? 0 : -1) || entry->device >= SOFTGPU_MAX_DEVICES)
        return wrong_entry(record, i, "device", entry->device, task ? "0 to 63" : "-1 to 63");
    if (task && entry->stream == 0)
        return wrong_entry(record, i, "stream", 0, "at least 1");
    if (entry->thread == 0)
        return wrong_entry(record, i, "thread", 0, "at least 1");
    if (entry->end_ns < entry->start_ns)
        return wrong_entry(record, i, "end", (double)entry->end_ns, "not before start");
    if (entry->kind == SOFT_RECORD_TASK + SOFT_TASK_COPY &&
        ((entry->mark >> 16) > SOFTGPU_MAX_DEVICES || (entry->mark & 0xffff) > SOFTGPU_MAX_DEVICES))
        return wrong_entry(record, i, "mark", entry->mark, "devices 0 to 64 in both halves");
    int bad = check_cost(record, i, "flops", entry->flops);
    return bad ? bad : check_cost(record, i, "bytes", entry->bytes);
}

int record_parse(struct record_file *record, const char *path, const void *data, size_t bytes)
{
    *record = (struct record_file){.path = path};
    int status = check_header(record, data, bytes);
    if (status)
        return status;
    record->header = data;
    record->count = record->header->entry_count;
    status = read_strings(record);
    record->entries = (const void *)((const char *)(record->header + 1) + record->header->string_bytes);
    for (uint64_t i = 0; i < record->count && !status; i++)
        status = check_entry(record, i);
    if (status)
        record_close(record);
    return status;
}

int record_load(struct record_file *record, const char *path)
{
    void *data = NULL;
    size_t bytes = 0;
    *record = (struct record_file){.path = path};
    int status = file_read(path, MAX_FILE_BYTES, &data, &bytes);
    if (status)
        return status;
    status = record_parse(record, path, data, bytes);
    if (status)
        free(data);
    else
        record->data = data;
    return status;
}

void record_close(struct record_file *record)
{
    free(record->offsets);
    free(record->data);
    *record = (struct record_file){.path = record->path};
}

const struct soft_record_facts *record_facts(const struct soft_record_entry *entry)
{
    return (const struct soft_record_facts *)(const void *)entry;
}

const char *record_string(const struct record_file *record, uint32_t number)
{
    return record->text + record->offsets[number];
}
