/* SPDX-License-Identifier: MIT
 *
 * One option's value: from text into its member of struct options, and back. Numbers are parsed whole and decimal: "4x",
 * "", " 4", "nan" and "0x4" are refused.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/options_table.h"
#include "sys/decimal.h"
#include "sys/exit_codes.h"
#include "sys/log.h"
#include "sys/nearest.h"

#define MIB ((size_t)1 << 20)

static int refuse_number(const struct option_row *row, const char *text, const char *kind)
{
    log_error("--%s %s: expected a %s from %.9g to %.9g", row->name, text, kind, row->low, row->high);
    return EXIT_USAGE;
}

static bool is_digits(const char *text)
{
    if (*text == '\0')
        return false;
    for (; *text; text++)
        if (!isdigit((unsigned char)*text))
            return false;
    return true;
}

static int parse_whole(const struct option_row *row, const char *text, size_t *value)
{
    errno = 0;
    unsigned long long number = is_digits(text) ? strtoull(text, NULL, 10) : 0;
    if (!is_digits(text) || errno || (double)number < row->low || (double)number > row->high)
        return refuse_number(row, text, "whole number");
    *value = (size_t)number;
    return EXIT_OK;
}

static int parse_seed(const struct option_row *row, const char *text, uint64_t *seed)
{
    errno = 0;
    unsigned long long number = is_digits(text) ? strtoull(text, NULL, 10) : 0;
    if (!is_digits(text) || errno) {
        log_error("--%s %s: expected a whole number from 0 to %" PRIu64, row->name, text, UINT64_MAX);
        return EXIT_USAGE;
    }
    *seed = number;
    return EXIT_OK;
}

static int parse_real(const struct option_row *row, const char *text, double *value)
{
    if (!decimal_read(text, value) || *value < row->low || *value > row->high)
        return refuse_number(row, text, "number");
    return EXIT_OK;
}

static size_t count_choices(const struct option_row *row)
{
    size_t count = 0;
    while (row->choices[count])
        count++;
    return count;
}

static int refuse_choice(const struct option_row *row, const char *text)
{
    char list[128] = "";
    size_t count = count_choices(row);

    for (size_t i = 0; i < count; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? (i + 1 == count ? " or " : ", ") : "", row->choices[i]);
    }
    const char *nearest = nearest_name(text, row->choices, count);
    log_error("--%s %s: expected %s%s%s%s", row->name, text, list, nearest ? " (did you mean " : "",
              nearest ? nearest : "", nearest ? "?)" : "");
    return EXIT_USAGE;
}

static int parse_choice(const struct option_row *row, const char *text, int *position)
{
    for (int i = 0; row->choices[i]; i++) {
        if (!strcmp(text, row->choices[i])) {
            *position = i;
            return EXIT_OK;
        }
    }
    return refuse_choice(row, text);
}

static int assign_number(const struct option_row *row, void *member, const char *text)
{
    size_t whole = 0;
    double real = 0;
    int status = row->kind == OPTION_REAL || row->kind == OPTION_FLOAT ? parse_real(row, text, &real)
                                                                       : parse_whole(row, text, &whole);
    if (status)
        return status;
    switch (row->kind) {
    case OPTION_INTEGER:
        *(int *)member = (int)whole;
        break;
    case OPTION_SIZE:
        *(size_t *)member = whole;
        break;
    case OPTION_MEBIBYTES:
        *(size_t *)member = whole * MIB;
        break;
    case OPTION_REAL:
        *(double *)member = real;
        break;
    default:
        *(float *)member = (float)real;
        break;
    }
    return EXIT_OK;
}

int option_assign(const struct option_row *row, struct options *options, const char *text)
{
    void *member = (char *)options + row->offset;
    int position = 0;

    switch (row->kind) {
    case OPTION_FLAG:
        *(bool *)member = true;
        return EXIT_OK;
    case OPTION_LATER:
        log_error("--%s: %s: not available in this version", row->name, row->meaning);
        return EXIT_USAGE;
    case OPTION_SEED:
        return parse_seed(row, text, member);
    case OPTION_TEXT:
        if (*text == '\0') {
            log_error("--%s: expected %s, found nothing", row->name, row->value);
            return EXIT_USAGE;
        }
        *(const char **)member = text;
        return EXIT_OK;
    case OPTION_NAME:
    case OPTION_CHOICE:
        if (parse_choice(row, text, &position))
            return EXIT_USAGE;
        if (row->kind == OPTION_NAME)
            *(const char **)member = row->choices[position];
        else
            memcpy(member, &position, sizeof position);
        return EXIT_OK;
    default:
        return assign_number(row, member, text);
    }
}

/* The shortest text that reads back as the same float: 0.01, not 0.00999999978. */
static void format_float(float value, char *buffer, size_t size)
{
    for (int digits = 1; digits <= 9; digits++) {
        snprintf(buffer, size, "%.*g", digits, (double)value);
        if (strtof(buffer, NULL) >= value && strtof(buffer, NULL) <= value)
            return;
    }
}

void option_format(const struct option_row *row, const struct options *options, char *buffer, size_t size)
{
    const void *member = (const char *)options + row->offset;
    const char *text;
    int position;

    switch (row->kind) {
    case OPTION_FLAG:
        snprintf(buffer, size, "%s", *(const bool *)member ? "1" : "0");
        break;
    case OPTION_INTEGER:
        snprintf(buffer, size, "%d", *(const int *)member);
        break;
    case OPTION_SIZE:
        snprintf(buffer, size, "%zu", *(const size_t *)member);
        break;
    case OPTION_SEED:
        snprintf(buffer, size, "%" PRIu64, *(const uint64_t *)member);
        break;
    case OPTION_MEBIBYTES:
        snprintf(buffer, size, "%zu", *(const size_t *)member / MIB);
        break;
    case OPTION_REAL:
        snprintf(buffer, size, "%.12g", *(const double *)member);
        break;
    case OPTION_FLOAT:
        format_float(*(const float *)member, buffer, size);
        break;
    case OPTION_CHOICE:
        memcpy(&position, member, sizeof position);
        snprintf(buffer, size, "%s", row->choices[position]);
        break;
    default:
        text = row->kind == OPTION_LATER ? NULL : *(const char *const *)member;
        snprintf(buffer, size, "%s", text ? text : "");
        break;
    }
}
