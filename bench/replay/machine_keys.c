/* SPDX-License-Identifier: MIT
 *
 * One row a key; keys whose name carries numbers (links, tables) have a function each.
 */
#include "machine_keys.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "collectives.h"
#include "sys/decimal.h"
#include "sys/exit_codes.h"
#include "sys/log.h"

const char *const machine_type_names[MACHINE_TYPES] = {"fp32", "fp16", "bf16"};
const char *const collective_names[COLLECTIVE_OPERATIONS] = {"all_reduce", "broadcast", "reduce", "reduce_scatter",
                                                             "all_gather"};

#define NUMBER_LONGEST 63 /* characters */

/* The number at the begin of the text, written as on a command line (sys/decimal.h): decimal, finite, no sign before
 * it. *end behind it, or NULL if there is none. */
static double number(const char *text, const char **end)
{
    char digits[NUMBER_LONGEST + 1];
    double value = 0;
    size_t length = strspn(text, "0123456789.eE+-");
    snprintf(digits, sizeof(digits), "%.*s", (int)length, text);
    *end = length <= NUMBER_LONGEST && decimal_read(digits, &value) ? text + length : NULL;
    return value;
}

/* ---- plain keys ----------------------------------------------------------------------------------------------------
 */

enum value_kind { VALUE_NUMBER, VALUE_INTEGER, VALUE_FLAG, VALUE_TEXT };

struct key {
    const char *section, *name;
    enum value_kind kind;
    size_t member;
    double unit, low, high; /* the value times unit is stored; low and high are the file's */
};

#define AT(member) offsetof(struct machine, member)
static const struct key keys[] = {
    {"machine", "name", VALUE_TEXT, AT(name), 0, 0, 0},
    {"machine", "description", VALUE_TEXT, AT(description), 0, 0, 0},
    {"machine", "devices", VALUE_INTEGER, AT(devices), 1, 1, MACHINE_MAX_DEVICES},
    {"machine", "nodes", VALUE_INTEGER, AT(nodes), 1, 1, 4096},
    {"machine", "memory_mib", VALUE_NUMBER, AT(memory_bytes), 1048576, 1, 1e9},
    {"host", "launch_us", VALUE_NUMBER, AT(launch_s), 1e-6, 0, 1e6},
    {"host", "event_us", VALUE_NUMBER, AT(event_s), 1e-6, 0, 1e6},
    {"host", "copy_us", VALUE_NUMBER, AT(copy_call_s), 1e-6, 0, 1e6},
    {"host", "collective_us", VALUE_NUMBER, AT(collective_call_s), 1e-6, 0, 1e6},
    {"host", "sync_us", VALUE_NUMBER, AT(sync_s), 1e-6, 0, 1e6},
    {"host", "start_us", VALUE_NUMBER, AT(start_s), 1e-6, 0, 1e6},
    {"host", "own_work", VALUE_NUMBER, AT(own_work), 1, 0, 1000},
    {"device", "memory_gbs", VALUE_NUMBER, AT(memory_bytes_per_s), 1e9, 0.001, 1e6},
    {"device", "kernel_us", VALUE_NUMBER, AT(kernel_s), 1e-6, 0, 1e6},
    {"device", "vector_tflops", VALUE_NUMBER, AT(vector_flops_per_s), 1e12, 0.000001, 1e6},
    {"device", "copy_engines", VALUE_INTEGER, AT(copy_engines), 1, 1, 16},
    {"links", "ports", VALUE_FLAG, AT(ports), 0, 0, 1},
    {"links", "host_shared", VALUE_FLAG, AT(host_shared), 0, 0, 1},
    {"network", "gbs", VALUE_NUMBER, AT(network_bytes_per_s), 1e9, 0.001, 1e6},
    {"network", "latency_us", VALUE_NUMBER, AT(network_latency_s), 1e-6, 0, 1e6},
};

static int set_number(struct machine *machine, const struct machine_line *line, const struct key *key)
{
    char allowed[96];
    const char *end = NULL;
    double value = number(line->value, &end);
    bool whole = key->kind == VALUE_NUMBER || value == floor(value);
    if (!end || *end || !(value >= key->low && value <= key->high) || !whole) {
        snprintf(allowed, sizeof(allowed), "%s from %.10g to %.10g",
                 key->kind == VALUE_NUMBER ? "a number"
                 : key->kind == VALUE_FLAG ? "0 or 1,"
                                           : "a whole number",
                 key->low, key->high);
        return machine_wrong(line, line->value, allowed);
    }
    void *member = (char *)machine + key->member;
    if (key->kind == VALUE_INTEGER)
        *(int *)member = (int)value;
    else if (key->kind == VALUE_FLAG)
        *(bool *)member = value != 0;
    else
        *(double *)member = value * key->unit;
    return EXIT_OK;
}

