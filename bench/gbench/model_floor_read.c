/* SPDX-License-Identifier: MIT */
#include "model_floor.h"

#include <stdlib.h>
#include <string.h>

#include "record_file.h"
#include "run/statistics.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

/* Milliseconds of each round; of the part, and of each family. */
struct times {
    double part[FLOOR_ROUNDS_MOST];
    double family[FLOOR_FAMILIES_MOST][FLOOR_ROUNDS_MOST];
};

static bool is_note(const struct record_file *record, const struct soft_record_entry *entry, const char *what)
{
    return entry->kind == SOFT_RECORD_NOTE && strcmp(record_string(record, entry->name), what) == 0;
}

/* Launches, products, copies and fills: all that takes time on one device. */
static bool is_work(const struct soft_record_entry *entry)
{
    return entry->kind >= SOFT_RECORD_TASK && entry->kind <= SOFT_RECORD_TASK + SOFT_TASK_MEMSET;
}

static double milliseconds(const struct soft_record_entry *entry)
{
    return (double)(entry->end_ns - entry->start_ns) * 1e-6;
}

/* The family of this name, new if it was not there; -1: too many. */
static int family_of(struct floor_reading *reading, const char *name)
{
    for (int i = 0; i < reading->count; i++)
        if (strcmp(reading->families[i].name, name) == 0)
            return i;
    if (reading->count == FLOOR_FAMILIES_MOST)
        return -1;
    reading->families[reading->count] = (struct floor_family){.name = name};
    return reading->count++;
}

static int add(struct floor_reading *reading, struct times *times, const struct record_file *record,
               const struct soft_record_entry *entry, int round)
{
    const int index = family_of(reading, record_string(record, entry->name));
    if (index < 0) {
        log_error("%s: more than %d names of launches", record->path, FLOOR_FAMILIES_MOST);
        return EXIT_CHECK_FAILED;
    }
    times->family[index][round] += milliseconds(entry);
    if (round > 0) /* costs are the same in all rounds */
        return 0;
    struct floor_family *family = &reading->families[index];
    family->product = entry->kind == SOFT_RECORD_TASK + SOFT_TASK_PRODUCT;
    family->launches++;
    family->flops += entry->flops;
    family->bytes += entry->bytes;
    return 0;
}

/* The entries of one round, from behind its first note on. */
static int read_round(struct floor_reading *reading, struct times *times, const struct record_file *record, uint64_t first,
                      int round)
{
    const struct soft_record_entry *begin = &record->entries[first];
    for (uint64_t i = first + 1; i < record->count; i++) {
        const struct soft_record_entry *entry = &record->entries[i];
        if (is_note(record, entry, "step_end")) {
            times->part[round] = (double)(entry->start_ns - begin->start_ns) * 1e-6;
            return 0;
        }
        if (is_work(entry)) {
            const int status = add(reading, times, record, entry, round);
            if (status)
                return status;
        }
    }
    log_error("%s: a step_begin without its step_end", record->path);
    return EXIT_CHECK_FAILED;
}

static int compare_families(const void *a, const void *b)
{
    const double x = ((const struct floor_family *)a)->ms, y = ((const struct floor_family *)b)->ms;
    return (x < y) - (x > y);
}

static int read_rounds(struct floor_reading *reading, struct times *times, const struct record_file *record,
                       const struct floor_trial *trial, enum floor_part part)
{
    const uint32_t first = floor_number(trial->number, 0, part);
    int found = 0;
    for (uint64_t i = 0; i < record->count; i++) {
        const struct soft_record_entry *entry = &record->entries[i];
        if (!is_note(record, entry, "step_begin") || entry->mark != first + (uint32_t)(found * PARTS))
            continue;
        const int status = read_round(reading, times, record, i, found++);
        if (status)
            return status;
    }
    if (found == trial->rounds)
        return 0;
    log_error("%s: %d rounds of %s %s found, %d expected", record->path, found, trial->model, trial->precision, trial->rounds);
    return EXIT_CHECK_FAILED;
}

int floor_read(struct floor_reading *reading, const struct record_file *record, const struct floor_trial *trial,
               enum floor_part part)
{
    struct times *times = calloc(1, sizeof *times);
    if (!times) {
        log_error("no memory for %zu bytes of times", sizeof *times);
        return EXIT_RESOURCE;
    }
    memset(reading, 0, sizeof *reading);
    const int status = read_rounds(reading, times, record, trial, part);
    const size_t rounds = (size_t)trial->rounds;
    reading->ms = status ? 0 : statistics_median(times->part, rounds);
    for (int i = 0; i < reading->count && !status; i++)
        reading->families[i].ms = statistics_median(times->family[i], rounds);
    qsort(reading->families, (size_t)reading->count, sizeof reading->families[0], compare_families);
    free(times);
    return status;
}
