/* SPDX-License-Identifier: MIT
 *
 * Which cores are ours. hwloc tells which processors share a physical core; without it each processor that
 * sched_getaffinity allows counts as one. Read once, from the main thread's mask, so that threads which are bound later
 * do not change the answer.
 */
#include "topology.h"

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cgroup.h"
#include "config.h"

#if HAVE_HWLOC
#include <hwloc.h>
#include <hwloc/glibc-sched.h>
#endif

static pthread_once_t once = PTHREAD_ONCE_INIT;
static cpu_set_t *cores; /* the allowed processors of each usable core */
static int core_count;   /* 0: nothing is known, nothing is bound */
static int usable;       /* core_count, or fewer by a quota */
static char source[64] = "sched_getaffinity";

static void add_core(const cpu_set_t *processors)
{
    cpu_set_t *grown = realloc(cores, sizeof(*cores) * (size_t)(core_count + 1));
    if (!grown)
        return;
    cores = grown;
    cores[core_count++] = *processors;
}

#if HAVE_HWLOC
static void read_cores(const cpu_set_t *allowed)
{
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology))
        return;
    if (!hwloc_topology_load(topology)) {
        int found = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
        for (int i = 0; i < found; i++) {
            hwloc_obj_t core = hwloc_get_obj_by_type(topology, HWLOC_OBJ_CORE, (unsigned)i);
            cpu_set_t processors;
            if (hwloc_cpuset_to_glibc_sched_affinity(topology, core->cpuset, &processors, sizeof(processors)))
                continue;
            CPU_AND(&processors, &processors, allowed);
            if (CPU_COUNT(&processors) > 0)
                add_core(&processors);
        }
        snprintf(source, sizeof(source), "hwloc %s", HWLOC_VERSION);
    }
    hwloc_topology_destroy(topology);
}
#else
static void read_cores(const cpu_set_t *allowed)
{
    (void)allowed;
}
#endif

static void read_processors(const cpu_set_t *allowed)
{
    for (int i = 0; i < CPU_SETSIZE; i++) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(i, &one);
        if (CPU_ISSET(i, allowed))
            add_core(&one);
    }
}

static void read_topology(void)
{
    cpu_set_t allowed;
    if (!sched_getaffinity(getpid(), sizeof(allowed), &allowed)) {
        read_cores(&allowed);
        if (core_count == 0)
            read_processors(&allowed);
    }
    usable = core_count > 0 ? core_count : 1;
    double quota = cgroup_cpu_quota();
    if (quota > 0 && quota < usable)
        usable = quota < 1 ? 1 : (int)quota;
}

int topology_usable_cores(void)
{
    pthread_once(&once, read_topology);
    return usable;
}

const char *topology_source(void)
{
    pthread_once(&once, read_topology);
    return source;
}

int topology_bind_thread(int first, int count)
{
    pthread_once(&once, read_topology);
    if (core_count == 0 || first < 0 || count < 1)
        return -1;
    cpu_set_t wanted;
    CPU_ZERO(&wanted);
    for (int i = 0; i < count && i < usable; i++)
        CPU_OR(&wanted, &wanted, &cores[(first + i) % usable]);
    return pthread_setaffinity_np(pthread_self(), sizeof(wanted), &wanted) ? -1 : 0;
}

void topology_read_binding(char *list, size_t size)
{
    if (size == 0)
        return;
    list[0] = '\0';
    cpu_set_t set;
    if (pthread_getaffinity_np(pthread_self(), sizeof(set), &set))
        return;
    size_t used = 0;
    for (int first = 0; first < CPU_SETSIZE; first++) {
        if (!CPU_ISSET(first, &set))
            continue;
        int last = first;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set))
            last++;
        char part[32];
        int length = last > first ? snprintf(part, sizeof(part), "%s%d-%d", used ? "," : "", first, last)
                                  : snprintf(part, sizeof(part), "%s%d", used ? "," : "", first);
        if (length < 0 || used + (size_t)length >= size)
            return;
        memcpy(list + used, part, (size_t)length + 1);
        used += (size_t)length;
        first = last;
    }
}

static void read_list(const char *list, cpu_set_t *set)
{
    CPU_ZERO(set);
    for (int used = 0; *list; list += used + (list[used] == ',')) {
        int first, last;
        used = 0;
        if (sscanf(list, "%d-%d%n", &first, &last, &used) != 2 || used == 0) {
            if (sscanf(list, "%d%n", &first, &used) != 1)
                return;
            last = first;
        }
        for (int i = first; i >= 0 && i <= last && i < CPU_SETSIZE; i++)
            CPU_SET(i, set);
    }
}

bool topology_lists_meet(const char *a, const char *b)
{
    cpu_set_t one, other, both;

    read_list(a, &one);
    read_list(b, &other);
    CPU_AND(&both, &one, &other);
    return CPU_COUNT(&both) > 0;
}

size_t topology_memory_bytes(void)
{
    size_t machine = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    size_t limit = cgroup_memory_limit();
    return limit < machine ? limit : machine;
}

size_t topology_memory_free(void)
{
    size_t available = SIZE_MAX;
    FILE *file = fopen("/proc/meminfo", "re");
    if (file) {
        char line[128];
        const char name[] = "MemAvailable:"; /* followed by KiB */
        while (fgets(line, sizeof(line), file)) {
            if (!strncmp(line, name, strlen(name)))
                available = (size_t)strtoull(line + strlen(name), NULL, 10) * 1024;
        }
        fclose(file);
    }
    size_t left = cgroup_memory_left();
    return left < available ? left : available;
}