static int set_plain(struct machine *machine, const struct machine_line *line, const struct key *key)
{
    if (key->kind != VALUE_TEXT)
        return set_number(machine, line, key);
    if (strlen(line->value) == 0 || strlen(line->value) >= MACHINE_TEXT || strpbrk(line->value, "\",\\"))
        return machine_wrong(line, line->value, "1 to 159 characters without quotes, commas and backslashes");
    memcpy((char *)machine + key->member, line->value, strlen(line->value) + 1);
    return EXIT_OK;
}

/* ---- curves --------------------------------------------------------------------------------------------------------
 */

/* "X:Y X:Y ..." with X rising, both above 0; stored as x, y * unit. */
static int read_curve(const struct machine_line *line, struct curve *curve, double unit)
{
    const char *allowed = "1 to 64 points X:Y, X rising, both above 0";
    const char *at = line->value, *end = NULL;
    *curve = (struct curve){0};
    while (*at) {
        double x = number(at, &end);
        if (!end || *end != ':' || curve->count == MACHINE_MAX_POINTS)
            return machine_wrong(line, at, allowed);
        double y = number(end + 1, &end);
        if (!end || (*end && *end != ' ' && *end != '\t') || !(y > 0 && y < 1e15) || !(x > 0 && x < 1e15) ||
            (curve->count && x <= curve->x[curve->count - 1]))
            return machine_wrong(line, at, allowed);
        curve->x[curve->count] = x;
        curve->y[curve->count++] = y * unit;
        at = end + strspn(end, " \t");
    }
    return curve->count ? EXIT_OK : machine_wrong(line, "nothing", allowed);
}

static int set_products(struct machine *machine, const struct machine_line *line)
{
    for (int type = 0; type < MACHINE_TYPES; type++)
        if (!strcmp(line->key, machine_type_names[type]))
            return read_curve(line, &machine->products[type], 1e12);
    return machine_wrong(line, line->value, "the key to be fp32, fp16 or bf16");
}

/* How many times as long something takes: "COUNT:FACTOR ...", or one factor for any count from 2 on. */
static int set_factors(struct curve *factors, const struct machine_line *line)
{
    static const char allowed[] = "a number from 1 to 100, or COUNT:FACTOR with counts from 2 on";
    if (strchr(line->value, ':')) {
        int status = read_curve(line, factors, 1);
        if (status)
            return status;
    } else {
        const char *end = NULL;
        double all = number(line->value, &end);
        if (!end || *end)
            return machine_wrong(line, line->value, allowed);
        *factors = (struct curve){1, {2}, {all}};
    }
    for (int i = 0; i < factors->count; i++)
        if (!(factors->x[i] >= 2 && factors->y[i] >= 1 && factors->y[i] <= 100))
            return machine_wrong(line, line->value, allowed);
    return EXIT_OK;
}

/* "OPERATION RANKS [busbw] [host] = BYTES:US ..."; with busbw GB/s stand in place of us (nccl-tests' formula). */
static int set_table(struct machine *machine, const struct machine_line *line)
{
    const char *allowed = "the key OPERATION RANKS [busbw] [host], ranks 2 to 4096, each once";
    char name[32] = "", first[16] = "", second[16] = "";
    int ranks = 0, operation = 0, found = sscanf(line->key, "%31s %d %15s %15s", name, &ranks, first, second);
    bool busbw = !strcmp(first, "busbw"), host = !strcmp(first, "host") || !strcmp(second, "host");
    while (operation < COLLECTIVE_OPERATIONS && strcmp(name, collective_names[operation]) != 0)
        operation++;
    if (found < 2 || found != 2 + busbw + host || operation == COLLECTIVE_OPERATIONS || ranks < 2 || ranks > 4096)
        return machine_wrong(line, line->value, allowed);
    for (int i = 0; i < machine->table_count; i++) {
        const struct collective_table *table = &machine->tables[i];
        if ((int)table->operation == operation && table->ranks == ranks && table->host == host)
            return machine_wrong(line, line->value, allowed);
    }
    if (machine->table_count == MACHINE_MAX_TABLES)
        return machine_wrong(line, line->value, "at most 64 tables");
    struct collective_table *table = &machine->tables[machine->table_count];
    *table = (struct collective_table){.operation = (enum collective_operation)operation, .ranks = ranks, .host = host};
    int status = read_curve(line, &table->seconds, busbw ? 1e9 : 1e-6);
    for (int i = 0; busbw && i < table->seconds.count; i++)
        table->seconds.y[i] = table->seconds.x[i] * collective_factor(table->operation, ranks) / table->seconds.y[i];
    machine->table_count += !status;
    return status;
}

