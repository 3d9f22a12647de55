/* SPDX-License-Identifier: MIT
 *
 * A limit counts wherever it stands between our group and the root, so each question walks the folders upwards.
 */
#include "cgroup.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOT "/sys/fs/cgroup"
#define PATH_BYTES 4096

/* Where the limits of one resource stand: the mount, our group below it, and whether it is version 2. */
struct place {
    char mount[64];
    char group[PATH_BYTES];
    int version;
};

/* Finds our group for a version 1 controller, or version 2's. False if there are no control groups. */
static int find_place(const char *controller, struct place *place)
{
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (!file)
        return 0;
    char line[PATH_BYTES + 128];
    place->version = 0;
    while (fgets(line, sizeof(line), file)) { /* "4:memory,cpu:/group" or "0::/group" */
        char *names = strchr(line, ':');
        char *group = names ? strchr(names + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        int unified = names[1] == '\0';
        if (!unified && !strstr(names + 1, controller))
            continue;
        if (unified && place->version)
            continue; /* a version 1 controller of that name wins */
        place->version = unified ? 2 : 1;
        snprintf(place->mount, sizeof(place->mount), unified ? ROOT : ROOT "/%s", controller);
        snprintf(place->group, sizeof(place->group), "%.*s", PATH_BYTES - 1, strcmp(group, "/") ? group : "");
    }
    fclose(file);
    return place->version;
}

/* Opens MOUNT/GROUP/NAME. */
static FILE *open_limit(const struct place *place, const char *name)
{
    char path[2 * PATH_BYTES];
    snprintf(path, sizeof(path), "%s%s/%s", place->mount, place->group, name);
    return fopen(path, "re");
}

/* Goes to the parent group; false at the root. */
static int go_up(struct place *place)
{
    char *slash = strrchr(place->group, '/');
    if (!slash)
        return 0;
    *slash = '\0';
    return 1;
}

/* The numbers that stand first in a file, at most `most`; how many there are ("max" is none). */
static int read_numbers(const struct place *place, const char *name, double *numbers, int most)
{
    char line[128] = "";
    FILE *file = open_limit(place, name);
    if (!file)
        return 0;
    char *next = fgets(line, sizeof(line), file) ? line : NULL;
    fclose(file);
    int count = 0;
    while (next && count < most) {
        char *end;
        numbers[count] = strtod(next, &end);
        if (end == next)
            break;
        next = end;
        count++;
    }
    return count;
}

static double read_number(const struct place *place, const char *name, double missing)
{
    double value;
    return read_numbers(place, name, &value, 1) == 1 ? value : missing;
}

static double quota_here(const struct place *place)
{
    double limit[2] = {-1, 100000}; /* microseconds of processor time, of each period */
    if (place->version == 1) {
        limit[0] = read_number(place, "cpu.cfs_quota_us", -1);
        limit[1] = read_number(place, "cpu.cfs_period_us", 0);
    } else if (read_numbers(place, "cpu.max", limit, 2) != 2) {
        return 0;
    }
    return limit[0] > 0 && limit[1] > 0 ? limit[0] / limit[1] : 0;
}

double cgroup_cpu_quota(void)
{
    struct place place;
    double least = 0;
    if (!find_place("cpu", &place))
        return 0;
    do {
        double here = quota_here(&place);
        if (here > 0 && (least <= 0 || here < least))
            least = here;
    } while (go_up(&place));
    return least;
}

static double limit_here(const struct place *place)
{
    double limit = read_number(place, place->version == 1 ? "memory.limit_in_bytes" : "memory.max", -1);
    return limit >= 0 && limit < 0x1p60 ? limit : -1; /* version 1 writes "no limit" as nearly 2^63 */
}

/* Bytes in use that can't be dropped. */
static double used_here(const struct place *place)
{
    double used = read_number(place, place->version == 1 ? "memory.usage_in_bytes" : "memory.current", 0);
    FILE *file = open_limit(place, "memory.stat");
    if (!file)
        return used;
    char line[128]; /* "inactive_file 4096" */
    const char *wanted = place->version == 1 ? "total_inactive_file " : "inactive_file ";
    while (fgets(line, sizeof(line), file)) {
        if (!strncmp(line, wanted, strlen(wanted)))
            used -= strtod(line + strlen(wanted), NULL);
    }
    fclose(file);
    return used > 0 ? used : 0;
}

size_t cgroup_memory_limit(void)
{
    struct place place;
    double least = 0x1p63;
    if (!find_place("memory", &place))
        return SIZE_MAX;
    do {
        double limit = limit_here(&place);
        if (limit >= 0 && limit < least)
            least = limit;
    } while (go_up(&place));
    return least < 0x1p60 ? (size_t)least : SIZE_MAX;
}

size_t cgroup_memory_left(void)
{
    struct place place;
    double least = 0x1p63;
    if (!find_place("memory", &place))
        return SIZE_MAX;
    do {
        double limit = limit_here(&place);
        if (limit < 0)
            continue;
        double left = limit - used_here(&place);
        least = left < 0 ? 0 : left < least ? left : least;
    } while (go_up(&place));
    return least < 0x1p60 ? (size_t)least : SIZE_MAX;
}