/* ---- links ---------------------------------------------------------------------------------------------------------
 */

static int read_link(const struct machine_line *line, struct link *link)
{
    const char *allowed = "GB/s (0.001 to 1e6) and us (0 to 1e6), or: none";
    const char *end = NULL;
    *link = (struct link){0};
    if (!strcmp(line->value, "none"))
        return EXIT_OK;
    double rate = number(line->value, &end);
    double latency = end ? number(end + strspn(end, " \t"), &end) : -1;
    if (!end || *end || !(rate >= 0.001 && rate <= 1e6) || !(latency >= 0 && latency <= 1e6))
        return machine_wrong(line, line->value, allowed);
    *link = (struct link){rate * 1e9, latency * 1e-6};
    return EXIT_OK;
}

/* all = ..., host_up, host_down, or a pair: "0-1" both ways, "0>1" one way. */
static int set_link(struct machine *machine, const struct machine_line *line)
{
    struct link link;
    char kind = 0;
    int from = 0, to = 0, used = 0;
    int status = read_link(line, &link);
    if (status)
        return status;
    if (!strcmp(line->key, "host_up"))
        machine->host_up = link;
    else if (!strcmp(line->key, "host_down"))
        machine->host_down = link;
    else if (!strcmp(line->key, "all")) {
        for (int i = 0; i < MACHINE_MAX_DEVICES * MACHINE_MAX_DEVICES; i++)
            if (i / MACHINE_MAX_DEVICES != i % MACHINE_MAX_DEVICES)
                machine->direct[i / MACHINE_MAX_DEVICES][i % MACHINE_MAX_DEVICES] = link;
    } else if (sscanf(line->key, "%d%c%d%n", &from, &kind, &to, &used) == 3 && !line->key[used] &&
               (kind == '-' || kind == '>') && from >= 0 && to >= 0 && from != to && from < machine->devices &&
               to < machine->devices) {
        machine->direct[from][to] = link;
        if (kind == '-')
            machine->direct[to][from] = link;
    } else {
        return machine_wrong(line, line->value,
                             "the key all, host_up, host_down, or two different devices of the machine: 0-1 or 0>1");
    }
    return EXIT_OK;
}

/* ---- all -----------------------------------------------------------------------------------------------------------
 */

int machine_key(struct machine *machine, struct machine_line *line)
{
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (!strcmp(line->section, keys[i].section) && !strcmp(line->key, keys[i].name))
            return set_plain(machine, line, &keys[i]);
    if (!strcmp(line->section, "device") && !strcmp(line->key, "slowdown"))
        return set_factors(&machine->slowdown, line);
    if (!strcmp(line->section, "device") && !strcmp(line->key, "crowd_products"))
        return set_factors(&machine->crowd_products, line);
    if (!strcmp(line->section, "device") && !strcmp(line->key, "crowd_memory"))
        return set_factors(&machine->crowd_memory, line);
    if (!strcmp(line->section, "products"))
        return set_products(machine, line);
    if (!strcmp(line->section, "collectives"))
        return set_table(machine, line);
    if (!strcmp(line->section, "links"))
        return set_link(machine, line);
    log_error(
        "%s: line %d: [%s] %s = %s: no such key; sections: machine host device products links collectives network",
        line->path, line->number, line->section, line->key, line->value);
    return EXIT_USAGE;
}

int machine_complete(struct machine *machine, const char *path)
{
    const struct {
        const char *key;
        bool there;
    } needed[] = {
        {"[machine] name", machine->name[0] != 0},
        {"[device] memory_gbs", machine->memory_bytes_per_s > 0},
        {"[products] fp32", machine->products[TYPE_FP32].count > 0},
        {"[links] host_up", machine->host_up.bytes_per_s > 0},
        {"[links] host_down", machine->host_down.bytes_per_s > 0},
        {"[collectives] all_reduce", machine->devices * machine->nodes == 1 || collective_has_all_reduce(machine)},
        {"[network] gbs", machine->nodes == 1 || machine->network_bytes_per_s > 0},
    };
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        if (needed[i].there)
            continue;
        log_error("%s: %s is missing: a replay needs it", path, needed[i].key);
        return EXIT_USAGE;
    }
    for (int i = 0; i < machine->table_count; i++)
        collective_fit(&machine->tables[i]);
    return EXIT_OK;
}
